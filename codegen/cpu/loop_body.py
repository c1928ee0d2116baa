"""Loops for a group: which axes run in parallel, one after the other, and as lanes.

    task:   a chunk of the outer positions (or of the lanes, where there is one position only)
    rows    for each outer position, sweeps over the reduced axes, lanes along the last of them
    columns for each outer position, lanes along the last kept axis, sweeps inside of each lane
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.arrays.shapes import product
from ...eager.core.op import OPS
from ..fusion.fusion import Group, is_reduced_shape, reduced_index
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, comparisons
from ..ir.axis_coalescing import merge_axes, whole_numbers
from ..ir.builder import ExprValue, cast
from ..ir.inline import Indices, Inliner, flat, load
from ..ir.loop_ir import Buffer, Const, Expr, Load, Register, Stmt

_ROW = 1 << 15  # elements of a row that is kept in a cache for a later sweep
_KEEP = 8  # simple operations that are worth keeping


@dataclass
class Sweep:
    """One pass over the reduced axes: whole members stored on the way, reductions made, the
    reduced members computed after it, and sums over rows."""

    full: list[Node] = field(default_factory=list)
    reductions: list[Node] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)
    crossing: list[Node] = field(default_factory=list)


class Body:
    """Expressions and statements of a group's members at one position of its loops."""

    def __init__(self, group: Group, buffers: dict[Node, Buffer]) -> None:
        self.group, self.buffers = group, buffers
        self.registers = {n: Register(f"r{i}", summed_in(n.type.dtype))
                          for i, n in enumerate(group.members) if self.is_reduced(n)}
        self.rows: dict[Node, Buffer] = {}  # members kept for later sweeps, one outer position each
        self.columns = {n: Buffer(f"column{i}", summed_in(n.type.dtype), self._inner,
                                  scratch=True)
                        for i, n in enumerate(filter(group.crosses, group.members))}
        self.sweeps = self._plan()
        self._sweep_of = {n: i for i, s in enumerate(self.sweeps) for n in (*s.full, *s.reductions)}

    def is_reduced(self, node: Node) -> bool:
        """Whether a member has one value per outer position rather than one per element."""
        if node.kind == "reduce":
            return not self.group.crosses(node)
        return bool(self.group.axes) and node.type.shape != self.group.domain and \
            is_reduced_shape(node.type.shape, self.group)

    # ---- the order of members
    def _plan(self) -> list[Sweep]:
        level: dict[Node, int] = {}  # the sweep after which a reduced member is known
        sweeps: list[Sweep] = []
        kept, together = self._worth_keeping(), 0
        for node in self.group.members:
            needs = [level[n] for n in self._reduced_needs(node)]
            first = max(needs, default=-1)
            if node in self.columns:
                together = max(together, first + 1)
            elif node.kind == "reduce":
                level[node] = first + 1
                _at(sweeps, first + 1).reductions.append(node)
            elif self.is_reduced(node):
                level[node] = max(first, 0)
                _at(sweeps, max(first, 0)).after.append(node)
            elif node in self.buffers or node in kept:
                if node not in self.buffers:
                    name = f"row{len(self.rows)}"
                    self.rows[node] = Buffer(name, node.type.dtype, self._inner, scratch=True)
                _at(sweeps, first + 1).full.append(node)
        _at(sweeps, together).crossing.extend(self.columns)
        return sweeps

    @property
    def _inner(self) -> int:
        return int(product(self.group.domain[a] for a in self.group.axes or ()))

    def _worth_keeping(self) -> set[Node]:
        """Members that are costly, needed in several sweeps, and short enough for a cached row."""
        sums = [n for n in self.group.members if n.kind == "reduce"]
        if self.group.kind != "rows" or len(sums) < 2 or self._inner > _ROW:
            return set()
        return {n for n in self.group.members if not self.is_reduced(n) and n not in self.buffers
                and work(list(self._cost_of(n))) >= _KEEP}

    def _cost_of(self, node: Node) -> Iterator[Expr]:
        def leaf(n: Node, index: Indices, mask: Any) -> ExprValue | None:
            if n is not node and n in self.group.members:
                return ExprValue(loop_ir.read(Register("member", n.type.dtype)))
            return load(self.buffers[n], n.type, index, mask) if self._outside(n) else None

        yield self._element(Inliner(leaf), node, self.group.variables()).expr

    def _reduced_needs(self, node: Node) -> set[Node]:
        """The reduced members that a member's expression reads."""
        found: set[Node] = set()

        def leaf(n: Node, index: Indices, mask: Any) -> ExprValue | None:
            if n is not node and n in self.registers:
                found.add(n)
                return self._reduced(n)
            return load(self.buffers[n], n.type, index, mask) if self._outside(n) else None

        self._element(Inliner(leaf), node, self.group.variables())
        return found

    def _outside(self, node: Node) -> bool:
        return node in self.buffers and node not in self.group.members

    def _element(self, inline: Inliner, node: Node, where: Indices) -> ExprValue:
        """The value of a member, or of what a reduction adds up, at this position."""
        if node.kind == "reduce":
            return inline.value(node.inputs[0], where)
        own = reduced_index(node.type.shape, self.group, where) if self.is_reduced(node) else where
        return inline.value(node, own)

    def _reduced(self, node: Node) -> ExprValue:
        """What a reduced member's register holds, rounded to its dtype."""
        return cast(ExprValue(loop_ir.read(self.registers[node])), node.type.dtype)

    # ---- statements
    def inliner(self, sweep: int) -> Inliner:
        """Expressions as they are in a sweep: what earlier sweeps stored is read back."""
        def leaf(n: Node, index: Indices, mask: Any) -> ExprValue | None:
            if n in self.registers:
                return self._reduced(n)
            done = n in self.group.members and self._sweep_of.get(n, sweep) < sweep
            if self._outside(n) or (done and n in self.buffers):
                return load(self.buffers[n], n.type, index, mask)
            if done and n in self.rows:
                return ExprValue(loop_ir.load(self.rows[n], self._row_index(index)))
            return None

        return Inliner(leaf)

    def work_after(self, sweep: int) -> float:
        """Roughly how many simple operations there are, once per outer position, after a sweep."""
        return sum(work(list(self._cost_of(n))) for n in self.sweeps[sweep].after)

    def begin(self, sweep: int) -> list[Stmt]:
        """Sets the sweep's sums to their identities."""
        return [loop_ir.Assign(self.registers[n], loop_ir.const(identity(n), n.type.dtype))
                for n in self.sweeps[sweep].reductions]

    def step(self, sweep: int, where: Indices) -> list[Stmt]:
        """What happens at one element in a sweep."""
        inline, now = self.inliner(sweep), self.sweeps[sweep]
        held = [Register(f"t{i}", n.type.dtype) for i, n in enumerate(now.full)]
        out: list[Stmt] = [loop_ir.Assign(r, inline.value(n, where).expr)
                           for r, n in zip(held, now.full)]
        out += [loop_ir.Update(self.registers[n], OPS[n.op].meaning.combine,
                             self._element(inline, n, where).expr) for n in now.reductions]
        for i, n in enumerate(now.crossing):
            out += self._added(n, Register(f"c{i}", self.columns[n].dtype), inline, where)
        # Stores come last: one of them may overwrite what another value is computed from.
        for r, n in zip(held, now.full):
            if n in self.rows:
                out.append(loop_ir.Store(self.rows[n], self._row_index(where), loop_ir.read(r)))
            else:
                at = flat(where, self.group.layout or self.group.domain).expr()
                out.append(loop_ir.Store(self.buffers[n], at, loop_ir.read(r)))
        return out

    def _added(self, node: Node, total: Register, inline: Inliner, where: Indices) -> list[Stmt]:
        """Adds an element to the sum of its column, as far as that is this task's."""
        buffer, at = self.columns[node], self._row_index(where)
        return [loop_ir.Assign(total, loop_ir.load(buffer, at)),
                loop_ir.Update(total, OPS[node.op].meaning.combine,
                             self._element(inline, node, where).expr),
                loop_ir.Store(buffer, at, loop_ir.read(total))]

    def _row_index(self, where: Indices) -> Expr:
        """The place of an element among those of its outer position."""
        axes = self.group.axes or ()
        return flat(tuple(where[a] for a in axes), [self.group.domain[a] for a in axes]).expr()

    def finish(self, sweep: int, where: Indices) -> list[Stmt]:
        """What is computed and stored once per outer position after a sweep."""
        out: list[Stmt] = []
        now = self.sweeps[sweep]
        for node in now.after:
            def leaf(n: Node, index: Indices, mask: Any, node: Node = node) -> ExprValue | None:
                if n is not node and n in self.registers:
                    return self._reduced(n)
                return load(self.buffers[n], n.type, index, mask) if self._outside(n) else None

            value = self._element(Inliner(leaf), node, where)
            out.append(loop_ir.Assign(self.registers[node], value.expr))
        for node in (*now.reductions, *now.after):
            if node in self.buffers:
                index = reduced_index(node.type.shape, self.group, where)
                out.append(loop_ir.Store(self.buffers[node], flat(index, node.type.shape).expr(),
                                       loop_ir.read(self.registers[node])))
        return out

    def expressions(self) -> tuple[list[Expr], list[dict[Expr, int]]]:
        """Every expression of the body with the group's own variables, and the linear form of every
        index in them, compared or divided on the way: what the choice of loops goes by."""
        where = self.group.variables()
        found: list[Expr] = []
        with comparisons() as compared:
            for i in range(len(self.sweeps)):
                for s in (*self.step(i, where), *self.finish(i, where)):
                    found.extend(loop_ir.expressions(s))
        return found, whole_numbers(found) + [dict(c.terms) for c in compared]


def _at(sweeps: list[Sweep], i: int) -> Sweep:
    while len(sweeps) <= i:
        sweeps.append(Sweep())
    return sweeps[i]


def identity(node: Node) -> Any:
    """The value a reduction starts from."""
    return OPS[node.op].meaning.identity(node.type.dtype)


class Axes:
    """The loops of a group: runs of axes that are one loop each, and their order."""

    def __init__(self, group: Group, forms: list[dict[Expr, int]]) -> None:
        merged = merge_axes(group.domain, group.variables(), forms)
        reduced = set(group.axes or ())
        runs = [part for run in merged for part in _split(run, reduced)]
        self.sizes = {id(run): int(product(group.domain[a] for a in run)) for run in runs}
        kept = [r for r in runs if not reduced & set(r)]
        inner = [r for r in runs if reduced & set(r)]
        self.group, self.kept, self.inner = group, kept, inner

    def size(self, run: list[int]) -> int:
        return self.sizes[id(run)]

    def where(self, values: list[tuple[list[int], Index]]) -> Indices:
        """The position in the domain: the last axis of each run carries the run's variable."""
        index = [as_index(0)] * len(self.group.domain)
        for run, value in values:
            long = [a for a in run if self.group.domain[a] != 1]
            index[long[-1] if long else run[-1]] = value
        return tuple(index)


def _split(run: list[int], reduced: set[int]) -> list[list[int]]:
    """A run cut where kept axes meet reduced ones."""
    parts: list[list[int]] = []
    for axis in run:
        if parts and (parts[-1][-1] in reduced) == (axis in reduced):
            parts[-1].append(axis)
        else:
            parts.append([axis])
    return parts


def decode(position: Index, runs: list[tuple[list[int], int]]) -> list[tuple[list[int], Index]]:
    """An outer position as the variables of several runs, the last one counting fastest."""
    out: list[tuple[list[int], Index]] = []
    for i, (run, size) in enumerate(reversed(runs)):
        last = i == len(runs) - 1
        out.append((run, position if last else position % size))
        position = position if last else position // size
    return out[::-1]


def work(expressions: list[Expr]) -> float:
    """Roughly how many simple operations one element takes."""
    seen: set[Expr] = set()
    stack = list(expressions)
    total = 0.0
    while stack:
        e = stack.pop()
        if e in seen or isinstance(e, Const):
            continue
        seen.add(e)
        stack.extend(loop_ir.children(e))
        if isinstance(e, Load):
            total += 1
        elif isinstance(e, loop_ir.Call) and e.dtype.kind != "i":
            total += _HEAVY.get(e.op, 1)
    return total


_HEAVY = {"exp": 12, "log": 15, "pow": 40, "tanh": 20, "erf": 25, "sin": 20, "cos": 20, "div": 4,
          "sqrt": 4, "mulhi": 4, "log1p": 25, "expm1": 25}


_OUTLINED = {"pow", "sin", "cos", "tan", "sinh", "cosh", "asinh", "acosh", "atanh", "hypot", "fmod",
             "remainder", "floor_divide", "nextafter"}


def is_vectorizable(group: Group, expressions: list[Expr], forms: list[dict[Expr, int]]) -> bool:
    """Whether a vector of elements is read in one piece and computed without calls."""
    long = [i for i, n in zip(group.variables(), group.domain) if n != 1]
    lane = next(iter(long[-1].terms), None) if long else None
    places = all(form[e] == 1 if e is lane else lane not in loop_ir.parts([e])
                 for form in forms for e in form)
    return places and not any(isinstance(e, loop_ir.Call) and e.op in _OUTLINED
                              for e in loop_ir.parts(expressions))
