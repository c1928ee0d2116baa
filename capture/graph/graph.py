"""The graph: frozen nodes, each made once.

A node is a value: what op, of which nodes, with which params, of what type, and the user's line.
Equal nodes are one object, so common sub-expressions are shared without a pass, and what no output
needs is simply not reached.
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


def param_key(value: Any) -> Any:
    """A hashable stand-in for a param that tells 1, 1.0 and True apart, and 0.0 from -0.0."""
    if isinstance(value, tuple):
        return tuple(map(param_key, value))
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    return (type(value).__name__, value)


class Params(dict[str, Any]):
    """The params of a node, never changed once made, and their key."""

    __slots__ = ("_key",)
    _key: tuple[Any, ...]

    @property
    def key(self) -> Any:
        """Equal for equal params."""
        try:
            return self._key
        except AttributeError:
            self._key = tuple([(k, param_key(v)) for k, v in sorted(self.items())])
            return self._key


def params_key(params: Mapping[str, Any]) -> Any:
    """A hashable stand-in for the params of a node."""
    return (params if isinstance(params, Params) else Params(params)).key


class Nodes:
    """Makes nodes; each distinct one once."""

    def __init__(self) -> None:
        self._made: dict[Any, Node] = {}

    def make(
        self, op: str, inputs: Sequence[Node], params: Mapping[str, Any], type: TensorType,
        site: str = "",
    ) -> Node:
        """The node of `op` over `inputs`, the same object for the same arguments."""
        own = params if isinstance(params, Params) else Params(params)
        key = (op, tuple(map(id, inputs)), own.key, type)
        found = self._made.get(key)
        if found is None:
            found = self._made.setdefault(key, Node(op, tuple(inputs), own, type, site))
        return found

    def again(self, node: Node, inputs: Sequence[Node]) -> Node:
        """`node` over these inputs: itself, where they are its own and no equal one was made."""
        if any(map(operator.is_not, inputs, node.inputs)) or not isinstance(node.params, Params):
            return self.make(node.op, inputs, node.params, node.type, node.site)
        key = (node.op, tuple(map(id, inputs)), node.params.key, node.type)
        return self._made.setdefault(key, node)

    def apply(
        self, op: str, inputs: Sequence[Node], params: Mapping[str, Any], site: str = ""
    ) -> Node:
        """The node of an op, its type found by the op's own rule."""
        found = OPS[op].result(*[n.type for n in inputs], **params)
        return self.make(op, inputs, params, found, site)

    def input(self, name: str, type: TensorType, device: str = CPU) -> Node:
        """A value given from outside, told apart by name, and the device that it is on."""
        where = {} if device == CPU else {"device": device}
        return self.make("input", (), {"name": name, **where}, type)

    def const(self, value: Any, dtype: Any, shape: tuple[int, ...] = ()) -> Node:
        """A small literal: a Python scalar, or a flat tuple of them for a `shape`."""
        return self.make("const", (), {"value": value}, TensorType(shape, dtype))


@dataclass(frozen=True, eq=False)
class Graph:
    """A function from `inputs` to `outputs`. `donated[j] = i`: output j may replace input i; `kept`
    are the inputs that mostly are the same arrays from call to call."""

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    donated: Mapping[int, int] = field(default_factory=dict)
    kept: frozenset[int] = frozenset()

    def nodes(self) -> list[Node]:
        """Every node that an output needs, inputs before users."""
        return self._nodes

    @functools.cached_property
    def _nodes(self) -> list[Node]:
        return topological(self.outputs)


def topological(roots: Iterable[Node]) -> list[Node]:
    """Every node reachable from `roots`, inputs before users; graphs outgrow Python's stack."""
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
    """What `root` is computed from, inputs before users and itself last, as far as that is not
    among `done`, to which whoever takes a node adds it; nothing beyond a node that `ends`."""
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
    """For each node, the nodes that read it, once for each time it stands among their inputs."""
    found: dict[Node, list[Node]] = {}
    for node in nodes:
        found.setdefault(node, [])
        for i in node.inputs:
            found.setdefault(i, []).append(node)
    return found


def rebuild(graph: Graph, visit: Any, nodes: Nodes | None = None,
            new: dict[Node, Node] | None = None) -> Graph:
    """The graph with every node replaced by `visit(nodes, node, new_inputs)`, inputs first; the
    graph itself where that changes nothing. `new` is filled on the way: the new nodes by the
    old."""
    made = nodes or Nodes()
    new = {} if new is None else new
    for node in (*graph.inputs, *graph.nodes()):
        if node not in new:
            new[node] = visit(made, node, tuple([new[i] for i in node.inputs]))
    if all(map(operator.is_, new, new.values())):
        return graph
    return Graph(tuple([new[i] for i in graph.inputs]), tuple([new[o] for o in graph.outputs]),
                 graph.donated, graph.kept)
