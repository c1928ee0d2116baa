"""Where the threads of a team have to wait for each other: between what one of them writes and what
another one reads or writes.

A kernel is a sequence of phases: loops over lanes, in which each thread has turns of its own, and
what stands between them, which all threads compute alike and the first one stores. Threads wait
before a phase that touches memory another thread may have touched since they last met.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import (
    Buffer,
    Call,
    Const,
    Expr,
    For,
    If,
    Kernel,
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

Path = tuple[int, ...]  # of a statement: its place in the body, in the body of that one, ...
_ANY = None  # some element, of any thread


@dataclass
class Touched:
    """The memory that was touched since the threads last met: which elements of each buffer."""

    reads: dict[Buffer, set[Any]] = field(default_factory=dict)
    writes: dict[Buffer, set[Any]] = field(default_factory=dict)

    def add(self, other: Touched) -> None:
        for mine, theirs in ((self.reads, other.reads), (self.writes, other.writes)):
            for buffer, keys in theirs.items():
                mine.setdefault(buffer, set()).update(keys)

    def disturbs(self, other: Touched) -> bool:
        """Whether something in `other` may meet what another thread has done here."""
        pairs = ((self.writes, other.reads), (self.writes, other.writes),
                 (self.reads, other.writes))
        return any(buffer in then and _apart(keys | then[buffer]) for first, then in pairs
                   for buffer, keys in first.items())

    def copy(self) -> Touched:
        made = Touched()
        made.add(self)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Touched) and self.reads == other.reads \
            and self.writes == other.writes


def _apart(keys: set[Any]) -> bool:
    """Whether these may be elements of different threads."""
    return len(keys) > 1 or _ANY in keys


def barrier_points(kernel: Kernel, private: Container[Buffer]) -> set[Path]:
    """The statements before which the threads of a team meet."""
    found: set[Path] = set()
    _Walk(kernel.task, private, found).block(kernel.body, (), Touched())
    return found


class _Walk:
    def __init__(self, task: Var, private: Container[Buffer], found: set[Path]) -> None:
        self.task, self.private, self.found = task, private, found

    def block(self, body: Iterable[Stmt], path: Path, now: Touched) -> Touched:
        """What has been touched since the last meeting, at the end of a block."""
        for number, s in enumerate(body):
            now = self._statement(s, (*path, number), now)
        return now

    def _statement(self, s: Stmt, path: Path, now: Touched) -> Touched:
        if isinstance(s, For) and s.lanes:
            now = self._phase(self._of_lanes(s), path, now)
        elif isinstance(s, (For, If)):
            now = self._phase(self._alike(expressions(s), ()), path, now)
            now = self._loop(s, path, now) if isinstance(s, For) else self._branch(s, path, now)
        elif not isinstance(s, Prefetch):
            now = self._phase(self._direct(s), path, now)
        return now

    def _direct(self, s: Stmt) -> Touched:
        """What a statement outside of lane loops touches. All threads turn a block, and all
        multiply what any of them has brought."""
        touched = self._alike(expressions(s), [s.buffer] if isinstance(s, Store) else [])
        if isinstance(s, Transpose):
            touched.reads.setdefault(s.source, set()).add(_ANY)
            touched.writes.setdefault(s.buffer, set()).add(_ANY)
        if isinstance(s, Mma):
            touched.reads |= {s.rows: {_ANY}, s.columns: {_ANY}}
        return touched

    def _phase(self, new: Touched, path: Path, now: Touched) -> Touched:
        if now.disturbs(new):
            self.found.add(path)
            return new
        now = now.copy()
        now.add(new)
        return now

    def _branch(self, s: If, path: Path, now: Touched) -> Touched:
        inside = self.block(s.body, path, now)
        inside.add(now)
        return inside

    def _loop(self, s: For, path: Path, now: Touched) -> Touched:
        """The first statements of a turn meet what the turn before has touched as well."""
        while True:
            after = now.copy()
            after.add(self.block(s.body, path, now.copy()))
            if after == now:
                return after
            now = after

    def _alike(self, roots: Iterable[Expr], writes: Iterable[Buffer]) -> Touched:
        """What all threads read alike, and the first one writes."""
        touched = Touched(writes={b: {_ANY} for b in writes if b not in self.private})
        for e in subexpressions(roots):
            if isinstance(e, Load) and e.buffer not in self.private:
                touched.reads.setdefault(e.buffer, set()).add(_ANY)
        return touched

    def _of_lanes(self, s: For) -> Touched:
        touched = self._alike((s.start, s.stop), ())
        self._inside(s.body, s, {}, touched)
        return touched

    def _inside(self, body: Iterable[Stmt], lane: For, serial: dict[Var, Any], touched: Touched
                ) -> None:
        for s in body:
            for e in subexpressions(expressions(s)):
                if isinstance(e, Load) and e.buffer not in self.private:
                    key = _key(e.index, lane, serial, self.task)
                    touched.reads.setdefault(e.buffer, set()).add(key)
            if isinstance(s, Store) and s.buffer not in self.private:
                key = _key(s.index, lane, serial, self.task)
                touched.writes.setdefault(s.buffer, set()).add(key)
            if isinstance(s, For):
                self._inside(s.body, lane, {**serial, s.var: (len(serial), s.start, s.stop)},
                             touched)
            elif isinstance(s, If):
                self._inside(s.body, lane, serial, touched)


def _key(index: Expr, lane: For, serial: dict[Var, Any], task: Var) -> Any:
    """What is equal for two accesses whose elements belong to the same thread each, and to no other
    one; _ANY where that is not known."""
    terms, constant = linear_form(index)
    step, span = abs(terms.pop(lane.var, 0)), 0
    named = {}
    for e, factor in terms.items():
        if e in serial:
            _, start, stop = named_loop = serial[e]
            if not (isinstance(start, Const) and isinstance(stop, Const)):
                return _ANY
            span += abs(factor) * (int(stop.value) - int(start.value) - 1)
            named[named_loop] = factor
        elif all(isinstance(x, (Call, Const)) or x is task for x in subexpressions([e])):
            named[e] = factor
        else:  # in another turn of a loop it may be another element
            return _ANY
    return (lane.start, lane.stop, step, frozenset(named.items()), constant) if step > span \
        else _ANY
