"""The ways through a function: entry guards, and a tree of decisions that ends in leaves.

A stage of the tree computes what the next decision asks for, a leaf the results and what is to be
changed; changes are made at a leaf only, so that a run which meets something new has changed
nothing, and the function can simply be run again while it is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...eager import interpreter
from ...eager.arrays.devices import CPU
from ...eager.core.tape import is_grad_enabled
from ..guards.guards import Guard, compile_each
from ..heap.path_reader import PathReader
from ..program.cfg import Block, Branch, Element, Exit, add_path
from ..program.stage_planner import SegmentPlanner
from ..program.trace_exit import TraceExit
from ..scalars.scalar_expr import ScalarExpr
from ..segments.segment import Backend
from ..trace.dynamic_inputs import SpecializationHistory
from ..trace.symbolize import is_number_at
from ..trace.value_table import ValueTable
from .replay import MISSING, Replay
from .trace import Trace

WAYS = 16  # answers to one question that are told apart
LEAVES = 64  # ways of one program
_PLAIN = (  # what hands Python a plain number: of a tensor, or of a number that is followed
    "a tensor's value becomes a plain number here, and each new value needs a recording. "
    "Use x.item(), which stays compiled, or tensors",
    "the exact value of a number is needed here (for a function of math, a string, an index), and "
    "each new value needs a recording. Compute with tensors here, or do this part outside")


class TraceTree(Replay):
    """Everything recorded of a function under one set of entry guards."""

    def __init__(self, fn: Callable[..., Any], names: ValueTable, run: Trace,
                 backend: Backend) -> None:
        assert run.leaf is not None
        self._planner = SegmentPlanner(names, fn, backend)
        self._guarded: Callable[[Any, Any], list[bool]] | None = None  # made when it is asked for
        super().__init__(fn, names, run.varying, run.leaf.guards, is_grad_enabled(),
                         interpreter.STATE.casting)
        run.leaf.set_guards([], self._source())
        self.root, _ = add_path(None, run.path, run.leaf)
        self._planner.plan(self.root)

    def _guard(self, guards: list[Guard]) -> None:
        super()._guard(guards)
        self._guarded = None

    def differs_only(self, args: Any, kwargs: Any, history: SpecializationHistory) -> bool:
        """Whether nothing but plain numbers and sizes keep the call from fitting; `history` is
        told which."""
        if self.grad_enabled != is_grad_enabled() \
                or self.casting is not interpreter.STATE.casting:
            return False
        read = PathReader(args, kwargs, self.fn, self.names.held)
        try:
            failed = [g for g, holds in zip(self._all_guards(), self._each(args, kwargs))
                      if not holds]
            found = [_difference(g, read) for g in failed if g.category != "condition"]
        except MISSING:
            return False
        if any(f is None for f in found):
            return False
        for guard, sizes in zip((g for g in failed if g.category != "condition"), found):
            if guard.category == "number":
                history.numbers_differ(frozenset([guard.path]))
            for axis, before, now in sizes or ():
                history.size_differs((guard.path, axis), before, now)
        return True

    def _all_guards(self) -> list[Guard]:
        return [*self.guards, *(g for leaf in self.leaves() for g in leaf.exit_guards)]

    def _each(self, args: Any, kwargs: Any) -> list[bool]:
        """Whether each of all guards holds."""
        if self._guarded is None:
            self._guarded = compile_each(self._all_guards(), self._source(careful=True))
        return self._guarded(args, kwargs)

    def graft(self, run: Trace) -> bool:
        """Takes in another run whose entry guards hold; False where it does not go the same way
        up to a decision with another answer."""
        self._grown += 1
        try:
            return self._take_in(run)
        finally:
            self._drop_fast_path()  # also what another thread has made of half of it
            self._long = 0
            self._grown += 1

    def _take_in(self, run: Trace) -> bool:
        assert run.leaf is not None
        self._drop_fast_path()
        self.root, grown = add_path(self.root, run.path, run.leaf)
        if not grown:
            return False
        known = {g.key for g in run.leaf.guards}
        common = [g for g in self.guards if g.key in known]
        gone = [g for g in self.guards if g.key not in known]
        if gone:
            for leaf in self.leaves():
                if leaf is not run.leaf:
                    leaf.set_guards([*leaf.exit_guards, *gone], self._source())
            self._guard(common)
        entry = {g.key for g in common}
        run.leaf.set_guards([g for g in run.leaf.guards if g.key not in entry], self._source())
        self._guarded = None
        self._planner.plan(self.root)
        return True

    def part(self, path: Sequence[Element]) -> tuple[Block | None, Sequence[Element]]:
        """Where a path leaves the tree, and its elements from there on."""
        at = self.root
        for i, element in enumerate(path):
            if not at.matches(element):
                return None, []
            below = at.successor(element)
            if below is None:
                return at, path[i:]
            at = below
        return (at, []) if isinstance(at, Exit) else (None, [])

    def unmet(self, args: Any, kwargs: Any) -> dict[TraceExit, str]:
        """The guard that fails, for each exit that this call does not fit."""
        found = {}
        for leaf in self.leaves():
            try:
                failed = leaf.check(args, kwargs)
            except MISSING:
                found[leaf] = "every value that the recording read exists"
            else:
                found |= {} if failed < 0 else {leaf: leaf.exit_guards[failed].message}
        return found

    def news(self, run: Trace, unmet: dict[TraceExit, str]) -> str:
        """Why a call was traced: the new outcome of a branch, or the guard that failed."""
        place, left = self.part(run.path)
        if left:
            return f"{left[0].site or 'a decision'} took an outcome that has no trace yet"
        here = place.exits if isinstance(place, Exit) else unmet
        failed = [unmet[leaf] for leaf in here if leaf in unmet]
        return f"guard failed: {failed[0]}" if failed else \
            "a condition on values has an outcome that has no trace yet"


def crowded(run: Trace, programs: Sequence[TraceTree]) -> str:
    """Why a trace exceeds the limit of paths, or "": a plain number has one path per value."""
    for program in programs:
        place, left = program.part(run.path)
        if isinstance(place, Branch) and left and len(place.outcomes) >= WAYS:
            return f"{place.site}: {_PLAIN[isinstance(place.subject, ScalarExpr)]}"
        if len(program.leaves()) >= LEAVES:
            return f"{run.path[-1].site}: its branches form more than {LEAVES} paths"
    return ""


def _difference(guard: Guard, read: PathReader) -> list[tuple[int, int, int]] | None:
    """(axis, size before, size now) of what makes a guard fail, none for a number; None for
    anything that is not just another number or size."""
    if guard.category == "number":
        return [] if is_number_at(guard.path, read) else None
    value = read(guard.path)
    if guard.category != "sizes" or type(value) is not guard.constants["T"] \
            or value._data.dtype != guard.constants["D"] or _device(guard) != value.device:
        return None
    before, now = guard.constants["S"], value._data.shape
    found = [(i, a, b) for i, (a, b) in enumerate(zip(before, now)) if a not in (None, b)]
    return found if found and len(before) == len(now) else None


def _device(guard: Guard) -> str:
    """The device that a guard expects a tensor on."""
    return f"cuda:{guard.constants['P']}" if "P" in guard.constants else CPU
