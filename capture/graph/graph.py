"""Defines the graph: immutable nodes, hash-consed by `Nodes`.

A node is a value. It holds an op, its input nodes, its params, its type and the user's line. Equal
nodes are one object: common subexpressions are shared without a pass. Dead nodes are not reachable
from the outputs, so there is no pass to delete them either.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...eager.arrays.devices import CPU
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS

SPECIAL = ("input", "const")  # nodes that no op computes


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One value of a graph. Make it with `Nodes`, so that equal nodes are the same object."""

    op: str
    inputs: tuple[Node, ...]
    params: Mapping[str, Any]
    type: TensorType
    site: str = ""  # the user's line, shown in errors and reports

    @property
    def kind(self) -> str:
        return self.op if self.op in SPECIAL else OPS[self.op].kind

    def __repr__(self) -> str:
        return f"<{self.op} {self.type}>"


def param_key(value: Any) -> tuple[Any, ...]:
    """A hashable key of a param. It distinguishes 1, 1.0 and True, and 0.0 from -0.0."""
    if isinstance(value, tuple):
        return tuple(map(param_key, value))
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    return (type(value).__name__, value)


class Params(dict[str, Any]):
    """The params of a node, which never change, and their key."""

    __slots__ = ("_key",)
    _key: tuple[Any, ...]

    @property
    def key(self) -> Any:
        """A hashable key that is equal for equal params."""
        try:
            return self._key
        except AttributeError:
            self._key = tuple([(k, param_key(v)) for k, v in sorted(self.items())])
            return self._key


def params_key(params: Mapping[str, Any]) -> Any:
    """A hashable key of the params of a node."""
    return (params if isinstance(params, Params) else Params(params)).key


class Nodes:
    """A factory of nodes that creates each distinct node once (hash consing)."""

    def __init__(self) -> None:
        self._nodes: dict[Any, Node] = {}

    def __iter__(self) -> Iterator[Node]:
        """All nodes made so far, inputs before users."""
        return iter(self._nodes.values())

    def make(
        self, op: str, inputs: Sequence[Node], params: Mapping[str, Any], type: TensorType,
        site: str = "",
    ) -> Node:
        """The node of `op` over `inputs`, the same object for the same arguments."""
        frozen = params if isinstance(params, Params) else Params(params)
        key = (op, tuple(map(id, inputs)), frozen.key, type)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes.setdefault(key, Node(op, tuple(inputs), frozen, type, site))
        return node

    def with_inputs(self, node: Node, inputs: Sequence[Node]) -> Node:
        """`node` with these inputs; `node` itself if they are its own and no equal node exists."""
        if any(map(operator.is_not, inputs, node.inputs)) or not isinstance(node.params, Params):
            return self.make(node.op, inputs, node.params, node.type, node.site)
        key = (node.op, tuple(map(id, inputs)), node.params.key, node.type)
        return self._nodes.setdefault(key, node)

    def apply(
        self, op: str, inputs: Sequence[Node], params: Mapping[str, Any], site: str = ""
    ) -> Node:
        """The node of an op, with the type that the op's own rule gives."""
        result_type = OPS[op].result(*[n.type for n in inputs], **params)
        return self.make(op, inputs, params, result_type, site)

    def input(self, name: str, type: TensorType, device: str = CPU) -> Node:
        """An input of the graph, identified by its name, on a device."""
        placement = {} if device == CPU else {"device": device}
        return self.make("input", (), {"name": name, **placement}, type)

    def const(self, value: Any, dtype: Any, shape: tuple[int, ...] = ()) -> Node:
        """A small literal: a Python scalar, or a flat tuple of them for a `shape`."""
        return self.make("const", (), {"value": value}, TensorType(shape, dtype))


@dataclass(frozen=True, eq=False)
class Graph:
    """A function from `inputs` to `outputs`.

    `donated[j] = i`: output j may reuse the buffer of input i. `persistent`: positions of inputs
    that are expected to be the same arrays on every call, such as weights.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    donated: Mapping[int, int] = field(default_factory=dict)
    persistent: frozenset[int] = frozenset()

    def nodes(self) -> list[Node]:
        """The nodes that the outputs need, in topological order."""
        return self._nodes

    @functools.cached_property
    def _nodes(self) -> list[Node]:
        return topological(self.outputs)


def topological(roots: Iterable[Node]) -> list[Node]:
    """Every node reachable from `roots`, inputs before users.

    It does not recurse: graphs are deeper than Python's stack.
    """
    seen: dict[Node, None] = {}
    stack = list(roots)[::-1]
    while stack:
        node = stack[-1]
        missing = [i for i in node.inputs if i not in seen] if node not in seen else ()
        if missing:
            stack.extend(missing[::-1])
        else:
            seen[stack.pop()] = None
    return list(seen)


def missing_below(
    root: Node, done: Container[Node], ends: Callable[[Node], Any]
) -> Iterator[Node]:
    """The nodes that `root` needs beyond `done`, inputs before users and `root` last.

    The caller adds each node to `done` when it receives it. The search stops at nodes for which
    `ends` is true.
    """
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [] if node in done or ends(node) else [i for i in node.inputs if i not in done]
        if missing:
            stack += missing[::-1]
        else:
            stack.pop()
            if node not in done:
                yield node


def users(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """The nodes that read each node. A node that reads it twice is listed twice."""
    readers: dict[Node, list[Node]] = {}
    for node in nodes:
        readers.setdefault(node, [])
        for i in node.inputs:
            readers.setdefault(i, []).append(node)
    return readers


def rebuild(graph: Graph, visit: Any, nodes: Nodes | None = None,
            new: dict[Node, Node] | None = None) -> Graph:
    """The graph with every node replaced by `visit(nodes, node, new_inputs)`, inputs first.

    Returns the graph itself if no node changes. `new` receives the new node of each old node.
    """
    factory = nodes or Nodes()
    new = {} if new is None else new
    for node in (*graph.inputs, *graph.nodes()):
        if node not in new:
            new[node] = visit(factory, node, tuple([new[i] for i in node.inputs]))
    if all(map(operator.is_, new, new.values())):
        return graph
    return Graph(tuple([new[i] for i in graph.inputs]), tuple([new[o] for o in graph.outputs]),
                 graph.donated, graph.persistent)
