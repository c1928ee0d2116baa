"""Chooses the order of axes in which values are computed and stored.

A value whose operands are contiguous along another axis than its last one, such as the windows of
an image that is a view of rows of channels, is computed with that axis last: its lanes then read
and write whole vectors. Readers see a permuted view of it. This pays only where lanes along the
last axis would read far elements and no register transposes help: in reductions of windows, and
where elements are taken at indices.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ...capture.graph.graph import Graph, Node, Nodes, rebuild, users
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS
from ...eager.errors import CodegenError
from ..ir.affine_index import Index, as_index
from ..ir.axis_coalescing import linear_form
from ..ir.builder import ExprValue
from ..ir.inline import Indices, Inliner, flatten, memory_reader
from ..ir.loop_ir import Expr, KernelBuffer, subexpressions
from ..ir.sizes import is_dynamic
from ..ir.target_info import Machine
from .fusion import axis_variables, domain_of
from .materialize import choose_materialized, count_readers, is_forwarding_view

_Read: TypeAlias = tuple[Node, Indices]  # an operand in memory, and the index read
_MIN_SHARE = 8  # operands of at least this part of the result's elements are large


def order_axes(graph: Graph, machine: Machine) -> tuple[Graph, set[Node]]:
    """The graph in which such values are permuted views of values with another order of axes.

    Also returns the small operands, such as weights, that are copied for them in an order in which
    lanes read vectors: these have to be stored."""
    nodes = graph.nodes()
    if not any(map(_reads_by_rule, nodes)):
        return graph, set()
    readers, outputs = users(nodes), set(graph.outputs)
    materialized, _ = choose_materialized(nodes, readers, outputs,
                                          count_readers(nodes, readers, outputs), machine.gpu)
    order = _AxisOrder(machine, materialized, readers)

    def visit(made: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        new = made.with_inputs(node, inputs)
        if node not in materialized:
            return new
        axis = None if node in outputs else order.last_axis(node, new)
        if axis is None:
            order.in_memory.add(new)
            return new
        value = _with_last_axis(made, order.with_copies(made, new, axis), axis)
        order.in_memory.add(value)
        return _moved_back(made, value, axis, new)

    return rebuild(graph, visit), order.copies


class _Strides(NamedTuple):
    """How the reads of large operands step along an axis of a value."""

    contiguous: bool  # some are contiguous along it
    far: bool         # some step to far elements, or to elements that are not known


@dataclass
class _AxisOrder:
    """Decides along which axes values are computed.

    `in_memory`: the new values that are stored; `copies`: those of them that are copied operands"""

    machine: Machine
    materialized: Container[Node]
    readers: Mapping[Node, list[Node]]
    in_memory: set[Node] = field(default_factory=set)
    copies: set[Node] = field(default_factory=set)

    def last_axis(self, node: Node, new: Node) -> int | None:
        """The axis that becomes the last one, for an old node and the new one; None for the usual
        order."""
        shape = new.type.shape
        if not _may_permute(new) or not any(map(_reads_by_rule, _inlined(node, self.materialized))):
            return None
        axes = [a for a, n in enumerate(shape) if n != 1]
        if len(axes) < 2 or any(map(is_dynamic, (*shape, *domain_of(new)))):
            return None
        reads = self._reads(new)
        large = [_position(read) for read in reads if _is_large(read[0], new)]
        strides = {a: _strides(large, i) for a, i in _own_variables(new)}
        if not strides[axes[-1]].far or strides[axes[-1]].contiguous:
            return None
        lanes = self.machine.lanes(new.type.dtype.itemsize)
        good = [a for a in axes[:-1] if shape[a] >= lanes and strides[a].contiguous
                and not strides[a].far and self._can_copy(reads, new, a)]
        return good[-1] if good and self._readers_agree(node) else None

    def _reads(self, node: Node) -> list[_Read]:
        """The reads of memory that compute an element of a node's domain."""
        buffers = {n: KernelBuffer("operand", n.type.dtype, n.type.size)
                   for n in (*self.in_memory, *_leaves(node))}
        reads, memory = list[_Read](), memory_reader(buffers)

        def read(n: Node, index: Indices, mask: Any) -> ExprValue | None:
            value = memory(n, index, mask)
            if value is not None:
                reads.append((n, tuple(map(as_index, index))))
            return value

        inline = Inliner(read)
        operands = node.inputs if node.op == "concat" or node.kind == "reduce" else (node,)
        for n in operands:  # a concat may be written operand by operand
            inline.value(n, axis_variables(domain_of(node)))
        return reads

    def _can_copy(self, reads: Sequence[_Read], node: Node, axis: int) -> bool:
        """True if every small operand has one axis that follows an axis of the node, if any."""
        variable = dict(_own_variables(node))[axis]
        return all(_is_large(n, node) or _axis_following(index, variable) is not None
                   for n, index in reads if _step(_position((n, index)), variable) not in (0, 1))

    def with_copies(self, nodes: Nodes, node: Node, axis: int) -> Node:
        """The node with copies of its small operands that are contiguous along an axis of it."""
        variable, copied = dict(_own_variables(node))[axis], dict[Node, Node]()
        for n, index in self._reads(node):
            along = _axis_following(index, variable)
            if not _is_large(n, node) and along is not None and \
                    _step(_position((n, index)), variable) not in (0, 1):
                order = _moved(n.type.ndim, along)
                view = _permuted(nodes, n, order)
                copy = nodes.apply("alias", [view], {}, n.site)
                copied[n] = _moved_back(nodes, copy, along, n)
                self.copies.add(copy)
        self.in_memory |= self.copies
        return _replaced(nodes, node, copied, self.in_memory) if copied else node

    def _readers_agree(self, node: Node) -> bool:
        """True if no reader reads windows of the value, or is an op that is kept whole."""
        reads, pending = 0, [*self.readers[node]]
        while pending:
            reader = pending.pop()
            if is_forwarding_view(reader) and reader not in self.materialized:
                if reader.type.size > node.type.size and not _reads_by_rule(reader):
                    return False
                pending.extend(self.readers[reader])
            elif reader.kind not in ("pointwise", "contract", "reduce") and reader.op != "concat":
                return False
            reads += 1
        return reads > 0


def _may_permute(node: Node) -> bool:
    if node.kind == "reduce":
        return not node.params.get("keepdims")
    return node.kind == "pointwise" or node.op == "concat"


def _reads_by_rule(node: Node) -> bool:
    """True for windows, and for elements taken at indices: no register transposes help there."""
    return node.kind == "view" and (node.op == "window" or OPS[node.op].bounds is not None)


def _inlined(node: Node, materialized: Container[Node]) -> Iterator[Node]:
    """The nodes that are computed where `node` is."""
    seen, pending = set[Node](), [*node.inputs]
    while pending:
        n = pending.pop()
        if n not in seen and n not in materialized:
            seen.add(n)
            yield n
            pending.extend(n.inputs)


def _leaves(node: Node) -> Iterator[Node]:
    """The inputs and array constants below a node."""
    return (n for n in _inlined(node, ()) if n.op == "input" or (n.op == "const" and n.type.shape))


def _own_variables(node: Node) -> list[tuple[int, Index]]:
    """The axes of a node's result, each with its variable in the node's loops."""
    reduced = node.params["axis"] if node.kind == "reduce" else ()
    return list(enumerate(i for a, i in enumerate(axis_variables(domain_of(node)))
                          if a not in reduced))


def _is_large(operand: Node, node: Node) -> bool:
    parts = len(node.inputs) if node.op == "concat" else 1
    return bool(operand.type.size * parts * _MIN_SHARE >= node.type.size)


def _position(read: _Read) -> Expr:
    operand, index = read
    return flatten(index, operand.type.shape).expr()


def _strides(positions: Sequence[Expr], variable: Index) -> _Strides:
    steps = [_step(p, variable) for p in positions]
    return _Strides(1 in steps, any(s is None or abs(s) > 1 for s in steps))


def _step(position: Expr, variable: Index) -> int | None:
    """The distance between reads at two steps of a variable; None if it is not constant."""
    name = next(iter(variable.terms), None)
    terms, _ = linear_form(position)
    if name is None:  # of an axis of size 1
        return 0
    if any(e is not name and name in subexpressions([e]) for e in terms):
        return None
    step = terms.get(name, 0)
    return None if is_dynamic(step) else step


def _axis_following(index: Indices, variable: Index) -> int | None:
    """The axis of an operand whose index is the variable; None if others depend on it, too."""
    (name,) = variable.terms
    depending = [a for a, i in enumerate(index) if name in subexpressions([i.expr()])]
    return depending[0] if len(depending) == 1 and index[depending[0]].equals(variable) else None


# ---- values in another order
def _with_last_axis(nodes: Nodes, node: Node, axis: int) -> Node:
    """The node computed with one of its axes last."""
    if node.kind != "reduce":
        order = _moved(node.type.ndim, axis)
        inputs = [_permuted(nodes, i, order) for i in node.inputs]
        params = dict(node.params)
        if node.op == "concat":
            params["axis"] = order.index(params["axis"])
        kind = TensorType(tuple(node.type.shape[a] for a in order), node.type.dtype)
        return nodes.make(node.op, inputs, params, kind, node.site)
    (operand,), reduced = node.inputs, node.params["axis"]
    kept = [a for a in range(operand.type.ndim) if a not in reduced]
    order = _moved(operand.type.ndim, kept[axis])
    params = {**node.params, "axis": tuple(sorted(order.index(a) for a in reduced))}
    return nodes.apply(node.op, [_permuted(nodes, operand, order)], params, node.site)


def _replaced(nodes: Nodes, node: Node, new: Mapping[Node, Node], in_memory: Container[Node]
              ) -> Node:
    """The node with other operands; what is computed where the node is is made again."""
    done = dict(new)

    def again(n: Node) -> Node:
        if n not in done:
            done[n] = n if n in in_memory or not n.inputs else nodes.with_inputs(
                n, [again(i) for i in n.inputs])
        return done[n]

    return nodes.with_inputs(node, [again(i) for i in node.inputs])


def _moved(count: int, axis: int) -> list[int]:
    """The axes in order, with one of them last."""
    return [*(a for a in range(count) if a != axis), axis]


def _permuted(nodes: Nodes, node: Node, order: list[int]) -> Node:
    """An operand of a node whose axes are permuted; it broadcasts."""
    if not node.type.shape:
        return node
    missing = len(order) - node.type.ndim
    if missing:
        node = nodes.apply("reshape", [node], {"shape": (*[1] * missing, *node.type.shape)},
                           node.site)
    return nodes.apply("permute_dims", [node], {"axes": tuple(order)}, node.site)


def _moved_back(nodes: Nodes, value: Node, axis: int, like: Node) -> Node:
    order = _moved(value.type.ndim, axis)
    back = tuple(order.index(a) for a in range(len(order)))
    view = nodes.apply("permute_dims", [value], {"axes": back}, like.site)
    if view.type != like.type:
        raise CodegenError(f"{like.op}: {like.type} became {view.type} in another order of axes")
    return view
