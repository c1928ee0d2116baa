"""Builds the expression of one element of a node; nodes without memory are inlined."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from typing import Any

from ...capture.graph.graph import Node
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS
from ...eager.errors import CodegenError
from . import loop_ir
from .affine_index import Index, as_index, assume_in_bounds, atom
from .axis_coalescing import recombine_divmod
from .builder import BUILDER, ExprValue, call, cast
from .loop_ir import INT, Expr
from .sizes import largest

Indices = tuple[Any, ...]
# (node, index, mask) -> the value read, or None to compute the node from its inputs.
ReadCallback = Callable[[Node, Indices, Any], "ExprValue | None"]
# Yields requests (node, index, mask), is sent their values, and returns the value of its own node.
Evaluation = Generator[tuple[Node, Indices, Any], ExprValue, Any]


class Inliner:
    """Builds expressions of elements. The `read` callback supplies the nodes that are read."""

    def __init__(self, read: ReadCallback) -> None:
        self._read = read
        self._memo: dict[Any, ExprValue] = {}

    def value(self, node: Node, index: Indices, mask: Any = None) -> ExprValue:
        """Element `index` of `node`. Nothing is read from memory where `mask` is false."""
        key, value = self._lookup(node, index, mask)
        if value is not None:
            return value
        # Formulas can be deeper than Python's stack, so pending evaluations are on this one.
        pending = [(key, self._evaluate(node, index, mask))]
        try:
            while pending:
                value = self._advance(pending, value)
        finally:  # after an error: leave the contexts of assumptions, innermost first
            for _, evaluation in reversed(pending):
                evaluation.close()
        assert value is not None
        return value

    def _advance(self, pending: list[tuple[Any, Evaluation]],
                 sent: ExprValue | None) -> ExprValue | None:
        """Resumes the last pending evaluation with the value it requested. Returns the next known
        value."""
        key, evaluation = pending[-1]
        try:
            request = evaluation.send(sent)  # type: ignore[arg-type]  # None begins a generator
        except StopIteration as end:
            pending.pop()
            self._memo[key] = end.value
            return end.value  # type: ignore[no-any-return]
        key, value = self._lookup(*request)
        if value is None:
            pending.append((key, self._evaluate(*request)))
        return value

    def _lookup(self, node: Node, index: Indices, mask: Any) -> tuple[Any, ExprValue | None]:
        """The key of a value, and the value itself where it is known, read or constant."""
        key = (node, tuple([as_index(i).expr() for i in index]), _key(mask))
        value = self._memo.get(key)
        if value is None:
            value = self._read(node, index, mask)
            if value is None and node.op == "const":
                value = BUILDER.const(node.params["value"], node.type.dtype)
            if value is not None:
                self._memo[key] = value
        return key, value

    def _evaluate(self, node: Node, index: Indices, mask: Any) -> Evaluation:
        evaluate = _EVALUATORS.get(OPS[node.op].kind)
        if evaluate is None:
            raise CodegenError(f"{node.op} cannot be computed one element at a time ({node.site})")
        value = yield from evaluate(self, node, index, mask)
        return cast(value, node.type.dtype)


def _key(mask: Any) -> Any:
    return mask.expr if isinstance(mask, ExprValue) else mask


def broadcast_index(index: Indices, shape: Sequence[int]) -> Indices:
    """The index into an operand of `shape` for element `index` of the result."""
    trailing = index[len(index) - len(shape):]
    return tuple(0 if n == 1 else i for i, n in zip(trailing, shape))


def _pointwise(inline: Inliner, node: Node, index: Indices, mask: Any) -> Evaluation:
    args = []
    for n in node.inputs:
        args.append((yield n, broadcast_index(index, n.type.shape), mask))
    return OPS[node.op].meaning(BUILDER, *args, **node.params)


def _create(inline: Inliner, node: Node, index: Indices, mask: Any) -> Evaluation:
    yield from ()  # its formula reads operands through `readers`
    readers = [_reader(inline, n, mask) for n in node.inputs]
    where = tuple(as_index(i) for i in index)
    return OPS[node.op].meaning(BUILDER, where, *readers, **node.params)


def _reader(inline: Inliner, node: Node, mask: Any) -> Callable[..., ExprValue]:
    return lambda *index: inline.value(node, tuple(as_index(i) for i in index), mask)


def _view(inline: Inliner, node: Node, index: Indices, mask: Any) -> Evaluation:
    types = [n.type for n in node.inputs]

    bounds = OPS[node.op].bounds
    sizes = dict(bounds(*types, **node.params)) if bounds else {}

    def at(n: int, where: Indices) -> Index:
        # The check of indices runs around the program; clamping keeps reads in bounds until then.
        value = cast(inline.value(node.inputs[n], where, mask), INT)
        last = largest(0, sizes[n] - 1)
        clamped = call("minimum", call("maximum", value, 0), last)
        return atom(clamped.expr, (0, last))

    where = tuple(as_index(i) for i in index)
    sources = OPS[node.op].meaning(BUILDER, where, types, at, **node.params)
    result: Any = node.params.get("fill", 0)
    for source in reversed(sources):
        if source.mask is None or source.mask is True:
            result = yield node.inputs[source.input], source.index, mask
        elif source.mask is not False:
            both = source.mask if mask is None else call("and", mask, source.mask)
            with assume_in_bounds(source.index, node.inputs[source.input].type.shape):
                inner = yield node.inputs[source.input], source.index, both
            result = _filled(source.mask, inner, result)
    return result if isinstance(result, ExprValue) else BUILDER.const(result, node.type.dtype)


def _filled(mask: Any, inner: ExprValue, other: Any) -> ExprValue:
    """`inner`, or `other` where the mask is false. A load under that mask yields it itself."""
    e = inner.expr
    if isinstance(e, loop_ir.Load) and e.mask is mask.expr and not isinstance(other, ExprValue):
        return ExprValue(loop_ir.load(e.buffer, e.index, e.mask, loop_ir.const(other, e.dtype)))
    return call("where", mask, inner, other)  # type: ignore[no-any-return]


_EVALUATORS = {"pointwise": _pointwise, "create": _create, "view": _view}


def flatten(index: Indices, shape: Sequence[int]) -> Index:
    """The position of an element in row-major memory."""
    total = as_index(0)
    for i, n in zip(index, shape):
        total = recombine_divmod(total * n + as_index(i))
    return total


def unflatten(position: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The index of an element from its position in row-major memory."""
    out: list[Index] = []
    for i, n in enumerate(reversed(shape)):
        last = i == len(shape) - 1
        out.append(position if last else position % n)
        position = position if last else position // n
    return tuple(reversed(out))


def memory_reader(buffers: Mapping[Node, loop_ir.KernelBuffer],
                  excluding: Container[Node] = ()) -> ReadCallback:
    """A callback that reads nodes in `buffers`, except the `excluding` nodes, which are being
    computed."""
    def read(node: Node, index: Indices, mask: Any) -> ExprValue | None:
        in_buffer = node in buffers and node not in excluding
        return load(buffers[node], node.type, index, mask) if in_buffer else None

    return read


def stores_of(members: Sequence[Node], buffers: Mapping[Node, loop_ir.KernelBuffer], where: Indices,
              value: ExprValue, memory: ReadCallback) -> list[loop_ir.Stmt]:
    """Stores of all group members that have a buffer, at one element.

    `value` is the element of the first member; `memory` reads the other operands."""
    def read(node: Node, index: Indices, mask: Any) -> ExprValue | None:
        first = node is members[0]
        return cast(value, node.type.dtype) if first else memory(node, index, mask)

    inline = Inliner(read)
    return [loop_ir.Store(buffers[m], flatten(where, m.type.shape).expr(),
                          inline.value(m, where).expr)
            for m in members if m in buffers]


def load(buffer: loop_ir.KernelBuffer, kind: TensorType, index: Indices, mask: Any) -> ExprValue:
    """An element read from memory, or 0 where the mask is false."""
    where = flatten(index, kind.shape).expr()
    if mask is None or mask is True:
        return ExprValue(loop_ir.load(buffer, where))
    other: Expr = loop_ir.const(0, kind.dtype)
    if mask is False:
        return ExprValue(other)
    return ExprValue(loop_ir.load(buffer, where, mask.expr, other))
