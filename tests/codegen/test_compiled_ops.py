"""Every op, forward and backward, gives compiled what it gives eager, for all inputs of a row."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded, tensors
from samples import ROWS, Row

import fusewire as fw
from fusewire.capture.compiled import CaptureWarning
from fusewire.capture.evaluate import evaluate
from fusewire.capture.graph import Graph

WITHOUT_CODE = {"scatter_add", "float16", "complex64", "complex128"}  # ops and dtypes: run eagerly

Cases = list[list[fw.Tensor]]


def cases(row: Row, requires_grad: bool = False) -> Cases:
    return [tensors(a, requires_grad) for a in row.inputs(np.random.default_rng(0))]


def forward(row: Row) -> Any:
    """A function that calls the row with each of its inputs: one recording for all of them."""

    def every(given: Cases) -> list[fw.Tensor]:
        return [row.call(*xs) for xs in given]

    return every


def backward(row: Row) -> Any:
    """A function that gives the gradients of each call's result, weighted by `u`."""

    def every(given: Cases, us: list[fw.Tensor]) -> list[Any]:
        return [fw.grad(row.call(*xs), [x for x in xs if x.requires_grad], u, allow_unused=True)
                for xs, u in zip(given, us)]

    return every


def has_code(graph: Graph) -> bool:
    nodes = graph.nodes()
    return WITHOUT_CODE.isdisjoint({n.op for n in nodes} | {n.type.dtype.name for n in nodes})


def agree(row: Row, fn: Any, *given: Any) -> None:
    """fn(*given) is compiled what it is eager, or runs eagerly, with a warning, for lack of code."""
    eager = fn(*given)
    native = has_code(recorded(fn, *given)[0])
    expect = contextlib.nullcontext() if native else pytest.warns(CaptureWarning, match="no code")
    compiled = fw.compile(fn)
    with expect:  # type: ignore[attr-defined]
        outs = [compiled(*given), compiled(*given)]
    assert compiled.stats.replays == native
    for out in outs:
        for xs, got, expected in zip(given[0], out, eager):
            got, expected = (r if isinstance(r, tuple) else (r,) for r in (got, expected))
            assert [g is None for g in got] == [e is None for e in expected]
            for g, e in zip(got, expected):
                if e is not None:
                    assert_same(g, e, row.tolerance / 2e-6, str([x.data for x in xs]))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_compiled_is_eager(row: Row) -> None:
    agree(row, forward(row), cases(row))


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad], ids=str)
def test_compiled_gradient_is_eager(row: Row) -> None:
    rng = np.random.default_rng(1)
    outs = [(xs, row.call(*xs)) for xs in cases(row, requires_grad=True)]
    given = [xs for xs, out in outs if out.requires_grad]
    us = [fw.from_numpy(np.asarray(rng.standard_normal(out.shape), out.dtype))
          for _, out in outs if out.requires_grad]
    agree(row, backward(row), given, us)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_graph_and_loops_are_eager(row: Row) -> None:
    given = cases(row)
    eager = forward(row)(given)
    graph, arrays = recorded(forward(row), given)
    with np.errstate(all="ignore"):
        results = [evaluate(graph, arrays)]
        if has_code(graph):
            results.append(interpreted(graph, arrays))
    for result in results:
        for expected, got in zip({id(t): t for t in eager}.values(), result):
            assert_same(got, expected, row.tolerance / 2e-6)
