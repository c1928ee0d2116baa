"""An element of a node as an expression: what has no memory is computed where it is read."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from typing import Any

from ...capture.graph.graph import Node
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS
from ...eager.errors import CodegenError
from . import loop_ir
from .affine_index import Index, as_index, assuming, atom
from .axis_coalescing import joined
from .builder import BUILDER, ExprValue, call, cast
from .loop_ir import INT, Expr

Indices = tuple[Any, ...]
# (node, index, mask) -> its value, or None: compute it from its inputs
Leaf = Callable[[Node, Indices, Any], "ExprValue | None"]
# Asks for (node, index, mask), is sent its value each time, and returns a value of its own.
Steps = Generator[tuple[Node, Indices, Any], ExprValue, Any]


class Inliner:
    """Expressions of elements. `leaf` answers for the nodes that are not to be computed here."""

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._memo: dict[Any, ExprValue] = {}

    def value(self, node: Node, index: Indices, mask: Any = None) -> ExprValue:
        """Element `index` of `node`; nothing is read from memory where `mask` is false."""
        key, found = self._look(node, index, mask)
        if found is not None:
            return found
        # Formulas are longer than Python's stack is deep: what waits for a value lies here.
        waiting = [(key, self._steps(node, index, mask))]
        try:
            while waiting:
                found = self._advance(waiting, found)
        finally:  # after an error: what they assumed ends, the innermost first
            for _, steps in reversed(waiting):
                steps.close()
        assert found is not None
        return found

    def _advance(self, waiting: list[tuple[Any, Steps]],
                 sent: ExprValue | None) -> ExprValue | None:
        """Gives the last of those that wait what it asked for: the value that is known next."""
        key, steps = waiting[-1]
        try:
            asked = steps.send(sent)  # type: ignore[arg-type]  # None begins a generator
        except StopIteration as end:
            waiting.pop()
            self._memo[key] = end.value
            return end.value  # type: ignore[no-any-return]
        key, found = self._look(*asked)
        if found is None:
            waiting.append((key, self._steps(*asked)))
        return found

    def _look(self, node: Node, index: Indices, mask: Any) -> tuple[Any, ExprValue | None]:
        """The key of a value, and the value where it is known or need not be computed here."""
        key = (node, tuple([as_index(i).expr() for i in index]), _key(mask))
        found = self._memo.get(key)
        if found is None:
            found = self._leaf(node, index, mask)
            if found is None and node.op == "const":
                found = BUILDER.const(node.params["value"], node.type.dtype)
            if found is not None:
                self._memo[key] = found
        return key, found

    def _steps(self, node: Node, index: Indices, mask: Any) -> Steps:
        maker = _MAKERS.get(OPS[node.op].kind)
        if maker is None:
            raise CodegenError(f"{node.op} cannot be computed one element at a time ({node.site})")
        value = yield from maker(self, node, index, mask)
        return cast(value, node.type.dtype)


def _key(mask: Any) -> Any:
    return mask.expr if isinstance(mask, ExprValue) else mask


def broadcast_index(index: Indices, shape: Sequence[int]) -> Indices:
    """The index into an operand of `shape` for element `index` of the result."""
    own = index[len(index) - len(shape):]
    return tuple(0 if n == 1 else i for i, n in zip(own, shape))


def _pointwise(inline: Inliner, node: Node, index: Indices, mask: Any) -> Steps:
    args = []
    for n in node.inputs:
        args.append((yield n, broadcast_index(index, n.type.shape), mask))
    return OPS[node.op].meaning(BUILDER, *args, **node.params)


def _create(inline: Inliner, node: Node, index: Indices, mask: Any) -> Steps:
    yield from ()  # its formula asks for what it reads
    readers = [_reader(inline, n, mask) for n in node.inputs]
    where = tuple(as_index(i) for i in index)
    return OPS[node.op].meaning(BUILDER, where, *readers, **node.params)


def _reader(inline: Inliner, node: Node, mask: Any) -> Callable[..., ExprValue]:
    return lambda *index: inline.value(node, tuple(as_index(i) for i in index), mask)


def _view(inline: Inliner, node: Node, index: Indices, mask: Any) -> Steps:
    types = [n.type for n in node.inputs]

    bounds = OPS[node.op].bounds
    sizes = dict(bounds(*types, **node.params)) if bounds else {}

    def at(n: int, where: Indices) -> Index:
        # Indices are checked around the program; until then nothing outside may be touched.
        value = cast(inline.value(node.inputs[n], where, mask), INT)
        last = max(0, sizes[n] - 1)
        inside = call("minimum", call("maximum", value, 0), last)
        return atom(inside.expr, (0, last))

    where = tuple(as_index(i) for i in index)
    sources = OPS[node.op].meaning(BUILDER, where, types, at, **node.params)
    result: Any = node.params.get("fill", 0)
    for source in reversed(sources):
        if source.mask is None or source.mask is True:
            result = yield node.inputs[source.input], source.index, mask
        elif source.mask is not False:
            both = source.mask if mask is None else call("and", mask, source.mask)
            with assuming(source.index, node.inputs[source.input].type.shape):
                inner = yield node.inputs[source.input], source.index, both
            result = call("where", source.mask, inner, result)
    return result if isinstance(result, ExprValue) else BUILDER.const(result, node.type.dtype)


_MAKERS = {"pointwise": _pointwise, "create": _create, "view": _view}


def flat(index: Indices, shape: Sequence[int]) -> Index:
    """The position of an element in row-major memory."""
    total = as_index(0)
    for i, n in zip(index, shape):
        total = joined(total * n + as_index(i))
    return total


def unflat(position: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The index of an element by its position in row-major memory."""
    out: list[Index] = []
    for i, n in enumerate(reversed(shape)):
        last = i == len(shape) - 1
        out.append(position if last else position % n)
        position = position if last else position // n
    return tuple(reversed(out))


def in_memory(buffers: Mapping[Node, loop_ir.Buffer], but: Container[Node] = ()) -> Leaf:
    """A leaf that reads what lies in memory, `but` for what is only being made there."""
    def leaf(node: Node, index: Indices, mask: Any) -> ExprValue | None:
        here = node in buffers and node not in but
        return load(buffers[node], node.type, index, mask) if here else None

    return leaf


def stores_of(members: Sequence[Node], buffers: Mapping[Node, loop_ir.Buffer], where: Indices,
              value: ExprValue, memory: Leaf) -> list[loop_ir.Stmt]:
    """Stores of all members of a group that lie in memory, at one element, from the value that the
    first of them has there; what others are is read by `memory`."""
    def leaf(node: Node, index: Indices, mask: Any) -> ExprValue | None:
        first = node is members[0]
        return cast(value, node.type.dtype) if first else memory(node, index, mask)

    inline = Inliner(leaf)
    return [loop_ir.Store(buffers[m], flat(where, m.type.shape).expr(), inline.value(m, where).expr)
            for m in members if m in buffers]


def load(buffer: loop_ir.Buffer, kind: TensorType, index: Indices, mask: Any) -> ExprValue:
    """An element read from memory, or 0 where the mask is false."""
    where = flat(index, kind.shape).expr()
    if mask is None or mask is True:
        return ExprValue(loop_ir.load(buffer, where))
    other: Expr = loop_ir.const(0, kind.dtype)
    if mask is False:
        return ExprValue(other)
    return ExprValue(loop_ir.load(buffer, where, mask.expr, other))
