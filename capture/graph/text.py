"""Prints graphs as text that reads like Python, and parses that text.

    x = input()  # float32[2, 3]
    a = multiply(x, 2.0)  # float32[2, 3]
    b = sum(a, axis=(1,), keepdims=False)  # float32[2]
    return b
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...eager.arrays.devices import CPU
from ...eager.arrays.shapes import TensorType
from ...eager.errors import GraphError
from ..sizes.symbolic_dim import ShapeEnv
from .graph import Graph, Node, Nodes, topological


def to_text(graph: Graph, sites: bool = False) -> str:
    """The graph as text. With `sites`, each line ends in the location of the user's code."""
    printer = NodePrinter(sites)
    lines = printer.lines(topological((*graph.inputs, *graph.outputs)))
    return "\n".join([*lines, "return " + printer.listed(graph.outputs)])


class NodePrinter:
    """Prints the definitions of nodes, and names them. Scalar constants are operands without a
    name."""

    def __init__(self, sites: bool = False) -> None:
        self.names: dict[Node, str] = {}
        self._sites, self._named = sites, 0

    def lines(self, nodes: Iterable[Node]) -> list[str]:
        """The lines that define nodes, inputs before users."""
        lines = []
        for node in nodes:
            if node.op == "const" and not node.type.shape:
                self.names[node] = f"{node.type.dtype.name}({node.params['value']!r})"
                continue
            name = self.name(node)
            where = f"  {node.site}" if self._sites and node.site else ""
            lines.append(f"{name} = {self._call(node)}  # {node.type}{where}")
        return lines

    def name(self, node: Node) -> str:
        """The name of a node; that of an input is its own."""
        if node not in self.names:
            self.names[node] = node.params["name"] if node.op == "input" else f"v{self._named}"
            self._named += 1
        return self.names[node]

    def listed(self, nodes: Iterable[Node]) -> str:
        """The names of nodes, with commas."""
        return ", ".join([self.names[n] for n in nodes])

    def _call(self, node: Node) -> str:
        params = {k: v for k, v in node.params.items() if node.op != "input" or k != "name"}
        args = [self.names[i] for i in node.inputs] + [f"{k}={_param(v)}"
                                                       for k, v in params.items()]
        return f"{node.op}({', '.join(args)})"


def _param(value: Any) -> str:
    return value.name if isinstance(value, np.dtype) else repr(value)


_LINE = re.compile(r"^(?P<name>\w+) = (?P<call>.+)  # (?P<dtype>\w+)\[(?P<shape>[^\]]*)\]")


def parse(text: str) -> Graph:
    """The graph that `to_text` printed. Raises GraphError for any other text."""
    parser, inputs = NodeParser(), list[Node]()
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("return "):
            return Graph(tuple(inputs), tuple(parser.listed(line[len("return "):])))
        node = parser.line(line)
        if node.op == "input":
            inputs.append(node)
    raise GraphError("the text has no line that begins with return")


class NodeParser:
    """Parses the lines that a NodePrinter prints. `names`: the nodes by name."""

    def __init__(self, nodes: Nodes | None = None, sizes: ShapeEnv | None = None) -> None:
        self.nodes = Nodes() if nodes is None else nodes
        self.names: dict[str, Node] = {}
        self.sizes = sizes  # None: each expression has sizes of its own

    def line(self, line: str) -> Node:
        """The node that a line defines."""
        match = _LINE.match(line)
        if match is None:
            raise GraphError(f"not a line of a graph: {line!r}")
        node = self.names[match["name"]] = self._call(match["name"], match["call"], self.type(
            match["dtype"], match["shape"]))
        return node

    def type(self, dtype: str, shape: str) -> TensorType:
        """The type with this text."""
        sizes = [self.value(n) for n in shape.split(",") if n.strip()]
        return TensorType(tuple(sizes), np.dtype(dtype))

    def listed(self, text: str) -> list[Node]:
        """The nodes that a text names, with commas."""
        body = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(body, ast.Call)
        return [self._operand(a) for a in body.args]

    def value(self, text: str | ast.expr) -> Any:
        """A literal, or a size with its symbols."""
        e = ast.parse(text.strip(), mode="eval").body if isinstance(text, str) else text
        return _number(e, self.sizes)

    def _call(self, name: str, text: str, type: TensorType) -> Node:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        params = {k.arg or "": np.dtype(k.value.id) if k.arg == "dtype" and isinstance(
            k.value, ast.Name) else self.value(k.value) for k in call.keywords}
        if call.func.id == "input":
            return self.nodes.input(name, type, str(params.get("device", CPU)))
        return self.nodes.make(call.func.id, [self._operand(a) for a in call.args], params, type)

    def _operand(self, e: ast.expr) -> Node:
        if isinstance(e, ast.Name):
            if e.id not in self.names:
                raise GraphError(f"no line before defines {e.id}")
            return self.names[e.id]
        assert isinstance(e, ast.Call) and isinstance(e.func, ast.Name)
        return self.nodes.const(self.value(e.args[0]), np.dtype(e.func.id))


def _number(e: ast.expr, sizes: ShapeEnv | None) -> Any:
    """A literal, or a symbolic size. The text has no value for the symbols: each gets 2."""
    constants = {"inf": float("inf"), "nan": float("nan")}
    names = {n.id for n in ast.walk(e) if isinstance(n, ast.Name)} - constants.keys()
    sizes = ShapeEnv({}) if sizes is None else sizes
    for name in names:
        sizes.values.setdefault(name, 2)
    return eval(compile(ast.Expression(e), "<graph>", "eval"),
                {"__builtins__": {}, **constants, **{name: sizes.named(name) for name in names}})
