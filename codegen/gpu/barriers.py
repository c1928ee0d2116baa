"""Finds where the threads of a group must synchronize: between an access of one thread and a
conflicting access of another.

A kernel is a sequence of phases. A phase is a lane loop, in which each thread runs iterations
of its own, or a statement between such loops, which all threads compute alike and the first
thread stores. A barrier stands before a phase that conflicts with an access since the last
barrier.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import (
    Call,
    Const,
    Expr,
    For,
    If,
    Kernel,
    KernelBuffer,
    Load,
    Mma,
    Prefetch,
    Stmt,
    Store,
    Transpose,
    Var,
    expressions,
    subexpressions,
)

StatementPath = tuple[int, ...]  # of a statement: its index in each enclosing body
ANY_ELEMENT = None  # stands for elements that any thread may access


@dataclass
class MemoryAccesses:
    """The accesses since the last barrier: the elements of each buffer that were read or
    written."""

    reads: dict[KernelBuffer, set[Any]] = field(default_factory=dict)
    writes: dict[KernelBuffer, set[Any]] = field(default_factory=dict)

    def add(self, other: MemoryAccesses) -> None:
        for own, others in ((self.reads, other.reads), (self.writes, other.writes)):
            for buffer, keys in others.items():
                own.setdefault(buffer, set()).update(keys)

    def conflicts_with(self, other: MemoryAccesses) -> bool:
        """True if an access in `other` may conflict with an access of another thread here."""
        pairs = ((self.writes, other.reads), (self.writes, other.writes),
                 (self.reads, other.writes))
        return any(buffer in later and _may_differ_in_thread(keys | later[buffer])
                   for earlier, later in pairs for buffer, keys in earlier.items())

    def copy(self) -> MemoryAccesses:
        accesses = MemoryAccesses()
        accesses.add(self)
        return accesses

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryAccesses) and self.reads == other.reads \
            and self.writes == other.writes


def _may_differ_in_thread(keys: set[Any]) -> bool:
    """True if these may be elements of different threads."""
    return len(keys) > 1 or ANY_ELEMENT in keys


def barrier_points(kernel: Kernel, private: Container[KernelBuffer]) -> set[StatementPath]:
    """The paths of the statements that need a barrier before them."""
    points: set[StatementPath] = set()
    _BarrierPlacement(kernel.task, private, points).block(kernel.body, (), MemoryAccesses())
    return points


class _BarrierPlacement:
    def __init__(self, task: Var, private: Container[KernelBuffer],
                 points: set[StatementPath]) -> None:
        self.task, self.private, self.points = task, private, points

    def block(self, body: Iterable[Stmt], path: StatementPath,
              pending: MemoryAccesses) -> MemoryAccesses:
        """Returns the accesses since the last barrier, at the end of a block."""
        for number, s in enumerate(body):
            pending = self._statement(s, (*path, number), pending)
        return pending

    def _statement(self, s: Stmt, path: StatementPath, pending: MemoryAccesses) -> MemoryAccesses:
        if isinstance(s, For) and s.lanes:
            pending = self._enter_phase(self._lane_loop_accesses(s), path, pending)
        elif isinstance(s, (For, If)):
            pending = self._enter_phase(self._uniform_accesses(expressions(s), ()), path, pending)
            pending = self._loop(s, path, pending) if isinstance(s, For) \
                else self._branch(s, path, pending)
        elif not isinstance(s, Prefetch):
            pending = self._enter_phase(self._statement_accesses(s), path, pending)
        return pending

    def _statement_accesses(self, s: Stmt) -> MemoryAccesses:
        """The accesses of a statement outside of lane loops. All threads take part in a transpose
        and in a matrix product, so they may touch any element."""
        stored = [s.buffer] if isinstance(s, Store) else []
        accesses = self._uniform_accesses(expressions(s), stored)
        if isinstance(s, Transpose):
            accesses.reads.setdefault(s.source, set()).add(ANY_ELEMENT)
            accesses.writes.setdefault(s.buffer, set()).add(ANY_ELEMENT)
        if isinstance(s, Mma):
            accesses.reads |= {s.rows: {ANY_ELEMENT}, s.columns: {ANY_ELEMENT}}
        return accesses

    def _enter_phase(self, phase: MemoryAccesses, path: StatementPath,
                     pending: MemoryAccesses) -> MemoryAccesses:
        if pending.conflicts_with(phase):
            self.points.add(path)
            return phase
        pending = pending.copy()
        pending.add(phase)
        return pending

    def _branch(self, s: If, path: StatementPath, pending: MemoryAccesses) -> MemoryAccesses:
        after = self.block(s.body, path, pending)
        after.add(pending)
        return after

    def _loop(self, s: For, path: StatementPath, pending: MemoryAccesses) -> MemoryAccesses:
        """Walks a loop until its pending accesses are stable: an iteration may conflict with the
        one before."""
        while True:
            after = pending.copy()
            after.add(self.block(s.body, path, pending.copy()))
            if after == pending:
                return after
            pending = after

    def _uniform_accesses(self, roots: Iterable[Expr],
                          writes: Iterable[KernelBuffer]) -> MemoryAccesses:
        """The accesses of expressions that all threads read alike, and of stores by the first
        thread."""
        accesses = MemoryAccesses(writes={b: {ANY_ELEMENT} for b in writes
                                          if b not in self.private})
        for e in subexpressions(roots):
            if isinstance(e, Load) and e.buffer not in self.private:
                accesses.reads.setdefault(e.buffer, set()).add(ANY_ELEMENT)
        return accesses

    def _lane_loop_accesses(self, s: For) -> MemoryAccesses:
        accesses = self._uniform_accesses((s.start, s.stop), ())
        self._collect(s.body, s, {}, accesses)
        return accesses

    def _collect(self, body: Iterable[Stmt], lane: For, serial: dict[Var, Any],
                 accesses: MemoryAccesses) -> None:
        for s in body:
            for e in subexpressions(expressions(s)):
                if isinstance(e, Load) and e.buffer not in self.private:
                    key = _element_key(e.index, lane, serial, self.task)
                    accesses.reads.setdefault(e.buffer, set()).add(key)
            if isinstance(s, Store) and s.buffer not in self.private:
                key = _element_key(s.index, lane, serial, self.task)
                accesses.writes.setdefault(s.buffer, set()).add(key)
            if isinstance(s, For):
                self._collect(s.body, lane, {**serial, s.var: (len(serial), s.start, s.stop)},
                              accesses)
            elif isinstance(s, If):
                self._collect(s.body, lane, serial, accesses)


def _element_key(index: Expr, lane: For, serial: dict[Var, Any], task: Var) -> Any:
    """A key that equal elements share only if one thread accesses them; ANY_ELEMENT if the thread
    is unknown."""
    terms, constant = linear_form(index)
    stride, span = abs(terms.pop(lane.var, 0)), 0
    coefficients = {}
    for e, factor in terms.items():
        if e in serial:
            _, start, stop = serial_loop = serial[e]
            if not (isinstance(start, Const) and isinstance(stop, Const)):
                return ANY_ELEMENT
            span += abs(factor) * (int(stop.value) - int(start.value) - 1)
            coefficients[serial_loop] = factor
        elif all(isinstance(x, (Call, Const)) or x is task for x in subexpressions([e])):
            coefficients[e] = factor
        else:  # another iteration may access another element
            return ANY_ELEMENT
    return (lane.start, lane.stop, stride, frozenset(coefficients.items()),
            constant) if stride > span \
        else ANY_ELEMENT
