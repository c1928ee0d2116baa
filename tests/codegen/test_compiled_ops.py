"""Every op, forward and backward, gives compiled what it gives eager, for all inputs of its first
row and of a sample of the others; a sample also for float16 and bfloat16."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded, units_apart
from row_programs import OF_FLOATS, TREES, Cases, backward, cases, cases_in, forward, weighted
from samples import ROWS, Row
from sampling import sample, sample_of_each

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.program.executable import Executable

op_of = operator.attrgetter("op")


def run_all(fn: Any, *given: Any) -> list[Any]:
    """The results of fn(*given): compiled, recorded and replayed, and by the loop interpreter
    where all of it has code."""
    compiled = fw.compile(fn, fullgraph=True)
    outs = [compiled(*given), compiled(*given)]
    (program,) = compiled.programs
    segment, *more = program.segments()
    if not more and isinstance(segment.executable, Executable):
        segment.program = functools.partial(interpreted, segment.graph)
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


@pytest.mark.parametrize("row", sample_of_each(ROWS, op_of, 100, seed=2), ids=str)
def test_compiled_and_interpreted_is_eager(row: Row) -> None:
    given = cases(row)
    with np.errstate(all="ignore"):
        assert_all_same(row, given, run_all(forward(row), given), forward(row)(given))


@pytest.mark.parametrize("row", sample_of_each([r for r in ROWS if r.grad], op_of, 60, seed=3),
                         ids=str)
def test_compiled_gradient_is_eager(row: Row) -> None:
    given, us = weighted(row, cases(row, requires_grad=True))
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


# ---- floats of 16 bits
SMALL = {"float16": fw.float16, "bfloat16": fw.bfloat16}


def assert_rounded_alike(outs: list[Any], eager: Any) -> None:
    """What was rounded as in eager: a function that differs in its last bits of float32 comes out
    one number off where it lies in the middle."""
    for out in outs:
        for got, expected in zip(out, eager):
            got, expected = (r if isinstance(r, tuple) else (r,) for r in (got, expected))
            for g, e in zip(got, expected):
                if e is not None and e.dtype in SMALL.values():
                    assert (g.shape, g.dtype) == (e.shape, e.dtype)
                    assert units_apart(g._data, e._data).max(initial=0) <= 1
                elif e is not None:
                    assert_same(g, e, 100)


@pytest.mark.parametrize("row", sample(OF_FLOATS, 20), ids=str)
@pytest.mark.parametrize("dtype", SMALL)
def test_small_floats_are_rounded_as_in_eager(row: Row, dtype: str) -> None:
    with np.errstate(all="ignore"):
        given = cases_in(row, SMALL[dtype])
        if given:
            assert_rounded_alike(run_all(forward(row), given), forward(row)(given))


@pytest.mark.parametrize("row", sample([r for r in OF_FLOATS if r.grad], 15, seed=1), ids=str)
@pytest.mark.parametrize("dtype", SMALL)
def test_gradients_of_small_floats_are_rounded_as_in_eager(row: Row, dtype: str) -> None:
    with np.errstate(all="ignore"):
        given, us = weighted(row, cases_in(row, SMALL[dtype], True))
        if given:
            assert_rounded_alike(run_all(backward(row), given, us), backward(row)(given, us))
