"""The first call of a compiled function: the code of its trace computes the large results.

Ops run one by one only where Python asks for a value on the way, or where there can be no code.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.capture.graph_breaks import subgraph
from fusewire.capture.replay import deferred_outputs
from fusewire.capture.replay.compiled_function import CaptureWarning
from fusewire.eager.core.dispatch import LARGE
from fusewire.nn import functional as F

N = 512  # rows and columns: more elements than LARGE


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of ops on large arrays that run one by one though they were put off."""
    found: list[str] = []
    evaluate = subgraph.evaluate

    def noted(op: Any, *rest: Any) -> Any:
        found.append(op.name)
        return evaluate(op, *rest)

    monkeypatch.setattr(subgraph, "evaluate", noted)
    yield found


def square(seed: int = 0) -> fw.Tensor:
    values = np.random.default_rng(seed).normal(size=(N, N), scale=0.05)
    return fw.asarray(values, dtype=fw.float32)


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


def test_sizes() -> None:
    assert N * N > LARGE


def test_no_op_runs_by_itself(ran: list[str]) -> None:
    f = fw.compile(lambda x: fw.tanh(x * 2 + 1).sum(axis=1))
    x = square()
    same(f(x), np.tanh(x.numpy() * 2 + 1).sum(1))
    assert ran == []
    assert f.stats.costs.compiled == 1
    assert np.array_equal(f(x).numpy(), f(x).numpy())


def test_the_first_result_has_the_bits_of_the_next() -> None:
    f = fw.compile(lambda x: fw.exp(x) @ x)
    x = square()
    first = f(x).numpy()
    assert np.array_equal(first, f(x).numpy())


def test_gradients_of_the_result_go_back_through_code(ran: list[str]) -> None:
    f = fw.compile(lambda x, w: fw.tanh(x @ w).sum())
    x, w = square(1), square(2).requires_grad_()
    f(x, w).backward()
    first = w.grad
    assert ran == []
    w.grad = None
    f(x, w).backward()
    assert np.array_equal(first.numpy(), w.grad.numpy())
    w.grad = None
    fw.tanh(x @ w).sum().backward()
    same(first, w.grad)


def test_a_training_step(ran: list[str]) -> None:
    def trained(steps: int, wrap: Callable[..., Any]) -> list[Any]:
        fw.manual_seed(0)
        model = fw.nn.Sequential(fw.nn.Linear(N, N), fw.nn.ReLU(), fw.nn.BatchNorm1d(N))
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = wrap(step)
        losses = [step(square(k)).item() for k in range(steps)]
        return [losses, *[p.numpy() for p in model.state_dict().values()]]

    for one, other in zip(trained(3, fw.compile), trained(3, lambda f: f)):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
    assert ran == []


def test_a_model_whose_loss_is_outside(ran: list[str]) -> None:
    fw.manual_seed(0)
    model = fw.nn.Sequential(fw.nn.Linear(N, N), fw.nn.BatchNorm1d(N), fw.nn.GELU())
    plain = fw.nn.Sequential(fw.nn.Linear(N, N), fw.nn.BatchNorm1d(N), fw.nn.GELU())
    plain.load_state_dict(model.state_dict())
    compiled, x = fw.compile(model), square(3)
    for _ in range(2):
        (compiled(x) ** 2).mean().backward()
        (plain(x) ** 2).mean().backward()
    for (name, a), b in zip(model.named_parameters(), plain.parameters()):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-5,
                                   err_msg=name)
    for name, a in model.named_buffers():
        same(a, dict(plain.named_buffers())[name])


def test_a_value_that_python_asks_for(ran: list[str]) -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    g, x = fw.compile(f), square(4)
    for sign in (1.0, -1.0, 1.0):
        same(g(x.abs() * sign), f(x.abs() * sign))
    assert "multiply" in ran and "sum" in ran


def test_a_number_after_what_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: fw.Tensor, v: fw.Tensor) -> Any:
        fw.softmax(x, 1)
        return (v @ v).item()

    monkeypatch.setattr(deferred_outputs, "LARGE", 0)  # so that the numbers wait, too
    g, x = fw.compile(f), fw.ones((2, 3))
    for k in (1.0, 2.0, 3.0):
        assert g(x, fw.full((3,), k)) == 3 * k * k


def test_a_number_of_python() -> None:
    def f(x: fw.Tensor) -> tuple[fw.Tensor, float]:
        y = x * 2
        top = y.max().item()
        return y / top, top

    g, x = fw.compile(f), square(5)
    for _ in range(3):
        y, top = g(x)
        same(y, f(x)[0])
        assert top == f(x)[1]


def test_an_array_that_numpy_writes_to_after_it_was_read() -> None:
    buffer = np.zeros(16, np.float32)

    def f(x: fw.Tensor) -> fw.Tensor:
        buffer[:] = 1
        y = x * fw.asarray(buffer).sum()
        buffer[:] = 2
        return y

    g = fw.compile(f)
    with pytest.warns(CaptureWarning, match="graph break"):
        same(g(square()), square().numpy() * 16)


def test_what_the_function_keeps(ran: list[str]) -> None:
    class Model:
        seen: list[fw.Tensor]

        def __init__(self) -> None:
            self.seen, self.last = [], None

        def __call__(self, x: fw.Tensor) -> fw.Tensor:
            y = x + 1
            self.seen.append(y)
            self.last = y * 3
            return y * 2

    model, x = Model(), square(6)
    f = fw.compile(model)
    same(f(x), (x.numpy() + 1) * 2)
    same(model.seen[0], x.numpy() + 1)
    same(model.last, (x.numpy() + 1) * 3)
    same(f(x), (x.numpy() + 1) * 2)
    assert len(model.seen) == 2 and ran == []


def test_an_array_that_the_call_changes_in_place() -> None:
    total = fw.zeros((N, N))

    def f(x: fw.Tensor) -> fw.Tensor:
        old = total + 0
        total.copy_(total + x)
        return old

    g, x = fw.compile(f), square(7)
    for k in range(3):
        same(g(x), k * x.numpy())
        same(total, (k + 1) * x.numpy())


def test_an_error_leaves_what_was_done() -> None:
    kept: list[fw.Tensor] = []

    def f(x: fw.Tensor) -> fw.Tensor:
        kept.append(x * 2)
        raise ValueError("on purpose")

    g, x = fw.compile(f), square(8)
    with pytest.raises(ValueError, match="on purpose"):
        g(x)
    same(kept[0], x.numpy() * 2)


def test_an_index_out_of_range_is_an_error_where_it_stands() -> None:
    def f(x: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
        y = x * 2
        try:
            return fw.take(y, i, axis=0)
        except IndexError:
            return y + 1

    g, x = fw.compile(f), square(9)
    with pytest.warns(CaptureWarning, match="depends on values"):
        same(g(x, fw.asarray([0, N])), x.numpy() * 2 + 1)


def test_numbers_drawn_are_those_of_eager() -> None:
    fw.manual_seed(1)
    first = fw.compile(lambda x: F.dropout(x, 0.5))(fw.ones((N, N))).numpy()
    fw.manual_seed(1)
    assert np.array_equal(first, F.dropout(fw.ones((N, N)), 0.5).numpy())


def test_what_has_no_code_runs_op_by_op() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return fw.linalg.inv(x * 2 + 3 * N * fw.eye(N)) * 2

    g, x = fw.compile(f), square(10)
    same(g(x), f(x))
    same(g(x), f(x))


def test_nothing_is_held_that_nobody_holds() -> None:
    f = fw.compile(lambda x: x * 2)
    gc.collect()
    gc.disable()
    try:
        held = weakref.ref(f(square(11))._data)
        assert held() is None
    finally:
        gc.enable()


def test_sizes_that_vary() -> None:
    f = fw.compile(lambda x: (x * 2).sum(axis=0))
    for n in (N, N + 1, 2 * N, 3):
        x = np.ones((n, N), np.float32)
        same(f(fw.asarray(x)), 2 * x.sum(0))


def test_a_loop_over_large_arrays() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        while (x * x).sum() > 1:
            x = x / 2
        return x

    g, x = fw.compile(f), square(12)
    for k in (1, 3, 9):
        same(g(x * k), f(x * k))


def test_ctrl_c_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    total = fw.zeros((N, N))

    def f(x: fw.Tensor) -> fw.Tensor:
        total.copy_(total + x)
        return total * 2

    def interrupted(graph: Any) -> Any:
        raise KeyboardInterrupt

    g, x = fw.compile(f), square(13)
    monkeypatch.setattr(g, "backend", interrupted)
    with pytest.raises(KeyboardInterrupt):
        g(x)
    same(total, x)
