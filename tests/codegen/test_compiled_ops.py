"""Every op, forward and backward, gives compiled what it gives eager, for all inputs of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded, tensors
from samples import ROWS, Row

import fusewire as fw
from fusewire.capture.evaluate import evaluate


def cases(row: Row) -> list[list[fw.Tensor]]:
    return [tensors(a) for a in row.inputs(np.random.default_rng(0))]


def calls(row: Row) -> Any:
    """A function that calls the row with each of its inputs: one recording for all of them."""

    def every(given: list[list[fw.Tensor]]) -> list[fw.Tensor]:
        return [row.call(*xs) for xs in given]

    return every


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_compiled_is_eager(row: Row) -> None:
    given = cases(row)
    eager = calls(row)(given)
    compiled = fw.compile(calls(row), fullgraph=True)
    for out in (compiled(given), compiled(given)):
        for xs, got, expected in zip(given, out, eager):
            assert_same(got, expected, row.tolerance / 2e-6, str([x.data for x in xs]))
    assert compiled.stats.replays == 1


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_graph_and_loops_are_eager(row: Row) -> None:
    given = cases(row)
    eager = calls(row)(given)
    graph, arrays = recorded(calls(row), given)
    with np.errstate(all="ignore"):
        by_node, by_loop = evaluate(graph, arrays), interpreted(graph, arrays)
    unique = {id(t): t for t in eager}
    for expected, a, b in zip(unique.values(), by_node, by_loop):
        assert_same(a, expected, row.tolerance / 2e-6)
        assert_same(b, expected, row.tolerance / 2e-6)


def differentiated(row: Row) -> Any:
    """A function that gives the gradients of each call's result, weighted by `u`."""

    def every(given: list[list[fw.Tensor]], us: list[fw.Tensor]) -> list[Any]:
        found = []
        for xs, u in zip(given, us):
            leaves = [x for x in xs if x.requires_grad]
            found.append(fw.grad(row.call(*xs), leaves, u, allow_unused=True))
        return found

    return every


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad], ids=str)
def test_compiled_gradient_is_eager(row: Row) -> None:
    rng = np.random.default_rng(1)
    given, us = [], []
    for inputs in row.inputs(np.random.default_rng(0)):
        xs = tensors(inputs, requires_grad=True)
        out = row.call(*xs)
        if out.requires_grad:
            given.append(xs)
            us.append(fw.from_numpy(np.asarray(rng.standard_normal(out.shape), out.dtype)))
    eager = differentiated(row)(given, us)
    compiled = fw.compile(differentiated(row), fullgraph=True)
    compiled(given, us)
    for xs, got, expected in zip(given, compiled(given, us), eager):
        for g, e in zip(got, expected):
            if e is None:
                assert g is None
            else:
                assert_same(g, e, row.tolerance / 2e-6, str([x.data for x in xs]))
