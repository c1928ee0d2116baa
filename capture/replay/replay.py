"""Replays traced paths: entry guards, a tree of branches, and the fast path of calls."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ...eager import interpreter
from ...eager.core.tape import is_grad_enabled
from ...eager.errors import CheckError, CodegenError, CollectiveError, FusewireError
from ...eager.uninterrupted import Uninterrupted
from ..cfg.interpret import Activation, path_of
from ..cfg.ir import Block
from ..cfg.segment_planner import exits_of, segments_of
from ..cfg.trace_exit import TraceExit
from ..effects.effect_call import Pending, perform
from ..guards.guards import Guard, PathCodegen, compile_check
from ..heap.path_reader import MISSING, PathReader
from ..runtime import profiling_spans
from ..segments.segment import Segment
from ..trace.dynamic_inputs import DynamicInputs
from ..trace.value_table import ValueTable
from .fast_path import Direct, FastPath, FastPathContext, compile_fast_path

MAX_NOTED_BLOCKS = 1000  # on the path of one call
NOT_TRACED: Any = object()  # returned by `run` if no traced path fits the call
# Errors that Python raises again at the user's line.
_PYTHON_ERRORS = (FusewireError, ArithmeticError, *MISSING)


def _none(args: Any, kwargs: Any) -> Any:
    """Stands for a missing fast path: no call fits."""
    return NOT_TRACED


class Replay:
    """A tree of traced paths under entry guards."""

    root: Block
    suspends = False  # True if calls may be suspended at an exit

    def __init__(self, fn: Any, names: ValueTable, varying: DynamicInputs, guards: list[Guard],
                 grad_enabled: bool, casting: Any = None) -> None:
        self.fn, self.names, self.varying = fn, names, varying
        self.grad_enabled, self.casting = grad_enabled, casting
        self.uses = 0
        self._slow_calls = 0  # calls that took the slow path
        self._tree_version = 0  # begins and ends of tree changes: odd during a change
        self.set_guards(guards)

    @property
    def counter(self) -> Replay:
        """The program that counts the calls."""
        return self

    def _source(self, careful: bool = False) -> PathCodegen:
        return PathCodegen(self.fn, self.names.held, careful)

    def _drop_fast_path(self) -> None:
        """Deletes the fast path. Calls take the slow path again."""
        self.direct: Direct = _none
        self._ordered = (-1, False)  # the version of the tree, and whether it has ordered ops
        self.split: str | None = None  # see `FastPath`

    def set_guards(self, guards: list[Guard]) -> None:
        self._drop_fast_path()
        self.guards = guards
        self.check = compile_check(guards, self._source())

    def missed(self, args: Any, kwargs: Any) -> str:
        """The message of the guard that fails for a call; "" if all guards hold."""
        if self.grad_enabled != is_grad_enabled():
            return f"gradients are {'enabled' if self.grad_enabled else 'disabled'}"
        if self.casting is not interpreter.STATE.casting:
            return f"autocast is {'off' if self.casting is None else self.casting.dtype.name}"
        try:
            failed = self.check(args, kwargs)
        except MISSING:
            return "every value that the recording read exists"
        return "" if failed < 0 else self.guards[failed].message

    def fits(self, args: Any, kwargs: Any) -> bool:
        """True if the entry guards hold."""
        if self.grad_enabled != is_grad_enabled() \
                or self.casting is not interpreter.STATE.casting:
            return False
        try:
            return self.check(args, kwargs) < 0
        except MISSING:
            return False

    @property
    def version(self) -> int:
        """The version of the tree and its guards."""
        return self._tree_version

    def has_changed(self, version: int) -> bool:
        """True if the tree is no longer of this version, or was changing then. Guards that held
        before may not be those of a path that another thread has added."""
        return version % 2 == 1 or version != self._tree_version

    def run(self, args: Any, kwargs: Any,
            instead: Callable[[TraceExit, Any], None] | None = None,
            version: int | None = None) -> Any:
        """Returns the result of the call and applies its effects.

        Returns NOT_TRACED, without effects, if the call takes a path that has no trace, or if the
        tree is no longer of the `version` whose entry guards hold. `instead` replaces the effects
        if it is given.
        """
        with Uninterrupted() as section:
            section.open = True
            try:
                replayed = self._replay(args, kwargs, section, version)
            except (CheckError, CodegenError, CollectiveError):
                raise  # other ranks do not take part again
            except _PYTHON_ERRORS as error:
                return self._failed(error)
            if replayed is None:
                return NOT_TRACED
            trace_exit, result, commit, effects, blocks = replayed
            if instead is None:
                commit()
        if instead is not None:
            instead(trace_exit, result)
        self.counter.uses += 1
        trace_exit.uses += 1
        if instead is None:
            self._note_path(blocks)
            self._build_fast_path(args, kwargs)
            perform(effects)
        return result

    def _replay(self, args: Any, kwargs: Any, section: Uninterrupted, fitting: int | None
                ) -> tuple[TraceExit, Any, Callable[[], None], list[Pending], deque[Block]] | None:
        """The exit of the call's path, its result, a function that changes what it changes, its
        effect calls, and the last blocks of the path.

        None if the path has no trace, or if the tree is no longer of the version `fitting`. The
        section closes before code that overwrites arrays runs.
        """
        version = self._tree_version
        call = Activation(args, kwargs, PathReader(args, kwargs, self.fn, self.names.held),
                          self._sizes)
        call.sources = {} if self.suspends else None
        try:
            blocks = deque(path_of(self.root, call), MAX_NOTED_BLOCKS)
            trace_exit = next((x for x in blocks[-1].exits if x.fits(call)), None)
            if trace_exit is None or (fitting is not None and self.has_changed(fitting)):
                return None
            if trace_exit.effects and trace_exit.segment is not None:
                trace_exit.segment.compile()
                section.open = False
            replayed = trace_exit.replay(call)
            if trace_exit.is_suspended and (version % 2 or version != self._tree_version):
                return None  # another thread has added a path, and captured values may be lacking
            return trace_exit, *replayed, call.effects, blocks
        finally:
            call.end()

    def collect_uses(self) -> None:
        """Brings the counts of exits and merges up to date."""

    def _note_path(self, blocks: Sequence[Block]) -> None:
        """Called with the blocks on the path of a call that took the slow path."""

    def _failed(self, error: Exception) -> Any:
        """The result of a call that has raised an error and changed nothing."""
        return NOT_TRACED

    def _build_fast_path(self, args: Any, kwargs: Any) -> None:
        """Builds the fast path after the second call on the slow path.

        It is built again after the fourth, the eighth and so on. Calls that always differ cannot
        use a fast path, so its attempts become rarer.
        """
        if profiling_spans.on:  # watched calls do not take it
            return
        self._slow_calls += 1
        version = self._tree_version
        if version % 2 or self._slow_calls < 2 or self._slow_calls & (self._slow_calls - 1) \
                or self.casting is not None:
            return
        if any(segment.is_awaited for segment in self.segments()):
            self._slow_calls -= 1  # it needs finished code: the next call tries again
            return
        exits = self.exits()
        # With several exits, each checks its own guards.
        exit_guards = exits[0].exit_guards if len(exits) == 1 else []
        context = FastPathContext(args, kwargs, self.fn, self.names.held,
                                  [*self.guards, *exit_guards], self.root,
                                  self.varying.axis_of_size())
        # If code generation fails, the slow path reports it.
        constants = {"PROGRAM": self.counter, "FORGET": self._forget_fast_path,
                     "NOT_TRACED": NOT_TRACED, "AGAIN": _PYTHON_ERRORS,
                     "RAISED": (CheckError, CollectiveError)}
        try:
            fast_path = compile_fast_path(context, constants)
            # The fast path embeds values that were read above. The guards must still hold for them.
            holds = self.fits(args, kwargs) and (
                not exit_guards or exits[0].check(args, kwargs) < 0)
        except (*MISSING, RuntimeError):  # RuntimeError: another thread adds a path
            return
        if fast_path is not None and holds and self._tree_version == version:
            self._set_fast_path(fast_path)
        else:
            self._drop_fast_path()

    @property
    def is_ordered(self) -> bool:
        """True if a segment has an ordered op."""
        if self._ordered[0] != self._tree_version:
            self._ordered = (self._tree_version,
                             any(segment.is_ordered for segment in self.segments()))
        return self._ordered[1]

    def _set_fast_path(self, fast_path: FastPath) -> None:
        self.direct, self.split = fast_path

    def _forget_fast_path(self, _: object) -> None:
        """Deletes the fast path when an object that it watches is freed."""
        self._drop_fast_path()

    def arrays(self, args: Any, kwargs: Any) -> list[Any]:
        """The arrays that a call can read from outside."""
        arrays = []
        for segment in self.segments():
            with contextlib.suppress(*MISSING):  # of another path
                arrays += [t._data for t in segment.gather(args, kwargs)[0]]
        return arrays

    def _sizes(self, read: PathReader) -> dict[str, int]:
        return self.varying.sizes(read)

    def exits(self) -> list[TraceExit]:
        """The exits of all paths."""
        return exits_of(self.root)

    def segments(self) -> list[Segment]:
        """The segments of all paths that compute something."""
        return segments_of(self.root)
