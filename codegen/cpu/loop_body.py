"""Builds the loop bodies of pointwise and reduction groups, and their expressions at one position.

    tasks    chunks of the outer positions, or of the lanes where there is only one position
    rows     for each outer position, sweeps over the reduced axes, with lanes along the last one
    columns  for each outer position, lanes along the last outer axis, and sweeps inside each lane
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.arrays.shapes import product
from ...eager.core.op import OPS
from ..fusion.fusion import Group, is_reduced_shape, reduced_index
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, collect_comparisons
from ..ir.axis_coalescing import linear_forms, merge_axes
from ..ir.builder import ExprValue, cast
from ..ir.inline import Indices, Inliner, flatten, load
from ..ir.loop_ir import Expr, KernelBuffer, Register, Stmt
from ..ir.op_cost import expression_cost
from ..ir.scalar_ops import SCALAR
from ..ir.sizes import Size, upper_bound

_MAX_CACHED_ROW_ELEMENTS = 1 << 15  # a longer row does not stay in a cache until the next sweep
_MIN_OPS_TO_CACHE = 8  # simple operations of a value that is cached for later sweeps


@dataclass
class Sweep:
    """One pass over the reduced axes.

    `elementwise`: members of the full shape, stored on the way
    `reductions`: the reductions made
    `after`: reduced members computed after the pass
    `outer_reductions`: sums over rows
    """

    elementwise: list[Node] = field(default_factory=list)
    reductions: list[Node] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)
    outer_reductions: list[Node] = field(default_factory=list)


class LoopBody:
    """Expressions and statements of a group's members at one position of its loops."""

    def __init__(self, group: Group, buffers: dict[Node, KernelBuffer],
                 on_gpu: bool = False) -> None:
        self.group, self.buffers, self._on_gpu = group, buffers, on_gpu
        self.registers = {n: Register(f"r{i}", summed_in(n.type.dtype))
                          for i, n in enumerate(group.members) if self.is_reduced(n)}
        # members cached for later sweeps, one outer position at a time
        self.row_caches: dict[Node, KernelBuffer] = {}
        self.column_sums = {n: KernelBuffer(f"column{i}", summed_in(n.type.dtype), self._inner,
                                      scratch=True)
                            for i, n in enumerate(filter(group.is_outer_reduce, group.members))}
        self.sweeps = self._plan_sweeps()
        self._sweep_of = {n: i for i, s in enumerate(self.sweeps)
                          for n in (*s.elementwise, *s.reductions)}

    def is_reduced(self, node: Node) -> bool:
        """True if a member has one value per outer position rather than one per element."""
        if node.kind == "reduce":
            return not self.group.is_outer_reduce(node)
        return bool(self.group.axes) and node.type.shape != self.group.domain and \
            is_reduced_shape(node.type.shape, self.group)

    # ---- the order of members
    def _plan_sweeps(self) -> list[Sweep]:
        ready_after: dict[Node, int] = {}  # the sweep after which each reduced member is ready
        sweeps: list[Sweep] = []
        cached, outer_sweep = self._members_to_cache(), 0
        for node in self.group.members:
            operand_sweeps = [ready_after[n] for n in self._reduced_operands(node)]
            last_needed = max(operand_sweeps, default=-1)
            if node in self.column_sums:
                outer_sweep = max(outer_sweep, last_needed + 1)
            elif node.kind == "reduce":
                ready_after[node] = last_needed + 1
                _sweep_number(sweeps, last_needed + 1).reductions.append(node)
            elif self.is_reduced(node):
                ready_after[node] = max(last_needed, 0)
                _sweep_number(sweeps, max(last_needed, 0)).after.append(node)
            elif node in self.buffers or node in cached:
                if node not in self.buffers:
                    name = f"row{len(self.row_caches)}"
                    self.row_caches[node] = KernelBuffer(name, node.type.dtype, self._inner,
                                                         scratch=True)
                _sweep_number(sweeps, last_needed + 1).elementwise.append(node)
        _sweep_number(sweeps, outer_sweep).outer_reductions.extend(self.column_sums)
        return sweeps

    @property
    def _inner(self) -> Size:
        sizes = (self.group.domain[a] for a in self.group.axes or ())
        return product(sizes)  # type: ignore[no-any-return]

    def _members_to_cache(self) -> set[Node]:
        """Members that are costly, read in several sweeps, and short enough for a cached row."""
        sums = [n for n in self.group.members if n.kind == "reduce"]
        if self.group.kind != "inner_reduce" or len(sums) < 2 \
                or upper_bound(self._inner) > _MAX_CACHED_ROW_ELEMENTS:
            return set()
        return {n for n in self.group.members if not self.is_reduced(n) and n not in self.buffers
                and self._cost(n) >= _MIN_OPS_TO_CACHE}

    def _cost(self, node: Node) -> float:
        """The cost of an element of a member, computed from other members and from memory."""
        def read(n: Node, index: Indices, mask: Any) -> ExprValue | None:
            if n is not node and n in self.group.members:
                return ExprValue(loop_ir.read(Register("member", n.type.dtype)))
            return load(self.buffers[n], n.type, index, mask) if self._is_operand(n) else None

        element = self._element(Inliner(read), node, self.group.variables())
        return expression_cost([element.expr], self._on_gpu)

    def _reduced_operands(self, node: Node) -> set[Node]:
        """The reduced members that a member's expression reads."""
        operands: set[Node] = set()

        def read(n: Node, index: Indices, mask: Any) -> ExprValue | None:
            if n is not node and n in self.registers:
                operands.add(n)
                return self._reduced(n)
            return load(self.buffers[n], n.type, index, mask) if self._is_operand(n) else None

        self._element(Inliner(read), node, self.group.variables())
        return operands

    def _is_operand(self, node: Node) -> bool:
        return node in self.buffers and node not in self.group.members

    def _element(self, inline: Inliner, node: Node, where: Indices) -> ExprValue:
        """The element of a member, or of the operand of a reduction, at the position `where`."""
        if node.kind == "reduce":
            return inline.value(node.inputs[0], where)
        index = reduced_index(node.type.shape, self.group,
                              where) if self.is_reduced(node) else where
        return inline.value(node, index)

    def _reduced(self, node: Node) -> ExprValue:
        """The value in a reduced member's register, rounded to its dtype."""
        return cast(ExprValue(loop_ir.read(self.registers[node])), node.type.dtype)

    # ---- statements
    def inliner(self, sweep: int) -> Inliner:
        """An inliner for the expressions of a sweep. Members stored by earlier sweeps are read
        back."""
        def read(n: Node, index: Indices, mask: Any) -> ExprValue | None:
            if n in self.registers:
                return self._reduced(n)
            computed_before = n in self.group.members and self._sweep_of.get(n, sweep) < sweep
            if self._is_operand(n) or (computed_before and n in self.buffers):
                return load(self.buffers[n], n.type, index, mask)
            if computed_before and n in self.row_caches:
                return ExprValue(loop_ir.load(self.row_caches[n], self._row_index(index)))
            return None

        return Inliner(read)

    def work_after(self, sweep: int) -> float:
        """The approximate number of simple operations after a sweep, once per outer position."""
        return sum(self._cost(n) for n in self.sweeps[sweep].after)

    def init_sums(self, sweep: int) -> list[Stmt]:
        """Statements that set the sweep's sums to their identities."""
        return [loop_ir.Assign(self.registers[n], loop_ir.const(identity(n), n.type.dtype))
                for n in self.sweeps[sweep].reductions]

    def with_own_sums(self, sweep: int, name: str) -> LoopBody:
        """This body with other registers, which `name` tells apart, for the sums of a sweep."""
        other = copy.copy(self)
        other.registers = self.registers | {
            n: Register(f"{self.registers[n].name}_{name}", self.registers[n].dtype)
            for n in self.sweeps[sweep].reductions}
        return other

    def element_statements(self, sweep: int, where: Indices) -> list[Stmt]:
        """The statements of a sweep at one element."""
        inline, plan = self.inliner(sweep), self.sweeps[sweep]
        values = [Register(f"t{i}", n.type.dtype) for i, n in enumerate(plan.elementwise)]
        statements: list[Stmt] = [loop_ir.Assign(r, inline.value(n, where).expr)
                                  for r, n in zip(values, plan.elementwise)]
        statements += [loop_ir.Update(self.registers[n], OPS[n.op].meaning.combine,
                                      self._element(inline, n, where).expr)
                       for n in plan.reductions]
        for i, n in enumerate(plan.outer_reductions):
            statements += self._update_column_sum(n, Register(f"c{i}", self.column_sums[n].dtype),
                                                  inline, where)
        # Stores come last: one of them may overwrite an operand of another value.
        for r, n in zip(values, plan.elementwise):
            if n in self.row_caches:
                statements.append(loop_ir.Store(self.row_caches[n], self._row_index(where),
                                                loop_ir.read(r)))
            else:
                position = flatten(where, self.group.layout or self.group.domain)
                at = (position + self.group.offset).expr()
                statements.append(loop_ir.Store(self.buffers[n], at, loop_ir.read(r)))
        return statements

    def _update_column_sum(self, node: Node, total: Register, inline: Inliner,
                           where: Indices) -> list[Stmt]:
        """Statements that add an element to the task's sum of its column."""
        buffer, at = self.column_sums[node], self._row_index(where)
        return [loop_ir.Assign(total, loop_ir.load(buffer, at)),
                loop_ir.Update(total, OPS[node.op].meaning.combine,
                               self._element(inline, node, where).expr),
                loop_ir.Store(buffer, at, loop_ir.read(total))]

    def _row_index(self, where: Indices) -> Expr:
        """The position of an element among those of its outer position."""
        axes = self.group.axes or ()
        return flatten(tuple(where[a] for a in axes), [self.group.domain[a] for a in axes]).expr()

    def finish_sweep(self, sweep: int, where: Indices) -> list[Stmt]:
        """The statements that run once per outer position, after a sweep."""
        statements: list[Stmt] = []
        plan = self.sweeps[sweep]
        for node in plan.after:
            def read(n: Node, index: Indices, mask: Any, node: Node = node) -> ExprValue | None:
                if n is not node and n in self.registers:
                    return self._reduced(n)
                return load(self.buffers[n], n.type, index, mask) if self._is_operand(n) else None

            value = self._element(Inliner(read), node, where)
            statements.append(loop_ir.Assign(self.registers[node], value.expr))
        for node in (*plan.reductions, *plan.after):
            if node in self.buffers:
                index = reduced_index(node.type.shape, self.group, where)
                statements.append(loop_ir.Store(self.buffers[node],
                                                flatten(index, node.type.shape).expr(),
                                                loop_ir.read(self.registers[node])))
        return statements

    def expressions(self) -> tuple[list[Expr], list[dict[Expr, int]]]:
        """Every expression of the body, and the linear forms of its indices.

        The forms include indices that are compared or divided. The choice of loops is based on
        both."""
        where = self.group.variables()
        expressions: list[Expr] = []
        with collect_comparisons() as compared:
            for i in range(len(self.sweeps)):
                for s in (*self.element_statements(i, where), *self.finish_sweep(i, where)):
                    expressions.extend(loop_ir.expressions(s))
        return expressions, linear_forms(expressions) + [dict(c.terms) for c in compared]


def _sweep_number(sweeps: list[Sweep], i: int) -> Sweep:
    while len(sweeps) <= i:
        sweeps.append(Sweep())
    return sweeps[i]


def identity(node: Node) -> Any:
    """The value that a reduction starts from."""
    return OPS[node.op].meaning.identity(node.type.dtype)


class LoopAxes:
    """The loops of a group: runs of axes that are one loop each, and their order."""

    def __init__(self, group: Group, forms: list[dict[Expr, int]]) -> None:
        merged = merge_axes(group.domain, group.variables(), forms)
        reduced = set(group.axes or ())
        runs = [part for run in merged for part in _split(run, reduced)]
        self.sizes = {id(run): product(group.domain[a] for a in run) for run in runs}
        outer = [r for r in runs if not reduced & set(r)]
        inner = [r for r in runs if reduced & set(r)]
        self.group, self.outer, self.inner = group, outer, inner

    def size(self, run: list[int]) -> Size:
        return self.sizes[id(run)]  # type: ignore[no-any-return]

    def where(self, values: list[tuple[list[int], Index]]) -> Indices:
        """The position in the domain. The last long axis of each run carries the run's variable."""
        index = [as_index(0)] * len(self.group.domain)
        for run, value in values:
            long = [a for a in run if self.group.domain[a] != 1]
            index[long[-1] if long else run[-1]] = value
        return tuple(index)


def _split(run: list[int], reduced: set[int]) -> list[list[int]]:
    """The run, cut where outer axes and reduced ones are neighbours."""
    runs: list[list[int]] = []
    for axis in run:
        if runs and (runs[-1][-1] in reduced) == (axis in reduced):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def decode(position: Index, runs: list[tuple[list[int], int]]) -> list[tuple[list[int], Index]]:
    """The indices of several runs at an outer position; the last run counts fastest."""
    indices: list[tuple[list[int], Index]] = []
    for i, (run, size) in enumerate(reversed(runs)):
        last = i == len(runs) - 1
        indices.append((run, position if last else position % size))
        position = position if last else position // size
    return indices[::-1]


def is_vectorizable(group: Group, expressions: list[Expr], forms: list[dict[Expr, int]]) -> bool:
    """True if all reads are contiguous or constant along the lanes, and no operation is a call."""
    long = [i for i, n in zip(group.variables(), group.domain) if n != 1]
    lane = next(iter(long[-1].terms), None) if long else None
    contiguous = all(form[e] == 1 if e is lane else lane not in loop_ir.subexpressions([e])
                     for form in forms for e in form)
    return contiguous and not any(isinstance(e, loop_ir.Call) and SCALAR[e.op].is_call
                                  for e in loop_ir.subexpressions(expressions))
