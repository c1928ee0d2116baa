"""Whole training steps: compiled, they leave parameters, gradients and moments as eager does."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

X = fw.from_numpy(np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32))
T = fw.from_numpy(np.random.default_rng(1).integers(0, 3, 8))


def network() -> nn.Module:
    fw.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.Linear(16, 3))


def trained(make: Callable[[Any], Any], compiled: bool, steps: int = 5) -> tuple[Any, ...]:
    """Losses, model and optimizer after some steps."""
    model = network()
    optimizer = make(model.parameters())

    def step(x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        return loss

    run = fw.compile(step, fullgraph=True) if compiled else step
    losses = [run(X * (1 + k), T).item() for k in range(steps)]
    if compiled:
        assert run.stats.recordings <= 2, run.misses
    return losses, model, optimizer


OPTIMIZERS = {
    "sgd": lambda p: fw.optim.SGD(p, lr=0.1),
    "momentum": lambda p: fw.optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: fw.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: fw.optim.Adam(p, lr=0.01),
    "adamw": lambda p: fw.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "amsgrad": lambda p: fw.optim.Adam(p, lr=0.01, amsgrad=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_five_steps(name: str) -> None:
    losses, model, optimizer = trained(OPTIMIZERS[name], True)
    expected, eager, eager_optimizer = trained(OPTIMIZERS[name], False)
    np.testing.assert_allclose(losses, expected, 1e-5)
    for p, q in zip(model.parameters(), eager.parameters()):
        assert_same(p, q, 20)
        assert_same(p.grad, q.grad, 20)
        for key, value in eager_optimizer.state[q].items():
            assert_same(optimizer.state[p][key], value, 20, key)


def test_a_learning_rate_set_between_steps() -> None:
    results = []
    for compiled in (True, False):
        model = network()
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1)

        def step(model: Any = model, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            model(X).square().mean().backward()
            optimizer.step()

        run = fw.compile(step, fullgraph=True) if compiled else step
        for rate in (0.1, 0.1, 0.05, 0.02, 0.5):
            optimizer.param_groups[0]["lr"] = fw.tensor(rate)
            run()
        results.append(model)
    for p, q in zip(results[0].parameters(), results[1].parameters()):
        assert_same(p, q, 5)


def test_gradients_add_up_over_calls() -> None:
    w = fw.tensor([1.0, 2.0], requires_grad=True)

    @fw.compile(fullgraph=True)
    def accumulate(x: fw.Tensor) -> None:
        (w * x).sum().backward()

    for n in range(1, 5):
        accumulate(fw.tensor([1.0, 10.0]))
        assert_same(w.grad, fw.tensor([1.0 * n, 10.0 * n]))
    w.grad = None
    accumulate(fw.tensor([1.0, 10.0]))
    assert_same(w.grad, fw.tensor([1.0, 10.0]))
    assert accumulate.stats.recordings == 2  # one without, one with a gradient


def test_a_gradient_that_somebody_kept_stays_as_it_was() -> None:
    w = fw.tensor([1.0, 2.0], requires_grad=True)
    f = fw.compile(lambda x: (w * x).sum().backward(), fullgraph=True)
    kept = []
    for _ in range(4):
        f(fw.tensor([1.0, 1.0]))
        kept.append(w.grad.numpy())
    for n, values in enumerate(kept, 1):
        assert_same(values, np.full(2, n, np.float32))


def test_the_gradient_of_an_input() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        (g,) = fw.grad((x * x * x).sum(), x, create_graph=True)
        (h,) = fw.grad(g.sum(), x)
        return h

    compiled = fw.compile(f, fullgraph=True)
    for k in (1.0, 2.0, 3.0):
        x = fw.tensor([k], requires_grad=True)
        assert_same(compiled(x), fw.tensor([6 * k]))


def test_dropout_drops_what_it_drops_eager() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return F.dropout(x, 0.5) + F.dropout(x, 0.25)

    compiled = fw.compile(f, fullgraph=True)
    fw.manual_seed(7)
    got = [compiled(X) for _ in range(5)]
    fw.manual_seed(7)
    for out in got:
        assert_same(out, f(X))


def test_eager_random_numbers_go_on_where_compiled_ones_ended() -> None:
    compiled = fw.compile(lambda: fw.rand(3), fullgraph=True)
    fw.manual_seed(5)
    mixed = [compiled(), compiled(), fw.rand(3), compiled(), fw.rand(3)]
    fw.manual_seed(5)
    for out in mixed:
        assert_same(out, fw.rand(3))


def test_a_generator_of_ones_own() -> None:
    generator = fw.Generator(3)
    compiled = fw.compile(lambda: fw.randn(4, generator=generator), fullgraph=True)
    got = [compiled() for _ in range(4)]
    generator.manual_seed(3)
    for out in got:
        assert_same(out, fw.randn(4, generator=generator))


def test_backward_through_a_replayed_loss_says_why_not() -> None:
    w = fw.tensor([1.0], requires_grad=True)

    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        loss = (w * x).sum()
        loss.backward()
        return loss

    for _ in range(3):
        loss = f(fw.ones(1))
        assert loss.requires_grad
        with pytest.raises(fw.GradientError, match="retain_graph"):
            loss.backward()


def test_only_some_parameters_require_a_gradient() -> None:
    model = network()
    model[0].weight.requires_grad_(False)

    @fw.compile(fullgraph=True)
    def f() -> None:
        model.zero_grad()
        model(X).sum().backward()

    for _ in range(3):
        f()
        assert model[0].weight.grad is None and model[2].weight.grad is not None
    model[0].weight.requires_grad_()
    for _ in range(3):
        f()
        assert model[0].weight.grad is not None


# ---- compiled modules
def test_a_compiled_module_is_still_that_module() -> None:
    model = network()
    keys, expected = list(model.state_dict()), model(X).detach()
    compiled = fw.compile(model)
    assert compiled is model and isinstance(compiled, nn.Sequential)
    assert list(compiled.state_dict()) == keys
    with fw.no_grad():
        for _ in range(3):
            assert_same(compiled(X), expected)


def test_weights_loaded_into_a_compiled_module() -> None:
    model = fw.compile(network())
    with fw.no_grad():
        model(X), model(X)
        model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})
        other = network()
        other.load_state_dict(model.state_dict())
        assert_same(model(X), other(X))


def test_a_copy_of_a_compiled_module_has_its_own_weights() -> None:
    model = fw.compile(network())
    with fw.no_grad():
        before = model(X)
        model(X)
        other = copy.deepcopy(model)
        for p in other.parameters():
            p.zero_()
        assert_same(other(X), fw.zeros(8, 3))
        assert_same(other(X), fw.zeros(8, 3))
        assert_same(model(X), before)


def test_a_compiled_module_is_pickled_as_its_weights_and_class() -> None:
    model = fw.compile(network())
    with fw.no_grad():
        expected = model(X)
        model(X)
        again = pickle.loads(pickle.dumps(model))
        assert_same(again(X), expected)


def test_two_modules_of_one_class() -> None:
    class Scale(nn.Module):
        def __init__(self, k: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(fw.tensor([k]))

        @fw.compile
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return (x * self.weight).detach()

    two, three = Scale(2.0), Scale(3.0)
    for _ in range(3):
        assert_same(two(X), X * 2)
        assert_same(three(X), X * 3)
    assert Scale.__dict__["forward"].stats.recordings == 1


def test_a_compiled_function_inside_a_compiled_function() -> None:
    inner = fw.compile(lambda x: x * 2)
    outer = fw.compile(lambda x: inner(x) + inner(x + 1), fullgraph=True)
    for k in range(3):
        assert_same(outer(X * k), X * k * 4 + 2)
    assert inner.stats.recordings == 0
    assert_same(inner(X), X * 2)


def test_a_compiled_function_of_the_inside_rebound() -> None:
    box = {"inner": fw.compile(lambda x: x * 2)}
    outer = fw.compile(lambda x: box["inner"](x) + 1, fullgraph=True)
    outer(X), outer(X)
    box["inner"] = fw.compile(lambda x: x * 5)
    assert_same(outer(X), X * 5 + 1)


@pytest.mark.filterwarnings("ignore:step. graph break")  # compiled or not, it learns the same
def test_an_embedding_learns() -> None:
    rows = []
    for compiled in (True, False):
        table = nn.Parameter(fw.ones(6, 3))
        optimizer = fw.optim.SGD([table], lr=0.5)

        def step(i: fw.Tensor, table: Any = table, optimizer: Any = optimizer) -> fw.Tensor:
            optimizer.zero_grad()
            loss = fw.take(table, i, 0).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        run = fw.compile(step) if compiled else step
        for _ in range(4):
            run(fw.tensor([0, 2, 2, 5]))
        rows.append(table)
    assert_same(rows[0], rows[1])


def test_a_target_out_of_range_raises_and_leaves_what_eager_leaves() -> None:
    model = network()
    optimizer = fw.optim.AdamW(model.parameters(), lr=0.01)

    @fw.compile(fullgraph=True)
    def step(x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        return loss

    def state() -> list[Any]:
        own = [v for p in model.parameters() for v in (p, *optimizer.state[p].values())]
        return [t.numpy().copy() for t in own]

    step(X, T), step(X, T)
    before = state()
    with pytest.raises(IndexError, match="cross_entropy"):
        step(X, fw.full(8, 3, dtype=fw.int64))
    for was, now in zip(before, state()):
        np.testing.assert_array_equal(was, now)
    assert all(p.grad is None for p in model.parameters())  # zero_grad() has run
    assert step(X, T).item() < 10
