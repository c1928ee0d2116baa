"""Gradients, state and random numbers of functions with graph breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_break_run import Run, T, W, X, check, compare
from oracle import assert_same

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.capture.lazy import lazy_interpreter


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of the small tensors of these tests too."""
    monkeypatch.setattr(lazy_interpreter, "MAX_EAGER_ELEMENTS", 0)


# ---- gradients
def test_backward_after_a_detour_through_numpy() -> None:
    def f(x: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        w = W.detach().requires_grad_()
        h = x @ w
        scale = float(np.abs(h.numpy()).max())
        loss = (h / scale).square().sum()
        loss.backward()
        return loss.detach(), w.grad

    pieces = check(f, X, loose=10)
    assert pieces.compiled == 2


def test_backward_after_the_call() -> None:
    def f(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        h = x @ w
        h = h * 2 if float(h.sum()) < 1e9 else h
        return h.square().sum()

    run = Run(f)
    for _ in range(3):
        w, v = W.detach().requires_grad_(), W.detach().requires_grad_()
        run(X, w).backward()
        f(X, v).backward()
        assert_same(w.grad, v.grad, 10)


class Doubled(fw.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y


def test_what_a_function_saved_outlives_the_call() -> None:
    def f(w: fw.Tensor) -> fw.Tensor:
        return Doubled.apply(w.sin()).sum()

    run = Run(f)
    for _ in range(3):
        w, v = W.detach().requires_grad_(), W.detach().requires_grad_()
        run(w).backward()
        f(v).backward()
        assert_same(w.grad, v.grad)


def test_gradients_that_gather_over_calls_and_double_backward() -> None:
    def f(x: fw.Tensor, w: fw.Tensor) -> None:
        loss = (x @ w).sigmoid().sum()
        assert float(loss) > 0
        (g,) = fw.grad(loss, w, create_graph=True)
        (g * g).sum().backward()

    run, w, v = Run(f), W.detach().requires_grad_(), W.detach().requires_grad_()
    for _ in range(4):
        run(X, w)
        f(X, v)
        assert_same(w.grad, v.grad, 10)


def test_transforms_checkpoints_and_hooks() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        seen = []
        w = W.detach().requires_grad_()
        w.register_hook(lambda g: seen.append(g * 2))
        h = fw.utils.checkpoint.checkpoint(lambda x: (x @ w).tanh(), x)
        assert float(h.sum()) < 1e9
        h.sum().backward()
        slope = fw.func.jvp(lambda x: (x * x).sum(), (x,), (x + 1,))[1]
        rows = fw.func.vmap(lambda row: (row @ W).softmax(0))(x)
        return [w.grad, seen[0], slope, rows]

    check(f, X, loose=10)


# ---- state
def trained(make: Callable[[Any], Any], wrap: Callable[[Any], Any]) -> list[Any]:
    """Everything that steps of a model with batch norm and dropout leave behind."""
    fw.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(),
                          nn.Dropout(0.5), nn.Linear(8, 4))
    optimizer = make(model.parameters())
    schedule = fw.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    losses: list[float] = []

    def step(x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        losses.append(loss.item())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    run = wrap(step)
    results = []
    for _ in range(6):
        results.append(run(X, T).detach())
        schedule.step()
    states = [v for p in model.parameters() for v in optimizer.state[p].values()]
    return [*results, *model.state_dict().values(), *[p.grad for p in model.parameters()], *states,
            losses[-1] < 10]


@pytest.mark.parametrize("make", [
    lambda p: fw.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: fw.optim.AdamW(p, lr=0.01)])
def test_training_steps(make: Callable[[Any], Any]) -> None:
    runs: list[Run] = []

    def wrap(step: Any) -> Any:
        runs.append(Run(step))
        return runs[0]

    compare(trained(make, wrap), trained(make, lambda step: step), 300)
    assert runs[0].graph_breaks.evaluations <= 4


def test_random_tensors_are_those_of_eager() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        first = fw.rand(6, 5) * x
        state = fw.get_rng_state().tolist()
        fw.manual_seed(state[1] + 7)
        return [first, F.dropout(x + 1, 0.5), fw.randint(0, 9, (3,)), fw.randn(2)]

    run = Run(f)
    for seed in range(4):
        results = []
        for function in (run, f):
            fw.manual_seed(seed)
            results.append([*function(X), fw.get_rng_state()])
        compare(*results)


def test_changes_in_place() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        y, before = x * 2, x + 0
        y += 1
        kept = y.detach()
        y[1:3, 0] = 7.0
        y[fw.tensor([0, 4])] = x[0]
        y.mul_(2)
        y[y > 3] = float(y.max())
        x.copy_(before)
        return [y, kept, x]

    check(f, X.detach() * 1)


def test_arguments_changed_in_place_keep_their_identity() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        x += 1
        return x * float(x.sum())

    run, got, expected = Run(f), X * 1, X * 1
    for _ in range(3):
        compare(run(got), f(expected))
        assert_same(got, expected)


def test_autocast_and_no_grad() -> None:
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        w = W.detach().requires_grad_()
        with fw.autocast("cpu", fw.bfloat16):
            low = x @ w
            assert low.dtype == fw.bfloat16
            limit = float(low.max())
        with fw.no_grad():
            off = x @ w * limit
        assert low.requires_grad and not off.requires_grad
        return [low.astype(fw.float32).detach(), off]

    check(f, X, loose=100)
