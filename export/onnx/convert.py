"""A graph as the body of an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...capture.dims import Dim
from ...capture.graph import Graph, Node, users
from ...eager.errors import ExportError
from ...eager.op import OPS, Op
from .constants import Constants, Named
from .context import Context
from .fuse import fused
from .scalar import Builder
from .sizes import SizeWriter
from .table import INSTEAD, ROWS, Row, formula_row
from .write import Value, Writer


class Step(NamedTuple):
    """A node to write: from which values, and how."""

    node: Node
    inputs: tuple[Node, ...]
    write: Callable[[Context, list[Value]], Value]


def row_of(op: Op) -> Row | None:
    """How `op` is written; None where it is not, or is opened into other ops."""
    if op.name in ROWS:
        return ROWS[op.name]
    if op.onnx:
        return lambda c, node, xs: c.writer.apply(op.onnx, xs, node.type.dtype)
    return formula_row if op.kind == "pointwise" and "onnx" not in op.why else None


class Converter:
    """Writes the nodes that the outputs need, constants computed and patterns joined."""

    def __init__(self, graph: Graph, constants: Mapping[Node, Named], writer: Writer) -> None:
        self.graph, self.writer = graph, writer
        self._nodes = graph.nodes()
        self._users = users(self._nodes)
        for out in graph.outputs:
            self._users[out].append(out)  # the caller reads it: it may not vanish in a pattern
        self._constants = Constants(self._nodes, constants)
        self._values: dict[Node, Value] = {}

    def run(self) -> list[Value]:
        """Writes everything; the values of the outputs."""
        found_in: dict[str, tuple[Value, int]] = {}
        for node in self.graph.inputs:
            value = self._values[node] = Value(node.params["name"], node.type.dtype)
            for axis, size in enumerate(node.type.shape):
                if type(size) is Dim:
                    found_in.setdefault(str(size), (value, axis))
        context = Context(self.writer, SizeWriter(self.writer, found_in), Builder(self.writer))
        for step in self._steps():
            self.writer.site = step.node.site
            try:
                inputs = [self._value(i) for i in step.inputs]
                self._values[step.node] = step.write(context, inputs)
            except ExportError as error:
                raise _refused(step.node, error.message, error.help) from None
        self.writer.site = ""
        return [self._value(out) for out in self.graph.outputs]

    def _value(self, node: Node) -> Value:
        """The value of a node that is written, or of a constant."""
        if node not in self._values:
            named = self._constants[node]
            self._values[node] = self.writer.const(named.array, name=named.name)
        return self._values[node]

    def _steps(self) -> list[Step]:
        """The nodes to write, inputs first, with the patterns that end in them."""
        needed, steps = set(self.graph.outputs), []
        for node in reversed(self._nodes):
            if node not in needed or node in self._constants or node in self.graph.inputs:
                continue
            pattern = fused(node, self._users)
            step = _plain(node) if pattern is None else Step(node, *pattern)
            steps.append(step)
            needed.update(step.inputs)
        return steps[::-1]


def _plain(node: Node) -> Step:
    """A node written by itself."""
    if node.op == "const":  # a size that may vary
        return Step(node, (), lambda c, xs: c.sizes.number(node.params["value"], node.type.dtype))
    row = row_of(OPS[node.op])
    if row is None:
        raise _refused(node, OPS[node.op].why.get("onnx", "it has no counterpart in ONNX"))
    return Step(node, node.inputs, lambda c, xs: row(c, node, xs))


def _refused(node: Node, why: str, help: str = "") -> ExportError:
    """The error of a node that cannot be written, at the user's line."""
    error = ExportError(f"{node.op} cannot be written to ONNX: {why}",
                        INSTEAD.get(node.op, help))
    error.line = node.site
    return error
