"""Prints graphs as text that reads like Python, and parses that text.

    x = input()  # float32[2, 3]
    a = multiply(x, 2.0)  # float32[2, 3]
    b = sum(a, axis=(1,), keepdims=False)  # float32[2]
    return b
"""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np

from ...eager.arrays.shapes import TensorType
from ...eager.errors import GraphError
from ..sizes.symbolic_dim import ShapeEnv
from .graph import Graph, Node, Nodes, topological


def to_text(graph: Graph, sites: bool = False) -> str:
    """The graph as text. With `sites`, each line ends in the location of the user's code."""
    names: dict[Node, str] = {}
    lines: list[str] = []
    for node in topological((*graph.inputs, *graph.outputs)):
        if node.op == "const" and not node.type.shape:
            names[node] = _literal(node)
            continue
        names[node] = node.params["name"] if node.op == "input" else f"v{len(lines)}"
        where = f"  {node.site}" if sites and node.site else ""
        lines.append(f"{names[node]} = {_call(node, names)}  # {node.type}{where}")
    lines.append("return " + ", ".join(names[o] for o in graph.outputs))
    return "\n".join(lines)


def _literal(node: Node) -> str:
    return f"{node.type.dtype.name}({node.params['value']!r})"


def _call(node: Node, names: dict[Node, str]) -> str:
    params = {k: v for k, v in node.params.items() if node.op != "input" or k != "name"}
    args = [names[i] for i in node.inputs] + [f"{k}={_param(v)}" for k, v in params.items()]
    return f"{node.op}({', '.join(args)})"


def _param(value: Any) -> str:
    return value.name if isinstance(value, np.dtype) else repr(value)


_LINE = re.compile(r"^(?P<name>\w+) = (?P<call>.+)  # (?P<dtype>\w+)\[(?P<shape>[^\]]*)\]")


def parse(text: str) -> Graph:
    """The graph that `to_text` printed. Raises GraphError for any other text."""
    nodes, inputs = Nodes(), list[Node]()
    env: dict[str, Node] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("return "):
            outs = tuple(_value(nodes, env, a) for a in _arguments(line[len("return "):]))
            return Graph(tuple(inputs), outs)
        match = _LINE.match(line)
        if match is None:
            raise GraphError(f"not a line of a graph: {line!r}")
        node = _parse_call(nodes, env, match)
        env[match["name"]] = node
        if node.op == "input":
            inputs.append(node)
    raise GraphError("the text has no line that begins with return")


def _parse_call(nodes: Nodes, env: dict[str, Node], match: re.Match[str]) -> Node:
    shape = tuple(_number(ast.parse(n.strip(), mode="eval").body)
                  for n in match["shape"].split(",") if n.strip())
    kind = TensorType(shape, np.dtype(match["dtype"]))
    call = ast.parse(match["call"], mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    if call.func.id == "input":
        return nodes.input(match["name"], kind, **{
            k.arg or "": _parse_param("", k.value) for k in call.keywords})
    args = [_value(nodes, env, a) for a in call.args]
    params = {k.arg: _parse_param(k.arg or "", k.value) for k in call.keywords}
    return nodes.make(call.func.id, args, params, kind)  # type: ignore[arg-type]


def _arguments(text: str) -> list[ast.expr]:
    body = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(body, ast.Call)
    return body.args


def _value(nodes: Nodes, env: dict[str, Node], e: ast.expr) -> Node:
    if isinstance(e, ast.Name):
        return env[e.id]
    assert isinstance(e, ast.Call) and isinstance(e.func, ast.Name)
    return nodes.const(_number(e.args[0]), np.dtype(e.func.id))


def _number(e: ast.expr) -> Any:
    """A literal, or a symbolic size. The text has no value for the symbols: each gets 2."""
    constants = {"inf": float("inf"), "nan": float("nan")}
    names = {n.id for n in ast.walk(e) if isinstance(n, ast.Name)} - constants.keys()
    sizes = ShapeEnv(dict.fromkeys(names, 2))
    return eval(compile(ast.Expression(e), "<graph>", "eval"),
                {"__builtins__": {}, **constants, **{name: sizes.named(name) for name in names}})


def _parse_param(name: str, e: ast.expr) -> Any:
    return np.dtype(e.id) if name == "dtype" and isinstance(e, ast.Name) else _number(e)
