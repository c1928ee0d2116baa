"""Holds the traced paths of a function: entry guards, and a tree of branches that ends in exits.

A segment of the tree computes the condition of the next branch. An exit computes the results and
the side effects. Effects happen only at an exit. A replay that reaches an outcome without a trace
has therefore changed nothing, and the function can run again to be traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...eager import interpreter
from ...eager.arrays.devices import CPU
from ...eager.core.tape import is_grad_enabled
from ..cfg.ir import Block, Branch, Element, IfMerge, walk
from ..cfg.path_insertion import add_path
from ..cfg.segment_planner import SegmentPlanner
from ..cfg.trace_exit import TraceExit
from ..control_flow.merges import Merge
from ..guards.guards import Guard, compile_each
from ..heap.path_reader import MISSING, PathReader
from ..scalars.scalar_expr import ScalarExpr
from ..segments.segment import Backend, Segment
from ..trace.dynamic_inputs import SpecializationHistory
from ..trace.symbolize import is_number_at
from ..trace.value_table import ValueTable
from .fast_path import FastPath
from .hot_paths import SMALLEST_BYTES, HotPaths, bytes_at_merges
from .replay import NOT_TRACED, Replay
from .trace_call import Trace

MAX_OUTCOMES = 16  # outcomes of one branch with a path each
MAX_PATHS = 64  # paths of one program
# Of a program that no call has replayed. If all calls took one of 64 paths at random, one of the
# first 24 would have taken a path twice, but for one program in a hundred.
MAX_UNREPLAYED_PATHS = 24
_NEEDS_NUMBER = (  # the message for a number from a tensor, and for one from a symbolic scalar
    "a tensor's value becomes a plain number here, and each new value needs a recording. "
    "Use x.item(), which stays compiled, or tensors",
    "the exact value of a number is needed here (for a function of math, a string, an index), and "
    "each new value needs a recording. Compute with tensors here, or do this part outside")


class TraceTree(Replay):
    """All traces of a function under one set of entry guards."""

    def __init__(self, fn: Callable[..., Any], names: ValueTable, run: Trace,
                 backend: Backend) -> None:
        assert run.exit is not None
        self._planner, self._backend = SegmentPlanner(names, fn, backend), backend
        self._hot: HotPaths | None = None  # if paths merge with large values
        # Compiled on first use.
        self._guard_outcomes: Callable[[Any, Any], list[bool]] | None = None
        super().__init__(fn, names, run.varying, run.exit.guards, is_grad_enabled(),
                         interpreter.STATE.casting)
        self.merges, self.rules = run.merges, names.rules
        run.exit.set_guards([], self._source())
        self.root, added = add_path(None, run.path, run.exit)
        # True if a path differs behind a merge or a back edge: the traces did not see all state.
        self.contradicted = not added
        if added:
            self._plan()
            self._compile_if_large(run)

    def run(self, args: Any, kwargs: Any,
            instead: Callable[[TraceExit, Any], None] | None = None,
            version: int | None = None) -> Any:
        hot = self._hot
        if hot is None or instead is not None:
            return super().run(args, kwargs, instead, version)
        result = hot.run(args, kwargs, version=version) if hot.count else NOT_TRACED
        return super().run(args, kwargs, version=version) if result is NOT_TRACED else result

    def _note_path(self, blocks: Sequence[Block]) -> None:
        if self._hot is not None and self._hot.watches:
            self._hot.note(blocks)

    def _set_fast_path(self, fast_path: FastPath) -> None:
        super()._set_fast_path(fast_path)
        if self._hot is not None:
            self._merged_direct, self.direct = self.direct, self._direct_of_hot_paths

    def _drop_fast_path(self) -> None:
        super()._drop_fast_path()
        self._merged_direct = self.direct  # for paths that are not hot

    def _direct_of_hot_paths(self, args: Any, kwargs: Any) -> Any:
        """The fast path of a program with hot paths. As long as their number may grow, other calls
        take the slow path, which notes their paths."""
        hot = self._hot
        assert hot is not None
        result = hot.direct(args, kwargs)
        if result is NOT_TRACED and not hot.watches:
            return self._merged_direct(args, kwargs)
        return result

    def set_guards(self, guards: list[Guard]) -> None:
        super().set_guards(guards)
        self._guard_outcomes = None

    def differs_only(self, args: Any, kwargs: Any, history: SpecializationHistory) -> bool:
        """True if only plain numbers and sizes make the guards fail. Adds them to `history`."""
        if self.grad_enabled != is_grad_enabled() \
                or self.casting is not interpreter.STATE.casting:
            return False
        read = PathReader(args, kwargs, self.fn, self.names.held)
        try:
            failed = [g for g, holds in zip(self._all_guards(), self._evaluate_guards(args, kwargs))
                      if not holds]
            differences = [_difference(g, read) for g in failed if g.category != "condition"]
        except MISSING:
            return False
        if any(difference is None for difference in differences):
            return False
        for guard, sizes in zip((g for g in failed if g.category != "condition"), differences):
            if guard.category == "number":
                history.numbers_differ(frozenset([guard.path]))
            for axis, traced_size, size in sizes or ():
                history.size_differs((guard.path, axis), traced_size, size)
        return True

    def cause(self, args: Any, kwargs: Any) -> str:
        """The message of a guard that fails for a call. Numbers and sizes become symbols, so a
        guard on something else comes before those on them."""
        message = self.missed(args, kwargs)
        read = PathReader(args, kwargs, self.fn, self.names.held)
        try:
            lasting = [g for g, holds in zip(self.guards, self._evaluate_guards(args, kwargs))
                       if not holds and g.category != "condition" and _difference(g, read) is None]
        except MISSING:
            return message
        modes_hold = self.grad_enabled == is_grad_enabled() \
            and self.casting is interpreter.STATE.casting
        return lasting[0].message if modes_hold and lasting else message

    def _all_guards(self) -> list[Guard]:
        return [*self.guards, *(g for trace_exit in self.exits() for g in trace_exit.exit_guards)]

    def _evaluate_guards(self, args: Any, kwargs: Any) -> list[bool]:
        """The outcome of every guard: True if it holds."""
        if self._guard_outcomes is None:
            self._guard_outcomes = compile_each(self._all_guards(), self._source(careful=True))
        return self._guard_outcomes(args, kwargs)

    def graft(self, trace: Trace) -> bool:
        """Adds a trace whose entry guards hold to the tree.

        Returns False if its path leaves the tree other than by a new outcome of a branch.
        """
        self._tree_version += 1
        try:
            return self._add_trace(trace)
        finally:
            self._drop_fast_path()  # another thread may have built one from the half-changed tree
            self._slow_calls = 0
            self._tree_version += 1

    def _add_trace(self, trace: Trace) -> bool:
        assert trace.exit is not None
        if trace.merges is not self.merges:
            return False
        self._drop_fast_path()
        if self._has_merges() or _merges(trace.path):
            return self._add_merging_trace(trace)
        self.root, grown = add_path(self.root, trace.path, trace.exit)
        if not grown:
            return False
        trace_keys = {g.key for g in trace.exit.guards}
        common = [g for g in self.guards if g.key in trace_keys]
        no_longer_common = [g for g in self.guards if g.key not in trace_keys]
        if no_longer_common:
            for trace_exit in self.exits():
                if trace_exit is not trace.exit:
                    trace_exit.set_guards([*trace_exit.exit_guards, *no_longer_common],
                                          self._source())
            self.set_guards(common)
        entry = {g.key for g in common}
        trace.exit.set_guards([g for g in trace.exit.guards if g.key not in entry], self._source())
        self._guard_outcomes = None
        self._plan()
        return True

    def _plan(self) -> None:
        self._planner.plan(self.root)
        self.suspends = any(trace_exit.is_suspended for trace_exit in self.exits())

    def _has_merges(self) -> bool:
        return any(isinstance(block, IfMerge) for block in walk(self.root))

    def _add_merging_trace(self, trace: Trace) -> bool:
        """Adds a trace to a tree in which paths merge.

        A call can take one path of each branch, and no single trace has seen all of them. So all
        guards of all traces hold on entry. An exit behind a merge belongs to all paths that reach
        it: it ends in one state of Python, so further traces have the same results.
        """
        assert trace.exit is not None
        self.root, grown = add_path(self.root, trace.path, trace.exit, one_exit=True)
        if not grown:
            self.contradicted = True
            return False
        guards = [*self._all_guards(), *trace.exit.guards]
        self.set_guards(list({g.key: g for g in guards}.values()))
        for trace_exit in self.exits():
            trace_exit.set_guards([], self._source())
        self._plan()
        if self._hot is not None:
            self._hot.set_guards(self.guards)
        self._compile_if_large(trace)
        return True

    def _compile_if_large(self, trace: Trace) -> None:
        """Compiles the path of a trace as a whole if large values are materialized at its
        merges."""
        if bytes_at_merges(trace.path) < SMALLEST_BYTES:
            return
        if self._hot is None:
            self._hot = HotPaths(self, self._backend)
        blocks: list[Block] = [self.root]
        for element in trace.path:
            successor = blocks[-1].successor(element)
            assert successor is not None
            blocks.append(successor)
        self._hot.note(blocks, is_hot=True)

    @property
    def hot_paths(self) -> int:
        """The number of paths through merges that are compiled as a whole."""
        return 0 if self._hot is None else self._hot.count

    def segments(self) -> list[Segment]:
        hot = self._hot.segments() if self._hot is not None and self._hot.count else []
        return [*super().segments(), *hot]

    def collect_uses(self) -> None:
        if self._hot is not None:
            self._hot.collect_uses()

    def part(self, path: Sequence[Element]) -> tuple[Block | None, Sequence[Element]]:
        """The block at which a path leaves the tree, and the elements of the path after it."""
        block = self.root
        for i, element in enumerate(path):
            if not block.matches(element):
                return None, []
            below = block.successor(element)
            if below is None:
                return block, path[i:]
            block = below
        return (block, []) if block.exits else (None, [])

    def unmet(self, args: Any, kwargs: Any) -> dict[TraceExit, str]:
        """The message of the failed guard, for each exit whose guards fail for this call."""
        messages = {}
        for trace_exit in self.exits():
            try:
                failed = trace_exit.check(args, kwargs)
            except MISSING:
                messages[trace_exit] = "every value that the recording read exists"
            else:
                if failed >= 0:
                    messages[trace_exit] = trace_exit.exit_guards[failed].message
        return messages

    def news(self, run: Trace, unmet: dict[TraceExit, str]) -> str:
        """Why a call was traced: the new outcome of a branch, or the guard that failed."""
        block, rest = self.part(run.path)
        if rest:
            return f"{rest[0].site or 'a decision'} took an outcome that has no trace yet"
        exits = unmet if block is None or not block.exits else block.exits
        failed = [unmet[trace_exit] for trace_exit in exits if trace_exit in unmet]
        return f"guard failed: {failed[0]}" if failed else \
            "a condition on values has an outcome that has no trace yet"


def _merges(path: Sequence[Element]) -> bool:
    return any(isinstance(element, Merge) for element in path)


def crowded(run: Trace, programs: Sequence[TraceTree]) -> str:
    """Why a trace exceeds the limit of paths, or "": a plain number has one path per value."""
    for program in programs:
        block, rest = program.part(run.path)
        if isinstance(block, Branch) and rest and len(block.outcomes) >= MAX_OUTCOMES:
            return f"{block.site}: {_NEEDS_NUMBER[isinstance(block.subject, ScalarExpr)]}"
        if len(program.exits()) >= MAX_PATHS:
            return f"{run.path[-1].site}: its branches form more than {MAX_PATHS} paths"
        if len(program.exits()) >= MAX_UNREPLAYED_PATHS and not program.uses:
            return f"{run.path[-1].site}: {MAX_UNREPLAYED_PATHS} calls took as many paths"
    return ""


def _difference(guard: Guard, read: PathReader) -> list[tuple[int, int, int]] | None:
    """The sizes that make a guard fail, as (axis, traced size, current size).

    The list is empty for a number. None if the guard fails for any other reason.
    """
    if guard.category == "number":
        return [] if is_number_at(guard.path, read) else None
    value = read(guard.path)
    if guard.category != "sizes" or type(value) is not guard.constants["T"] \
            or value._data.dtype != guard.constants["D"] or _device(guard) != value.device:
        return None
    traced, shape = guard.constants["S"], value._data.shape
    differing = [(i, a, b) for i, (a, b) in enumerate(zip(traced, shape)) if a not in (None, b)]
    return differing if differing and len(traced) == len(shape) else None


def _device(guard: Guard) -> str:
    """The device that a guard requires of a tensor."""
    return str(guard.constants.get("P", CPU))
