"""Structural keys of nodes: equal exactly where the same ops are applied in the same order."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from fusewire.capture.graph.graph import Node, Nodes, topological
from fusewire.capture.graph.structure import canonical
from fusewire.eager.arrays.shapes import TensorType

TYPE = TensorType((4, 4), np.dtype("float32"))
OPS = (("add", 2), ("multiply", 2), ("exp", 1), ("tanh", 1), ("sum", 1))


def random_nodes(seed: int, nodes: Nodes, names: str = "xyz") -> list[Node]:
    """Twenty nodes over three inputs, by numbers that only the seed decides."""
    rng = random.Random(seed)
    values = [nodes.input(name, TYPE) for name in names]
    for _ in range(20):
        op, count = rng.choice(OPS)
        params: dict[str, Any] = {"axis": (rng.randrange(2),), "keepdims": True} \
            if op == "sum" else {}
        inputs = [rng.choice(values[-6:]) for _ in range(count)]
        if op != "sum":
            inputs = [nodes.apply("broadcast_to", [n], {"shape": (4, 4)}) for n in inputs]
        values.append(nodes.apply(op, inputs, params))
    return values


def rows_of(root: Node) -> Any:
    return canonical([root], lambda n: n.type if n.op == "input" else None)[0]


@pytest.mark.parametrize("seed", range(20))
def test_equal_structures_have_equal_rows(seed: int) -> None:
    """Of other inputs, in nodes that were made beside others."""
    other = Nodes()
    random_nodes(seed + 100, other)
    for a, b in zip(random_nodes(seed, Nodes()), random_nodes(seed, other, "uvw")):
        assert rows_of(a) == rows_of(b)


@pytest.mark.parametrize("seed", range(20))
def test_other_structures_have_other_rows(seed: int) -> None:
    """Rows can be read back: each says its op, its params and which rows it reads."""
    nodes = Nodes()
    for root in random_nodes(seed, nodes):
        inputs = [n for n in topological([root]) if n.op == "input"]
        rows, numbers = canonical([root], lambda n, leaves=tuple(inputs): (
            "leaf", leaves.index(n)) if n.op == "input" else None)
        made: list[Node] = []
        for row in rows:
            made.append(inputs[row[1]] if row[0] == "leaf" else nodes.make(
                row[0], [made[i] for i in row[3]], {k: unkeyed(v) for k, v in row[1]}, row[2]))
        assert made[-1] is root and list(numbers.values()) == list(range(len(rows)))


def unkeyed(key: Any) -> Any:
    """The param of a key."""
    return key[1] if key and type(key[0]) is str else tuple(map(unkeyed, key))


@pytest.mark.parametrize("seed", range(20))
def test_leaves_are_asked_once_and_in_order(seed: int) -> None:
    roots = random_nodes(seed, Nodes())[-3:]
    asked: list[Node] = []
    leaves = [n for n in topological(roots) if len(n.op) == 4 or n.op == "input"]

    def leaf(node: Node) -> Any:
        asked.append(node)
        return ("leaf",) if node in leaves else None

    rows, numbers = canonical(roots, leaf)
    assert len(set(asked)) == len(asked) == len(rows) == len(numbers)
    assert [n for n in asked if n in leaves] == [n for n in numbers if n in leaves]
    order = list(numbers)
    assert all(order.index(i) < order.index(n) for n in order if n not in leaves for i in n.inputs)
