"""Symbolic sizes of a graph, replaced by numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fusewire.capture.graph.bind_sizes import bind_sizes, has_symbols
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.graph.text import parse, to_text
from fusewire.capture.graph.verify import verify
from fusewire.capture.sizes.symbolic_dim import ShapeEnv
from fusewire.eager.errors import GraphError

BEFORE = """
x = input()  # float32[n, 2*m]
v1 = exp(x)  # float32[n, 2*m]
v2 = reshape(v1, shape=(n*m, 2))  # float32[n*m, 2]
v3 = full(shape=(n//2,), value=1.0, dtype=float32)  # float32[n//2]
return v2, v3"""

AFTER = """
x = input()  # float32[6, 8]
v1 = exp(x)  # float32[6, 8]
v2 = reshape(v1, shape=(24, 2))  # float32[24, 2]
v3 = full(shape=(3,), value=1.0, dtype=float32)  # float32[3]
return v2, v3"""


def test_sizes_in_types_and_params() -> None:
    found = verify(bind_sizes(parse(BEFORE), {"n": 6, "m": 4}), "specialise")
    assert to_text(found) == AFTER.strip()


def test_a_size_as_an_operand() -> None:
    """x / n: the size is a number of the dtype that it adapts to."""
    nodes, sizes = Nodes(), ShapeEnv({"n": 2})
    n, float32 = sizes.named("n"), np.dtype("float32")
    x = nodes.input("x", parse(BEFORE).inputs[0].type)
    scaled = nodes.make("divide", (x, nodes.const(n * n + 1, float32)), {}, x.type)
    text = to_text(bind_sizes(Graph((x,), (scaled,)), {"n": 3, "m": 1}))
    assert text.splitlines()[1:] == ["v1 = divide(x, float32(10.0))  # float32[3, 2]", "return v1"]


def test_what_may_be_written_over_stays() -> None:
    graph = parse(BEFORE)
    donated = Graph(graph.inputs, graph.outputs, {0: 0})
    assert bind_sizes(donated, {"n": 1, "m": 1}).donated == {0: 0}


def test_symbols_are_found_wherever_they_are() -> None:
    assert has_symbols(parse(BEFORE))
    assert not has_symbols(parse(AFTER))
    only_inside = parse("""
        x = input()  # float32[2]
        v1 = broadcast_to(x, shape=(n, 2))  # float32[n, 2]
        v2 = sum(v1, axis=(0, 1), keepdims=False)  # float32[]
        return v2""")
    assert has_symbols(only_inside)


def test_numpy_evaluates_no_symbols() -> None:
    """What a size was when it was recorded may be another one by now."""
    graph, x = parse(BEFORE), np.ones((6, 8), np.float32)
    with pytest.raises(GraphError, match=r"the size n.* has no number"):
        evaluate(graph, [x])
    assert [a.shape for a in evaluate(bind_sizes(graph, {"n": 6, "m": 4}), [x])] == [(24, 2), (3,)]
