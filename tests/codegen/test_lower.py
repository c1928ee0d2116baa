"""Reductions, views and broadcasts as loops: all shapes and axes, interpreted and native."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded

import fusewire as fw
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.ir.loop_ir import For, walk
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import named

MACHINES = {"wide": Machine(64, 32), "narrow": Machine(16, 16), "scalar": Machine(4, 8)}


def normal(*shape: int, seed: int = 0) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def agree(fn: Any, *args: fw.Tensor, interpret: bool = True, loose: float = 2.0) -> None:
    """fn is interpreted and native what it is eager."""
    expected = fn(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    graph, arrays = recorded(fn, *args)
    outs = [compile_graph(graph)(list(arrays))]
    if interpret:
        outs += [interpreted(graph, arrays, machine) for machine in MACHINES.values()]
    for out in outs:
        for got, want in zip(out, expected):
            assert_same(got, want, loose)


def axes_of(ndim: int) -> list[tuple[int, ...]]:
    return [a for n in range(1, ndim + 1) for a in itertools.combinations(range(ndim), n)]


# ---- reductions
@pytest.mark.parametrize("shape", [
    (7,), (3, 5), (1, 4), (4, 1), (2, 3, 4), (2, 1, 3), (3, 17, 2), (2, 3, 2, 3), (0, 3), (3, 0),
    (1, 1, 1)])
def test_sums_over_all_axes(shape: tuple[int, ...]) -> None:
    x = normal(*shape)

    def sums(x: fw.Tensor) -> Any:
        return tuple(x.sum(axis=a, keepdims=k) for a in axes_of(len(shape)) for k in (False, True))

    agree(sums, x)


@pytest.mark.parametrize("shape", [(33, 3), (3, 33), (70, 5, 2), (130, 17)])
def test_several_reductions_at_once(shape: tuple[int, ...]) -> None:
    def many(x: fw.Tensor) -> Any:
        found = []
        for axis in range(x.ndim):
            low, high = x.min(axis=axis, keepdims=True), x.max(axis=axis, keepdims=True)
            scaled = (x - low) / (high - low + 1)
            found += [scaled, scaled.sum(axis=axis), (scaled * scaled).mean(axis=axis)]
        return tuple(found)

    agree(many, normal(*shape), interpret=shape != (130, 17))


@pytest.mark.parametrize("shape", [
    (200_000,), (2, 70_001), (70_001, 2), (3, 40_000), (40_000, 3), (1, 99_999, 1), (2, 40_000, 3),
    (64, 3000), (3000, 64), (300, 7, 100)])
def test_long_reductions(shape: tuple[int, ...]) -> None:
    """Cut into pieces of fixed size, which are added up by a second kernel."""
    x = normal(*shape)
    exact = x.numpy().astype(np.float64)
    for axes in axes_of(len(shape)):
        def found(x: fw.Tensor, a: Any = axes) -> Any:
            return x.sum(axis=a), x.max(axis=a), (x * x).mean(axis=a)

        graph, arrays = recorded(found, x)
        total, top, mean = compile_graph(graph)(list(arrays))
        size = np.abs(exact).sum(axis=axes)
        assert (np.abs(total - exact.sum(axis=axes)) <= 1e-6 * size).all()
        np.testing.assert_array_equal(top, x.numpy().max(axis=axes))
        np.testing.assert_allclose(mean, (exact * exact).mean(axis=axes), 1e-5)


def test_sums_do_not_depend_on_the_number_of_threads() -> None:
    graph, arrays = recorded(lambda x: (x.sum(), x.sum(axis=0), x.sum(axis=1), fw.softmax(x, 0)),
                             normal(3000, 101))
    run, before, results = compile_graph(graph), fw.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            fw.set_num_threads(count)
            results.append(run(list(arrays)))
    finally:
        fw.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_array_equal(a, b)


def test_softmax_of_infinities_and_large_numbers() -> None:
    x = np.array([[-np.inf, 0, 1], [1e30, 1e30, -1e30], [np.inf, 0, 0], [np.nan, 1, 2],
                  [-200, -201, -203]], np.float32)
    with np.errstate(all="ignore"):
        agree(lambda x: (fw.softmax(x, -1), fw.log_softmax(x, -1)), fw.from_numpy(x))


def test_extremes_and_logic_of_nan() -> None:
    x = np.array([[1, np.nan, 3], [np.nan, np.nan, np.nan], [2, 1, 0]], np.float32)
    agree(lambda x: (x.max(axis=1), x.min(axis=0), x.argmax(axis=1), fw.isnan(x).any(axis=1),
                     (x > 1).all(axis=0)), fw.from_numpy(x))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "bool"])
def test_reductions_of_whole_numbers_are_exact(dtype: str) -> None:
    high = 2 if dtype == "bool" else 100
    numbers = np.random.default_rng(0).integers(0, high, (9, 37)).astype(dtype)
    agree(lambda x: (x.sum(axis=0), x.sum(axis=1), x.max(axis=0), x.min(axis=1), x.prod(axis=0)),
          fw.from_numpy(numbers))


# ---- views and broadcasts
VIEWS = {
    "transposed": lambda x: x.T * 2, "flattened": lambda x: x.flatten() + 1,
    "cut again": lambda x: x.reshape(4, 3, 5) * 2, "turned round": lambda x: x.flip((0, 1)),
    "every second": lambda x: x[::2, 1::3] * 2, "backwards": lambda x: x[::-1, ::-2] + 1,
    "padded": lambda x: fw.pad(x, [(1, 2), (0, 3)], constant_values=7.0),
    "one row": lambda x: x[3] * x,
    "one column": lambda x: x[:, 2:3] * x, "outer": lambda x: x[:, :, None] * x[:, None, :],
    "repeated": lambda x: fw.broadcast_to(x[None], (3, *x.shape)) * 2,
    "several views": lambda x: x.T.reshape(2, 15, 2)[:, ::2].permute_dims(2, 0, 1).flip(1),
    "sum of a view": lambda x: (x.T[::2].sum(axis=0), x.reshape(2, 30).max(axis=1)),
    "changed part": lambda x: put(x, (slice(1, 3), slice(None, None, 2)), 5.0),
    "taken": lambda x: fw.take(x, fw.tensor([3, 0, -1, 3]), 0),
    "positions": lambda x: x * fw.arange(10),
    "joined": lambda x: fw.pad(x, [(0, 6), (0, 0)]) + fw.pad(x, [(6, 0), (0, 0)]),
}


def put(x: fw.Tensor, where: Any, value: float) -> fw.Tensor:
    y = x * 1
    y[where] = value
    return y


@pytest.mark.parametrize("view", VIEWS)
def test_views(view: str) -> None:
    agree(VIEWS[view], normal(6, 10))


@pytest.mark.parametrize("shapes", [
    ((5, 1), (1, 7)), ((2, 1, 3), (4, 1)), ((1,), (3, 4)), ((), (2, 3)),
    ((3, 1, 1), (1, 2, 1), (1, 1, 5)), ((1, 40), (3, 1)), ((0, 1), (1, 4))])
def test_broadcasts(shapes: Any) -> None:
    xs = [normal(*s, seed=i) for i, s in enumerate(shapes)]
    agree(lambda *xs: (sum(xs[1:], start=xs[0] * 2), sum(xs[1:], start=xs[0]).sum(axis=-1)), *xs)


@pytest.mark.parametrize("last", [1, 2, 3, 5, 8, 15, 16, 17, 31, 33])
def test_sizes_around_the_width_of_a_vector(last: int) -> None:
    agree(lambda x, y: (fw.tanh(x) + y, (x * y).sum(axis=1), (x * y).sum(axis=0)),
          normal(5, last), normal(last, seed=1))


@pytest.mark.parametrize("cpu", ["", "x86-64-v3", "x86-64"])
def test_processors(cpu: str) -> None:
    def work(x: fw.Tensor, y: fw.Tensor) -> Any:
        s = fw.softmax(x * y, -1)
        return s, s.sum(axis=0), fw.exp(s).T, (s > 0.1).astype(fw.int32).sum(axis=1)

    x, y = normal(37, 53), normal(53, seed=1)
    graph, arrays = recorded(work, x, y)
    for got, want in zip(compile_graph(graph, named(cpu))(list(arrays)), work(x, y)):
        assert_same(got, want, 4)


# ---- the form of loops
def test_a_lane_loop_never_stands_inside_a_lane_loop() -> None:
    def work(x: fw.Tensor) -> Any:
        return fw.softmax(x, -1), fw.softmax(x, 0), x.sum(), x.T * 2, x @ x.T

    for machine in MACHINES.values():
        for launch in lower_graph(recorded(work, normal(20, 30))[0], machine)[1]:
            for s in walk(launch.kernel.body):
                if isinstance(s, For) and s.lanes:
                    assert not any(isinstance(t, For) and t.lanes for t in walk(s.body))


def test_nothing_to_compute_needs_no_kernel() -> None:
    graph, _ = recorded(lambda x: (x * 2, x.sum(axis=0)), fw.zeros(3, 0))
    assert lower_graph(graph, Machine())[1] == []
    graph, arrays = recorded(lambda x: x.reshape(6), normal(2, 3))
    (copied,) = compile_graph(graph)(list(arrays))
    assert_same(copied, normal(2, 3).reshape(6))


def test_every_kernel_names_the_lines_it_came_from() -> None:
    graph, _ = recorded(lambda x: fw.softmax(x * 2, -1), normal(4, 4))
    for kernel in (x.kernel for x in lower_graph(graph, Machine())[1]):
        assert kernel.sites and all(s.startswith("test_lower.py:") for s in kernel.sites)


def test_axes_are_one_loop_only_where_divisions_that_vanished_allow_it() -> None:
    x = fw.arange(20).astype(fw.float32).reshape(4, 5)

    def there_and_back(x: fw.Tensor) -> fw.Tensor:
        turned = fw.permute_dims(x, (1, 0)).reshape(1, 5, 4) * 2.0
        return fw.permute_dims(turned.reshape(5, 4), (1, 0))

    compiled = fw.compile(there_and_back)
    for _ in range(2):
        assert_same(compiled(x).numpy(), x.numpy() * 2)
