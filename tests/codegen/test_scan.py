"""Scans in native code: NumPy's numbers to the last bit, along every axis and of every layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.program.executable import Executable

SHAPES = [(1,), (7,), (3, 5), (8, 4), (9, 1), (1, 70), (17, 33), (2, 3, 4), (3, 1, 130), (2, 20, 3)]
DTYPES = ["float32", "float64", "float16", "int64"]
SCANS: dict[str, Callable[..., fw.Tensor]] = {
    "sum": fw.cumulative_sum, "product": fw.cumulative_prod,
    "highest": lambda x, axis: fw.cummax(x, axis).values,
    "lowest": lambda x, axis: fw.cummin(x, axis).values,
}


def numbers(shape: tuple[int, ...], dtype: str) -> fw.Tensor:
    drawn = np.random.default_rng(0).uniform(-2, 2, shape)
    return fw.from_numpy((drawn * 5 if dtype == "int64" else drawn).astype(dtype))


def assert_equal(function: Callable[..., Any], *given: Any, interpret: bool = True) -> None:
    """Compiled, and interpreted for a small machine: the bits of eager."""
    graph, arrays = recorded(function, *given)
    program, wanted = compile_graph(graph), evaluate(graph, arrays)
    assert isinstance(program, Executable)
    outs = [program(list(arrays))]
    for got in [*outs, interpreted(graph, arrays, Machine(8, 8))] if interpret else outs:
        for g, w in zip(got, wanted):
            np.testing.assert_array_equal(g, w)
            np.testing.assert_array_equal(np.signbit(g), np.signbit(w))


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_along_every_axis(dtype: str, name: str) -> None:
    scan = SCANS[name]

    def all_axes(xs: list[fw.Tensor]) -> list[fw.Tensor]:
        return [scan(x, axis=a) for x in xs for a in range(x.ndim)]

    xs = [numbers(s, dtype) for s in SHAPES]
    assert_equal(all_axes, xs, interpret=dtype in ("float32", "float16"))


def test_of_views_and_of_what_is_computed() -> None:
    def views(x: fw.Tensor, y: fw.Tensor) -> list[fw.Tensor]:
        turned, back = fw.matrix_transpose(x), fw.flip(x, axis=1)
        some, wide = x[1:, ::2], fw.broadcast_to(y, (5, 12))
        many = [turned, back, some, wide, x * 2.0 + y, x.reshape(6, 20)]
        return [fw.cumulative_sum(v, axis=a) for v in many for a in (0, 1)]

    assert_equal(views, numbers((10, 12), "float32"), numbers((12,), "float32"))


def test_a_scan_of_a_scan_and_what_follows() -> None:
    def both(x: fw.Tensor) -> fw.Tensor:
        return fw.cumulative_sum(fw.cumulative_sum(x, axis=0) * 0.5, axis=1)[:, 1:] + 1.0

    assert_equal(both, numbers((19, 40), "float32"))


def test_the_first_element_keeps_its_sign() -> None:
    zeros = fw.from_numpy(np.array([[-0.0, -0.0, 0.0], [-0.0, 1.0, -1.0]], np.float32))
    assert_equal(lambda x: fw.cumulative_sum(x, axis=1), zeros)


def test_many_rows_on_all_threads() -> None:
    for axis in (0, 1, 2):
        x = numbers((40, 35, 37), "float32")
        assert_equal(lambda x, a=axis: fw.cumulative_sum(x, axis=a), x, interpret=False)


def test_gradients() -> None:
    def gradient(x: fw.Tensor, u: fw.Tensor) -> tuple[fw.Tensor, ...]:
        outs = [fw.cumulative_sum(x, axis=0), fw.cumulative_prod(x, axis=1), fw.logcumsumexp(x, 1)]
        return tuple(fw.grad(out, [x], u)[0] for out in outs)

    x, u = numbers((9, 13), "float64").requires_grad_(), numbers((9, 13), "float64")
    compiled = fw.compile(gradient, fullgraph=True)
    compiled(x, u)
    for got, wanted in zip(compiled(x, u), gradient(x, u)):
        assert_same(got, wanted)
