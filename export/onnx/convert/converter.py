"""Converts a graph to the nodes of an ONNX model, as far as results are requested."""

from __future__ import annotations

import contextlib
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....capture.graph.graph import Graph, Node, users
from ....capture.scalars.scalar_expr import ScalarExpr, elements
from ....capture.sizes.symbolic_dim import Dim
from ....eager.core.op import OPS, Op
from ....eager.errors import ExportError, GraphError
from ..writer.constants import Constants, Named
from ..writer.context import WriterContext
from ..writer.graph_writer import OnnxValue, Writer
from ..writer.pointwise_formulas import Builder
from ..writer.python_numbers import NumberWriter
from ..writer.size_expressions import SizeWriter
from . import activations, normalization, quantized, recurrent, regions  # noqa: F401  # for rows
from .linear_resize import interpolated
from .op_table import INSTEAD, ROWS, Row, formula_row
from .patterns import fused

# Composites that are written as one operator if the predicate holds.
WHOLE: dict[str, Callable[[Node, int], bool]] = {
    "normalize": normalization.is_whole, "recurrent": recurrent.is_whole,
    "quantized_linear": quantized.is_whole, "quantized_conv": quantized.is_whole,
    "dynamic_scale": quantized.has_range, "dynamic_zero": quantized.has_range}


class Step(NamedTuple):
    """A node to write, its operands, and the function that writes it."""

    node: Node
    inputs: tuple[Node, ...]
    write: Callable[[WriterContext, list[OnnxValue]], OnnxValue]


def row_of(op: Op) -> Row | None:
    """The function that writes `op`; None if there is none, or if it is decomposed."""
    if op.name in ROWS:
        return ROWS[op.name]
    if op.onnx:
        return lambda c, node, xs: c.writer.apply(op.onnx, xs, node.type.dtype)
    return formula_row if op.kind == "pointwise" and "onnx" not in op.why else None


def is_written(node: Node, opset: int) -> bool:
    """False for a composite that is decomposed; True if it is written as one op or rejected."""
    op = OPS[node.op]
    if node.op in WHOLE and not WHOLE[node.op](node, opset):
        return False
    return row_of(op) is not None or "onnx" in op.why


class Converter:
    """Writes requested nodes, with constants folded and patterns fused.

    `inputs`: the names of input nodes. `numbers`: the inputs that are Python numbers. `now`: the
    nodes of this graph by the traced ones. Loop-carried values are bound before they are read.
    """

    def __init__(self, graph: Graph, inputs: Mapping[Node, str], constants: Mapping[Node, Named],
                 writer: Writer, numbers: Mapping[Node, ScalarExpr],
                 now: Mapping[Node, Node]) -> None:
        self.writer, self.numbers, self.now = writer, numbers, now
        self.nodes = self._ordered(graph.outputs)
        self.users = users(self.nodes)
        for out in graph.outputs:
            self.users[out].append(out)  # so that no pattern absorbs an output
        self._constants = Constants(self.nodes, constants)
        self._values: ChainMap[Node, OnnxValue] = ChainMap()
        self._phis: ChainMap[Any, OnnxValue] = ChainMap()
        self._context = self._context_of(inputs)

    def _context_of(self, inputs: Mapping[Node, str]) -> WriterContext:
        axes_by_name: dict[str, tuple[OnnxValue, int]] = {}
        for node, name in inputs.items():
            value = self._values[node] = OnnxValue(name, node.type.dtype)
            for axis, size in enumerate(node.type.shape):
                if type(size) is Dim:
                    axes_by_name.setdefault(str(size), (value, axis))
        k, sizes = Builder(self.writer), SizeWriter(self.writer, axes_by_name)
        self.number = NumberWriter(k, sizes, lambda n: self.write([self.now[n]])[0], self._phis)
        return WriterContext(self.writer, sizes, k)

    @contextlib.contextmanager
    def subgraph(self) -> Iterator[None]:
        """A context in which new nodes belong to a subgraph of the present graph."""
        sizes, number = self._context.sizes, self.number
        before = self._values, self._phis, sizes.values, number.numbers
        self._values, self._phis = self._values.new_child(), self._phis.new_child()
        sizes.values, number.numbers = sizes.values.new_child(), number.numbers.new_child()
        number.phis = self._phis
        try:
            with self.writer.subgraph():
                yield
        finally:
            self._values, self._phis, sizes.values, number.numbers = before
            number.phis = self._phis

    def bind(self, phi: Node | ScalarExpr, value: OnnxValue) -> None:
        """Binds a loop-carried value, which may then be read."""
        if isinstance(phi, ScalarExpr):
            self._phis[phi.args[0]] = value
        else:
            self._values[phi] = value

    def write(self, roots: Sequence[Node]) -> list[OnnxValue]:
        """The values of `roots`, which are written if they do not exist yet."""
        for step in self._steps(roots):
            self.writer.site = step.node.site
            try:
                inputs = [self._value(i) for i in step.inputs]
                self._values[step.node] = step.write(self._context, inputs)
            except (ExportError, GraphError) as error:  # GraphError: a dynamic size would be fixed
                raise _refused(step.node, error.message, error.help) from None
        self.writer.site = ""
        return [self._value(n) for n in roots]

    def is_there(self, node: Node) -> bool:
        """True if a node is written or constant."""
        return node in self._values or node in self._constants

    def reads(self, node: Node) -> Iterable[Node]:
        """The operands of a node; for a Python number, the nodes of the elements it reads."""
        if node in self.numbers:
            return [self.now[n] for n in elements([self.numbers[node]])]
        return node.inputs

    def _ordered(self, roots: Iterable[Node]) -> list[Node]:
        """All nodes in topological order."""
        seen: dict[Node, None] = {}
        stack = list(roots)[::-1]
        while stack:
            node = stack[-1]
            missing = [i for i in self.reads(node) if i not in seen] if node not in seen else ()
            if missing:
                stack += list(missing)[::-1]
            else:
                seen[stack.pop()] = None
        return list(seen)

    def _value(self, node: Node) -> OnnxValue:
        """The value of a written node, or of a constant."""
        if node not in self._values:
            named = self._constants[node]
            self._values[node] = self.writer.const(named.array, name=named.name)
        return self._values[node]

    def _steps(self, roots: Sequence[Node]) -> list[Step]:
        """The nodes to write in topological order, with the patterns that end in them."""
        needed, steps = {n for n in roots if not self.is_there(n)}, []
        for node in reversed(self.nodes) if needed else ():
            if node not in needed or self.is_there(node):
                continue
            pattern = fused(node, self.users, self.writer.opset) or interpolated(
                node, self.users, self._constants)
            step = self._plain(node) if pattern is None else Step(node, *pattern)
            steps.append(step)
            needed.update(self.reads(node) if node in self.numbers else step.inputs)
        return steps[::-1]

    def _plain(self, node: Node) -> Step:
        """A step for a node without a pattern."""
        formula = self.numbers.get(node)
        if formula is None:
            return _plain(node)
        dtype = node.type.dtype
        return Step(node, (), lambda c, xs: c.writer.cast(self.number(formula), dtype))


def _plain(node: Node) -> Step:
    """A step for a node of an op without a pattern."""
    if node.op == "const":  # a dynamic size
        return Step(node, (), lambda c, xs: c.sizes.number(node.params["value"], node.type.dtype))
    row = row_of(OPS[node.op])
    if row is None:
        raise _refused(node, OPS[node.op].why.get("onnx", "it has no counterpart in ONNX"))
    return Step(node, node.inputs, lambda c, xs: row(c, node, xs))


def _refused(node: Node, why: str, help: str = "") -> ExportError:
    """The error for a node without a counterpart in ONNX, at the user's line."""
    error = ExportError(f"{node.op} cannot be written to ONNX: {why}",
                        INSTEAD.get(node.op, help))
    error.line = node.site
    return error
