"""Every op, forward and backward, gives compiled what it gives eager, for all inputs of a row."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded, tensors
from samples import ROWS, Row

import fusewire as fw
from fusewire.capture.evaluate import evaluate
from fusewire.codegen.executable import Executable

Cases = list[list[fw.Tensor]]
TREES = [row for row in ROWS if row.op in ("places", "repeats") or row.label == "quantile, by q"]


def cases(row: Row, requires_grad: bool = False) -> Cases:
    return [tensors(a, requires_grad) for a in row.inputs(np.random.default_rng(0))]


def forward(row: Row) -> Any:
    """A function that calls the row with each of its inputs: one recording for all of them."""

    call = row.call  # not the row: its arrays would not be recorded

    def every(given: Cases) -> list[fw.Tensor]:
        return [call(*xs) for xs in given]

    return every


def backward(row: Row) -> Any:
    """A function that gives the gradients of each call's result, weighted by `u`."""

    call = row.call

    def every(given: Cases, us: list[fw.Tensor]) -> list[Any]:
        return [fw.grad(call(*xs), [x for x in xs if x.requires_grad], u, allow_unused=True)
                for xs, u in zip(given, us)]

    return every


def run_all(fn: Any, *given: Any) -> list[Any]:
    """The results of fn(*given): compiled, recorded and replayed, and by the loop interpreter
    where all of it has code."""
    compiled = fw.compile(fn, fullgraph=True)
    outs = [compiled(*given), compiled(*given)]
    (program,) = compiled.programs
    stage, *more = program.stages()
    if not more and isinstance(stage.executable, Executable):
        stage.executable = functools.partial(interpreted, stage.graph)
        outs.append(compiled(*given))
    assert compiled.stats.replays == len(outs) - 1
    return outs


def assert_all_same(row: Row, given: Cases, outs: list[Any], eager: Any) -> None:
    """Each result in `outs` is the eager one, case by case."""
    for out in outs:
        for xs, got, expected in zip(given, out, eager):
            got, expected = (r if isinstance(r, tuple) else (r,) for r in (got, expected))
            assert [g is None for g in got] == [e is None for e in expected]
            for g, e in zip(got, expected):
                if e is not None:
                    assert_same(g, e, row.tolerance / 2e-6, str([x._data for x in xs]))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_compiled_and_interpreted_is_eager(row: Row) -> None:
    given = cases(row)
    with np.errstate(all="ignore"):
        assert_all_same(row, given, run_all(forward(row), given), forward(row)(given))


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad], ids=str)
def test_compiled_gradient_is_eager(row: Row) -> None:
    rng = np.random.default_rng(1)
    outs = [(xs, row.call(*xs)) for xs in cases(row, requires_grad=True)]
    given = [xs for xs, out in outs if out.requires_grad]
    us = [fw.from_numpy(np.asarray(rng.standard_normal(out.shape), out.dtype))
          for _, out in outs if out.requires_grad]
    if given:
        with np.errstate(all="ignore"):
            assert_all_same(row, given, run_all(backward(row), given, us), backward(row)(given, us))


@pytest.mark.parametrize("row", [r for r in ROWS if r not in TREES], ids=str)  # one graph
def test_recorded_graph_is_eager(row: Row) -> None:
    given = cases(row)
    graph, arrays = recorded(forward(row), given)
    eager = {id(t): t for t in forward(row)(given)}
    with np.errstate(all="ignore"):
        for got, expected in zip(evaluate(graph, arrays), eager.values()):
            assert_same(got, expected, row.tolerance / 2e-6)
