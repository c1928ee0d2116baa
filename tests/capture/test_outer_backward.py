"""backward() outside of the compiled function: gradients, hooks and errors are those of eager."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.capture.graph.graph import Graph
from fusewire.capture.replay.compiled_function import CaptureWarning, Compiled
from fusewire.codegen.compile import compile_graph
from fusewire.eager.errors import CodegenError
from fusewire.utils.checkpoint import checkpoint

Step = Callable[[int], list[Any]]


def numbers(*shape: int, seed: int = 0) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def as_eager(make: Callable[[Any], Step], calls: int = 4, recordings: int = 1) -> None:
    """make(compile) gives a step; compiled, each call of it gives what eager's gives."""
    made: list[Any] = []

    def compiled(f: Any) -> Any:
        made.append(fw.compile(f, fullgraph=True))
        return made[-1]

    runs = []
    for compile in (compiled, lambda f: f):
        fw.manual_seed(7)
        step = make(compile)
        runs.append([step(k) for k in range(calls)])
    for k, (got, expected) in enumerate(zip(*runs)):
        assert len(got) == len(expected)
        for i, (a, b) in enumerate(zip(got, expected)):
            assert (a is None) == (b is None), (k, i)
            if a is not None:
                assert_same(a, b, 50, f"call {k}, value {i}")
    for f in made:
        assert f.stats.recordings <= recordings and f.stats.replays, f.misses


def gradients(*modules: nn.Module) -> list[Any]:
    found = [p.grad for m in modules for p in m.parameters()]
    for m in modules:
        m.zero_grad()
    return found


# ---- models


def test_a_model_and_a_loss_outside() -> None:
    def make(compile: Any) -> Step:
        model = nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
        forward = compile(lambda x: model(x))

        def step(k: int) -> list[Any]:
            x = numbers(8, 5, seed=k).requires_grad_()
            loss = F.cross_entropy(forward(x), fw.arange(8) % 3)
            loss.backward()
            return [loss.detach(), x.grad, *gradients(model)]

        return step

    as_eager(make)


def test_convolutions_with_batch_norm_trained_outside() -> None:
    def make(compile: Any) -> Step:
        model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
                              nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))
        loss_of = compile(lambda x: F.cross_entropy(model(x), fw.arange(4) % 3))
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1)

        def step(k: int) -> list[Any]:
            optimizer.zero_grad()
            loss = loss_of(numbers(4, 2, 6, 6, seed=k))
            loss.backward()
            optimizer.step()
            return [loss.detach(), *model.buffers(), *[p.detach() for p in model.parameters()]]

        return step

    as_eager(make, 5)


def test_dropout_goes_back_by_the_mask_of_its_forward() -> None:
    def make(compile: Any) -> Step:
        drop = nn.Dropout(0.5)
        f = compile(lambda x: drop(x * 2).sum())

        def step(k: int) -> list[Any]:
            x = numbers(50, seed=k).requires_grad_()
            f(x).backward()
            return [x.grad, fw.rand(2)]

        return step

    as_eager(make)


def test_an_embedding() -> None:
    def make(compile: Any) -> Step:
        table, head = nn.Embedding(10, 6), nn.Linear(6, 4)
        f = compile(lambda rows: head(table(rows)).square().mean())

        def step(k: int) -> list[Any]:
            f(fw.tensor([1, 2, 2, 9 - k])).backward()
            return gradients(table, head)

        return step

    as_eager(make)


def test_sizes_that_vary() -> None:
    def make(compile: Any) -> Step:
        model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
        f = compile(lambda x: F.log_softmax(model(x), 1).mean() * x.shape[0])

        def step(k: int) -> list[Any]:
            x = numbers(3 + k // 2, 5, seed=k).requires_grad_()
            f(x).backward()
            y = x.detach().requires_grad_()
            slope, = fw.grad(f(y), y, create_graph=True)
            slope.square().sum().backward()
            return [x.grad, y.grad, *gradients(model)]

        return step

    as_eager(make, 6, recordings=2)


def test_a_decision_on_values() -> None:
    def make(compile: Any) -> Step:
        layer = nn.Linear(3, 3)

        def f(x: fw.Tensor) -> fw.Tensor:
            h = layer(x)
            return h.square().sum() if h.sum() > 0 else h.exp().sum()

        compiled = compile(f)

        def step(k: int) -> list[Any]:
            compiled(numbers(2, 3, seed=k)).backward()
            return gradients(layer)

        return step

    as_eager(make, 8, recordings=2)


def test_a_number_that_changes() -> None:
    def make(compile: Any) -> Step:
        layer = nn.Linear(3, 3)
        f = compile(lambda x, scale: (layer(x) * scale + x.mean().item()).square().sum())

        def step(k: int) -> list[Any]:
            x = numbers(2, 3, seed=k).requires_grad_()
            f(x, 0.5 + k).backward()
            y = x.detach().requires_grad_()
            slope, = fw.grad(f(y, 0.5 + k), y, create_graph=True)
            slope.square().sum().backward()
            return [x.grad, y.grad, *gradients(layer)]

        return step

    as_eager(make, 6, recordings=2)


# ---- results


@pytest.mark.parametrize("which", range(3))
def test_two_results_of_which_some_are_used(which: int) -> None:
    def make(compile: Any) -> Step:
        body, left, right = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 2)

        def f(x: fw.Tensor) -> Any:
            h = body(x).tanh()
            return left(h), right(h).exp()

        compiled = compile(f)

        def step(k: int) -> list[Any]:
            a, b = compiled(numbers(2, 3, seed=k))
            (a.sum(), b.sum(), (a * b).sum())[which].backward()
            return gradients(body, left, right)

        return step

    as_eager(make)


def test_a_result_that_another_one_is_computed_from() -> None:
    """Hooks, retain_grad and fw.grad see at the first what comes through the second."""
    def make(compile: Any) -> Step:
        body, head = nn.Linear(3, 4), nn.Linear(4, 4)

        def f(x: fw.Tensor) -> Any:
            t = body(x).tanh()
            h = head(t)
            return h, (h * t).sum()

        compiled = compile(f)

        def step(k: int) -> list[Any]:
            x = numbers(2, 3, seed=k)
            h, loss = compiled(x)
            (loss + h.sum()).backward()
            found = gradients(body, head)
            h, loss = compiled(x)
            h.retain_grad()
            loss.backward()
            found += [h.grad, *gradients(body, head)]
            h, loss = compiled(x)
            h.register_hook(lambda g: g * 2)
            loss.backward()
            h, loss = compiled(x)
            return [*found, *fw.grad(loss, [h, body.weight]), *gradients(body, head)]

        return step

    as_eager(make)


def test_states_of_a_loop_over_time() -> None:
    def make(compile: Any) -> Step:
        cell = nn.RNNCell(3, 4)

        def f(xs: list[fw.Tensor]) -> list[fw.Tensor]:
            h, states = fw.zeros(2, 4), []
            for x in xs:
                h = cell(x, h)
                states.append(h)
            return states

        compiled = compile(f)

        def step(k: int) -> list[Any]:
            states = compiled([numbers(2, 3, seed=10 * k + i) for i in range(4)])
            states[1].retain_grad()
            (states[0] * states[2]).sum().backward()
            return [states[1].grad, *gradients(cell)]

        return step

    as_eager(make)


def test_a_result_that_is_used_twice() -> None:
    def make(compile: Any) -> Step:
        f = compile(lambda x: x.sin())

        def step(k: int) -> list[Any]:
            x = numbers(3, seed=k).requires_grad_()
            y = f(x)
            (y * y + y.exp()).sum().backward()
            return [x.grad]

        return step

    as_eager(make)


def test_losses_of_separate_networks_go_back_one_after_the_other() -> None:
    def make(compile: Any) -> Step:
        a, b = nn.Linear(3, 3), nn.Linear(3, 3)
        f = compile(lambda x: (a(x).square().sum(), b(x).square().sum()))

        def step(k: int) -> list[Any]:
            first, second = f(numbers(2, 3, seed=k))
            first.backward()
            second.backward()
            return gradients(a, b)

        return step

    as_eager(make)


def test_a_leaf_that_is_made_inside() -> None:
    def make(compile: Any) -> Step:
        def f(x: fw.Tensor) -> Any:
            w = (x * 2).detach().requires_grad_()
            return w, (w * w).sum()

        compiled = compile(f)

        def step(k: int) -> list[Any]:
            w, loss = compiled(numbers(3, seed=k))
            loss.backward()
            assert w.is_leaf
            return [w.grad]

        return step

    as_eager(make)


# ---- state


def test_a_hidden_state_kept_between_calls() -> None:
    def make(compile: Any) -> Step:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.cell, self.h = nn.GRUCell(3, 5), fw.zeros(2, 5)

            def forward(self, x: fw.Tensor) -> fw.Tensor:
                self.h = self.cell(x, self.h)
                return self.h.square().sum()

        net = Net()
        forward = compile(lambda x: net(x))

        def step(k: int) -> list[Any]:
            net.h = net.h.detach()
            loss = forward(numbers(2, 3, seed=k)) + forward(numbers(2, 3, seed=k + 50))
            (loss + net.h.sum()).backward()
            return [net.h.detach(), *gradients(net)]

        return step

    as_eager(make, 5, recordings=2)


def test_a_tensor_changed_in_place_carries_its_gradient() -> None:
    def make(compile: Any) -> Step:
        w = fw.ones(3).requires_grad_()
        f = compile(lambda h: h.mul_(w).sum())

        def step(k: int) -> list[Any]:
            h = numbers(3, seed=k)
            f(h)
            f(h)
            w.grad = None
            h.sum().backward()
            return [w.grad, h.detach()]

        return step

    as_eager(make, 4, recordings=2)


def test_gradients_add_up_over_calls() -> None:
    def make(compile: Any) -> Step:
        layer = nn.Linear(3, 3)
        f = compile(lambda x: layer(x).square().sum())

        def step(k: int) -> list[Any]:
            for i in range(3):
                f(numbers(2, 3, seed=3 * k + i)).backward()
            return gradients(layer)

        return step

    as_eager(make)


def test_what_is_frozen_inside_stays_frozen() -> None:
    def make(compile: Any) -> Step:
        layer = nn.Linear(3, 3)

        def f(x: fw.Tensor) -> fw.Tensor:
            layer.weight.requires_grad_(False)
            return layer(x).sum()

        compiled = compile(f)

        def step(k: int) -> list[Any]:
            layer.weight.requires_grad_(True)
            compiled(numbers(2, 3, seed=k)).backward()
            assert not layer.weight.requires_grad
            return gradients(layer)

        return step

    as_eager(make)


# ---- what the tape lets one do


def test_hooks_on_parameters_fire() -> None:
    def make(compile: Any) -> Step:
        layer, seen = nn.Linear(3, 3), []
        layer.weight.register_hook(lambda g: g * 2)
        layer.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
        f = compile(lambda x: layer(x).square().sum())

        def step(k: int) -> list[Any]:
            f(numbers(2, 3, seed=k)).backward()
            assert len(seen) == k + 1
            return gradients(layer)

        return step

    as_eager(make)


def doubled(g: fw.Tensor) -> fw.Tensor:
    return g * 2


def test_a_hook_registered_inside() -> None:
    def make(compile: Any) -> Step:
        layer = nn.Linear(3, 3)

        def f(x: fw.Tensor) -> fw.Tensor:
            h = layer(x)
            h.register_hook(doubled)
            return h.sin().sum()

        compiled = compile(f)

        def step(k: int) -> list[Any]:
            compiled(numbers(2, 3, seed=k)).backward()
            return gradients(layer)

        return step

    as_eager(make)


def test_a_hook_that_sees_into_the_call_is_refused() -> None:
    seen = []

    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        h = x * 2
        h.register_hook(lambda g: seen.append(h))
        return h.sum()

    with pytest.warns(CaptureWarning, match="class function is created in the call and outlives"):
        for _ in range(3):
            f(fw.ones(2).requires_grad_()).backward()
    assert len(seen) == 3


def test_a_hook_registered_on_a_tensor_from_outside_is_refused() -> None:
    layer = nn.Linear(2, 2)

    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        layer.weight.register_hook(doubled)
        return layer(x).sum()

    with pytest.warns(CaptureWarning, match="a hook on the gradient of .* is registered"):
        for _ in range(2):
            f(fw.ones(1, 2))
    f(fw.ones(1, 2)).backward()
    assert_same(layer.weight.grad, fw.full((2, 2), 8.0))


def test_hooks_that_come_and_go_while_the_way_back_is_inside() -> None:
    layer = nn.Linear(2, 2)

    @fw.compile(fullgraph=True)
    def step(x: fw.Tensor) -> None:
        layer.zero_grad()
        layer(x).sum().backward()

    def gives(value: float) -> None:
        for _ in range(3):
            step(fw.ones(1, 2))
            assert_same(layer.weight.grad, fw.full((2, 2), value))

    gives(1.0)
    with layer.weight.register_hook(doubled):
        gives(2.0)
    gives(1.0)
    with layer.weight.register_hook(doubled), layer.weight.register_hook(doubled):
        gives(4.0)


def test_going_back_twice() -> None:
    layer = nn.Linear(3, 3)
    f = fw.compile(lambda x: layer(x).square().sum(), fullgraph=True)
    for k in range(3):
        loss = f(numbers(2, 3, seed=k))
        loss.backward(retain_graph=True)
        once = gradients(layer)
        loss.backward()
        for a, b in zip(once, gradients(layer)):
            assert_same(a, b)
        with pytest.raises(fw.GradientError, match="freed by an earlier backward"):
            loss.backward()


def test_double_backward_as_of_a_gradient_penalty() -> None:
    def make(compile: Any) -> Step:
        critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        f = compile(lambda x: critic(x))

        def step(k: int) -> list[Any]:
            x = numbers(4, 3, seed=k).requires_grad_()
            y = f(x).sum()
            slope, = fw.grad(y, x, create_graph=True)
            ((slope.square().sum(1) - 1).square().mean() + y).backward()
            return [slope.detach(), x.grad, *gradients(critic)]

        return step

    as_eager(make)


def test_arguments_over_one_array_have_gradients_of_their_own() -> None:
    def make(compile: Any) -> Step:
        f = compile(lambda x, y: (x * y).sum() + x.sin().sum())

        def step(k: int) -> list[Any]:
            x = numbers(3, seed=k).requires_grad_()
            y = x.detach().requires_grad_()
            f(x, y).backward()
            return [x.grad, y.grad]

        return step

    as_eager(make)


def test_an_argument_computed_from_another_one() -> None:
    def make(compile: Any) -> Step:
        f = compile(lambda x, y: (x * y).sum() + x.sin().sum())

        def step(k: int) -> list[Any]:
            x = numbers(3, seed=k).requires_grad_()
            f(x, x * 3).backward()
            return [x.grad]

        return step

    as_eager(make)


def test_anomaly_mode_names_a_nan() -> None:
    f = fw.compile(lambda x: (x * 0).sqrt().sum(), fullgraph=True)
    for _ in range(3):
        y = f(fw.ones(2).requires_grad_())
    with fw.autograd.detect_anomaly(), pytest.raises(fw.GradientError, match="nan"):
        y.backward()


def test_a_tape_without_a_way_back_of_its_own() -> None:
    """A tape freed inside of the function is freed outside as well."""
    w = fw.ones(2).requires_grad_()

    @fw.compile(fullgraph=True)
    def f(x: fw.Tensor) -> fw.Tensor:
        y = (x * w).exp()
        y.sum().backward()
        return y * 2

    for _ in range(3):
        with pytest.raises(fw.GradientError, match="freed"):
            f(fw.ones(2)).sum().backward()


def test_a_way_back_without_code_runs_op_by_op() -> None:
    def backend(graph: Graph) -> Any:
        if any(n.params["name"].startswith("g") for n in graph.inputs):
            raise CodegenError("no code today")
        return compile_graph(graph)

    layer = nn.Linear(3, 3)
    f = Compiled(lambda x: layer(x).tanh().sum(), backend)
    with pytest.warns(CaptureWarning, match="op by op: no code today") as warned:
        for k in range(4):
            f(numbers(2, 3, seed=k)).backward()
            got = gradients(layer)
            layer(numbers(2, 3, seed=k)).tanh().sum().backward()
            for a, b in zip(got, gradients(layer)):
                assert_same(a, b, 10)
    assert len(warned) == 1 and f.stats.replays == 3


# ---- Functions and checkpoints


class Cube(fw.autograd.Function):
    """Two results, a tensor saved by an attribute, and a count of its ways back."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: fw.Tensor, scale: float) -> Any:
        ctx.save_for_backward(x)
        ctx.three, ctx.scale = x * 0 + 3, scale
        return x ** 3, x * scale

    @staticmethod
    def backward(ctx: Any, g: fw.Tensor, h: fw.Tensor) -> Any:
        Cube.calls += 1
        x, = ctx.saved_tensors
        return g * ctx.three * x * x + h * ctx.scale, None


def test_a_function_runs_its_own_backward_each_time() -> None:
    def make(compile: Any) -> Step:
        layer = nn.Linear(4, 4)

        def f(x: fw.Tensor) -> fw.Tensor:
            a, b = Cube.apply(layer(x), 2.0)
            c, d = Cube.apply(a.sin(), 1.0)
            return (c * b).sum() + d.sum()

        compiled = compile(f)

        def step(k: int) -> list[Any]:
            x, Cube.calls = numbers(3, 4, seed=k).requires_grad_(), 0
            compiled(x).backward()
            assert Cube.calls == 2
            y = x.detach().requires_grad_()
            slope, = fw.grad(compiled(y), y, create_graph=True)
            slope.square().sum().backward()
            return [x.grad, y.grad, *gradients(layer)]

        return step

    as_eager(make)


def test_a_checkpoint_keeps_nothing_of_its_inside() -> None:
    def make(compile: Any) -> Step:
        first = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 6))
        second, head = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 6)), nn.Linear(6, 2)
        f = compile(lambda x: head(checkpoint(second, checkpoint(first, x))).square().sum())

        def step(k: int) -> list[Any]:
            f(numbers(5, 4, seed=k)).backward()
            if hasattr(f, "programs"):
                kept = [n.type.shape for n in f.programs[0].exits()[0].backward.saved]
                assert all(shape[-1] not in (8, 16) for shape in kept), kept
                assert kept.count((5, 6)) == 2  # what stands between the checkpoints
            return [*gradients(first, second, head), fw.rand(2)]

        return step

    as_eager(make)


# ---- what is kept


def kept_by(f: Any) -> list[str]:
    return [n.op for n in f.programs[0].exits()[0].backward.saved]


def test_simple_formulas_are_computed_again() -> None:
    w = numbers(4, 4).requires_grad_()
    f = fw.compile(lambda x: ((x @ w).relu() * 2 + 1).sin().sum(), fullgraph=True)
    f(numbers(4, 4))
    assert kept_by(f) == ["relu"]  # not the sine, nor the product in front of it


def test_inputs_are_not_kept_again() -> None:
    w = numbers(4).requires_grad_()
    f = fw.compile(lambda x: (x * w).sum(), fullgraph=True)
    f(numbers(4))
    assert kept_by(f) == []


def test_what_is_kept_goes_with_the_result() -> None:
    layer = nn.Linear(3, 3)
    f = fw.compile(lambda x: layer(x).tanh().sum(), fullgraph=True)
    for _ in range(3):
        loss = f(numbers(2, 3))
    array = weakref.ref(loss.edge.edges[0].saved.arrays[-1])
    gc.disable()
    try:
        assert array() is not None
        del loss
        assert array() is None
    finally:
        gc.enable()


def test_inputs_that_the_way_back_reads_are_not_written_over() -> None:
    state = fw.ones(3)

    @fw.compile(fullgraph=True)
    def f(x: fw.Tensor) -> fw.Tensor:
        y = (x * state).sum()
        state.mul_(2.0)
        return y

    for k in range(4):
        x = fw.ones(3).requires_grad_()
        f(x).backward()
        assert_same(x.grad, fw.full((3,), 2.0 ** k))


# ---- two networks


def test_a_gan_with_two_optimizers() -> None:
    """The gradient of the compiled critic flows on through the compiled generator."""
    def make(compile: Any) -> Step:
        made = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
        judged = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(), nn.Linear(8, 1))
        generator, critic = compile(lambda z: made(z)), compile(lambda x: judged(x))
        ours = fw.optim.Adam(made.parameters(), lr=0.01)
        theirs = fw.optim.Adam(judged.parameters(), lr=0.01)

        def step(k: int) -> list[Any]:
            fake = generator(numbers(4, 2, seed=k))
            theirs.zero_grad()
            real = F.softplus(-critic(numbers(4, 3, seed=k + 9))).mean()
            (real + F.softplus(critic(fake.detach())).mean()).backward()
            theirs.step()
            ours.zero_grad()
            F.softplus(-critic(fake)).mean().backward()
            ours.step()
            return [p.detach() for m in (made, judged) for p in m.parameters()]

        return step

    as_eager(make, 5, recordings=3)
