"""Learning, compiled: gradients inside and outside, optimizers and schedules, random numbers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from agreement import agree, assert_equal

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

X = fw.tensor([[1.0, -2.0, 0.5], [0.3, 0.8, -1.0], [2.0, 1.0, 0.1], [-0.4, 0.2, 0.6]])
LABELS = fw.tensor([0, 1, 1, 0])


def network(seed: int = 1) -> nn.Sequential:
    fw.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


# ---- steps of training
def test_schedules_and_clipping() -> None:
    def make() -> Any:
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)

        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), LABELS)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.2)
            optimizer.step()
            return loss.detach(), norm

        return step, [model, optimizer, schedule]

    pairs = [make(), make()]
    run = fw.compile(pairs[1][0], fullgraph=True)
    for k in range(8):
        assert_equal(run(X + k / 10), pairs[0][0](X + k / 10), f"step {k}")
        assert_equal(pairs[1][1][0], pairs[0][1][0])
        for _, (_, _, schedule) in pairs:
            schedule.step()
    assert run.stats.recordings <= 2 and run.stats.replays >= 6


def test_a_learning_rate_in_a_python_number() -> None:
    def make() -> Any:
        w = fw.tensor([1.0, 2.0, 3.0], requires_grad=True)

        def step(x: fw.Tensor, rate: float) -> fw.Tensor:
            w.grad = None
            loss = ((x * w) ** 2).sum()
            loss.backward()
            with fw.no_grad():
                w.copy_(w - rate * w.grad)
            return loss.detach()

        return step, [w]

    f = agree(make, *[[X, 0.01 / (1 + k)] for k in range(10)], recordings=2)
    assert f.stats.replays >= 8


def test_gradient_accumulation() -> None:
    def make() -> Any:
        model = network()
        optimizer = optim.Adam(model.parameters(), lr=0.05)

        def step(x: fw.Tensor, last: bool) -> fw.Tensor:
            loss = F.cross_entropy(model(x), LABELS) / 4
            loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
            return loss.detach()

        return step, [model]

    f = agree(make, *[[X * (1 + k / 8), k % 4 == 3] for k in range(16)])
    assert f.stats.recordings <= 5 and f.stats.replays >= 11


def test_a_moving_average_of_the_weights() -> None:
    def make() -> Any:
        model = network()
        average = copy.deepcopy(model)
        optimizer = optim.AdamW(model.parameters(), lr=0.05)

        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), LABELS)
            loss.backward()
            optimizer.step()
            with fw.no_grad():
                for mean, p in zip(average.parameters(), model.parameters()):
                    mean.copy_(0.9 * mean + 0.1 * p)
            return loss.detach()

        return step, [model, average]

    f = agree(make, *[[X * (1 + k / 8)] for k in range(6)], recordings=2)
    assert f.stats.replays >= 4


def test_statistics_of_a_batch_norm() -> None:
    def make() -> Any:
        norm = nn.BatchNorm1d(3)
        return lambda x: norm(x).detach(), [norm, norm._buffers]

    agree(make, *[[X * (1 + k)] for k in range(5)], recordings=2)


def test_two_networks_against_each_other() -> None:
    def make() -> Any:
        maker, critic = network(2), nn.Linear(2, 1)
        optimizers = [optim.Adam(net.parameters(), lr=0.01) for net in (maker, critic)]

        def step(real: fw.Tensor) -> Any:
            made = maker(fw.randn(4, 3))
            optimizers[1].zero_grad()
            error = F.softplus(critic(made.detach())).mean() + F.softplus(-critic(real)).mean()
            error.backward()
            optimizers[1].step()
            optimizers[0].zero_grad()
            success = F.softplus(-critic(made)).mean()
            success.backward()
            optimizers[0].step()
            return error.detach(), success.detach()

        return step, [maker, critic]

    f = agree(make, *[[X[:, :2] + k] for k in range(5)], recordings=2)
    assert f.stats.replays >= 3


def test_reinforce() -> None:
    """An episode whose length the policy decides, and a step of learning from it."""
    def make() -> Any:
        policy = network(3)
        optimizer = optim.Adam(policy.parameters(), lr=0.02)

        def episode(state: fw.Tensor) -> Any:
            logs, rewards, n = fw.tensor(0.0), fw.tensor(0.0), 0
            while n < 6:
                chances = fw.log_softmax(policy(state), -1)
                action = fw.multinomial(fw.exp(chances.detach()), 1)[0]
                logs = logs + chances[action]
                state = state * 0.8 + fw.where(action == 1, 0.3, -0.3)
                rewards = rewards + state.sum()
                n += 1
                if abs(state.sum()) > 2.5:
                    break
            optimizer.zero_grad()
            (-logs * rewards).backward()
            optimizer.step()
            return rewards.detach(), n

        return episode, [policy]

    agree(make, *[[X[k % 4]] for k in range(10)], fullgraph=False)


def test_a_step_that_is_left_out_when_the_loss_is_bad() -> None:
    def make() -> Any:
        w = fw.tensor([1.0, 2.0, 3.0], requires_grad=True)
        optimizer = optim.SGD([w], lr=0.1)
        skipped = []

        def step(x: fw.Tensor) -> Any:
            optimizer.zero_grad()
            loss = (x * w).sum()
            loss.backward()
            if not fw.isfinite(loss) or loss > 50:
                skipped.append(1)
                return None
            optimizer.step()
            return loss.item()

        return step, [w, skipped]

    agree(make, *[[X * k] for k in (1.0, 2.0, 900.0, 1.0, float("inf"), 800.0, 3.0)])


# ---- gradients asked for outside
def test_backward_outside() -> None:
    def make() -> Any:
        w = fw.tensor([1.0, 2.0, 3.0], requires_grad=True)
        return lambda x: fw.tanh(x * w).sum(-1), [w]

    (f, (w,)), (plain, (other,)) = make(), make()
    compiled = fw.compile(f, fullgraph=True)
    for k in range(5):
        got, want = compiled(X * k), plain(X * k)
        assert_equal(got, want)
        (got.sum() + got[0]).backward()
        (want.sum() + want[0]).backward()
        assert_equal(w.grad, other.grad)


def test_backward_outside_through_a_decision() -> None:
    w = fw.tensor([1.0, 2.0, 3.0], requires_grad=True)

    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        y = x * w
        return y.sum() if y.sum() > 0 else (y * y).sum()

    for k in (1.0, -1.0, 2.0, -2.0, 3.0, -3.0):
        grads = []
        for fn in (f, f.original):
            w.grad = None
            fn(X * k).backward()
            grads.append(w.grad)
        assert_equal(*grads)


def test_gradients_of_inputs() -> None:
    f = fw.compile(lambda x: (x * x).sum() * 2)
    for k in range(4):
        x = (X * k).requires_grad_()
        f(x).backward()
        assert_equal(x.grad, X * k * 4)


def test_double_backward() -> None:
    def penalty(x: fw.Tensor, w: fw.Tensor) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        (slope,) = fw.autograd.grad(fw.tanh(x * w).sum(), [x], create_graph=True)
        ((slope ** 2).sum()).backward()
        return w.grad, slope.detach()

    agree(lambda: penalty, *[[X * k, X] for k in range(4)], recordings=2)


def test_hooks() -> None:
    def make() -> Any:
        w = fw.tensor([1.0, 2.0, 3.0], requires_grad=True)
        w.register_hook(lambda g: g * 2)

        def f(x: fw.Tensor) -> None:
            y = x * w
            y.register_hook(lambda g: g + 1)
            y.sum().backward()

        return f, [w]

    agree(make, *[[X * k] for k in range(4)])


class Clamp(fw.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
        ctx.save_for_backward(x)
        return fw.clip(x, -1, 1)

    @staticmethod
    def backward(ctx: Any, grad: fw.Tensor) -> fw.Tensor:
        (x,) = ctx.saved_tensors
        return grad * 0.5 * x


def test_a_function_with_a_gradient_of_its_own() -> None:
    def make() -> Any:
        w = fw.tensor([1.0, 2.0, 3.0], requires_grad=True)

        def f(x: fw.Tensor) -> fw.Tensor:
            w.grad = None
            y = Clamp.apply(x * w)
            (y * x).sum().backward()
            return y.detach()

        return f, [w]

    agree(make, *[[X * k] for k in range(4)], recordings=2)


def test_checkpoint() -> None:
    from fusewire.utils.checkpoint import checkpoint

    def make() -> Any:
        model = network()

        def f(x: fw.Tensor) -> fw.Tensor:
            model.zero_grad()
            loss = checkpoint(model, x, use_reentrant=False).sum()
            loss.backward()
            return loss.detach()

        return f, [model]

    agree(make, *[[X * k] for k in range(4)], recordings=2)


# ---- transforms
def test_transforms_of_compiled_functions() -> None:
    f = fw.compile(lambda x: (fw.tanh(x) ** 2).sum())
    for k in range(3):
        assert_equal(fw.func.grad(f)(X * k), fw.func.grad(f.original)(X * k))
        assert_equal(fw.func.vmap(f)(X * k), fw.func.vmap(f.original)(X * k))


def test_compiled_transforms() -> None:
    def loss(w: fw.Tensor, x: fw.Tensor) -> fw.Tensor:
        return (fw.tanh(w * x) ** 2).sum()

    per_example = fw.func.vmap(fw.func.grad(loss), in_axes=(None, 0))
    agree(lambda: per_example, *[[X[0], X * k] for k in range(4)], recordings=1)


# ---- random numbers
def test_dropout_is_that_of_eager() -> None:
    def make() -> Any:
        model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).requires_grad_(False)
        with fw.no_grad():
            model[0].weight.copy_(fw.ones(3, 3))
        return lambda x: (model(x), fw.rand(2), fw.randint(0, 9, (3,)))

    f = fw.compile(make(), fullgraph=True)
    model = f.original
    fw.manual_seed(5)
    expected = [model(X * k) for k in range(6)]
    fw.manual_seed(5)
    got = [f(X * k) for k in range(6)]
    for one, two in zip(got, expected):
        assert_equal(one, two)


@pytest.mark.parametrize("clear", [False, True])
def test_random_numbers_go_on_over_recordings(clear: bool) -> None:
    def f(x: fw.Tensor) -> Any:
        if x.sum() > 0:
            return fw.rand(3) * x
        return fw.randn(2), fw.rand(1)

    compiled = fw.compile(f, fullgraph=True)
    scales = (1.0, -1.0, 2.0, -2.0, 3.0)
    fw.manual_seed(7)
    expected = [f(X[0] * -k) for k in scales]
    fw.manual_seed(7)
    for k, want in zip(scales, expected):
        assert_equal(compiled(X[0] * -k), want)
        if clear:
            compiled.clear()
