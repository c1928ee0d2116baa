"""Recorded ways that can be run: entry guards, a tree, and the short way of calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ...eager import interpreter
from ...eager.core.tape import is_grad_enabled
from ...eager.errors import CheckError, CodegenError, FusewireError
from ...eager.uninterrupted import Uninterrupted
from ..guards.guards import Guard, PathCodegen, compile_check
from ..heap.path_reader import PathReader
from ..program.cfg import Activation, Block, Exit
from ..program.stage_planner import exits_of, segments_of
from ..program.trace_exit import TraceExit
from ..runtime import spans
from ..segments.segment import Segment
from ..trace.dynamic_inputs import DynamicInputs
from ..trace.value_table import ValueTable
from .fast_path import Direct, FastPathContext, compile_fast_path

UNSEEN: Any = object()  # what `run` gives where no recorded way fits
MISSING = (AttributeError, KeyError, IndexError, ValueError, TypeError)
_AGAIN = (FusewireError, ArithmeticError, *MISSING)  # what Python will meet at its own line


def _none(args: Any, kwargs: Any) -> Any:
    """No short way."""
    return UNSEEN


class Replay:
    """A tree of recorded ways under entry guards."""

    root: Block

    def __init__(self, fn: Any, names: ValueTable, varying: DynamicInputs, guards: list[Guard],
                 grad_enabled: bool, casting: Any = None) -> None:
        self.fn, self.names, self.varying = fn, names, varying
        self.grad_enabled, self.casting = grad_enabled, casting
        self.uses = 0
        self._long = 0  # calls that went the long way
        self._grown = 0  # how often it began or ended to take in a run: odd while it does
        self._guard(guards)

    def _source(self, careful: bool = False) -> PathCodegen:
        return PathCodegen(self.fn, self.names.held, careful)

    def _drop_fast_path(self) -> None:
        """Calls go the long way again."""
        self.direct: Direct = _none
        self.split: str | None = None  # see `Short`

    def _guard(self, guards: list[Guard]) -> None:
        self._drop_fast_path()
        self.guards = guards
        self.check = compile_check(guards, self._source())

    def missed(self, args: Any, kwargs: Any) -> str:
        """Why this program does not fit the call: the condition that failed; "" where it fits."""
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
        """Whether the entry guards hold."""
        if self.grad_enabled != is_grad_enabled() \
                or self.casting is not interpreter.STATE.casting:
            return False
        try:
            return self.check(args, kwargs) < 0
        except MISSING:
            return False

    def run(self, args: Any, kwargs: Any,
            instead: Callable[[TraceExit, Any], None] | None = None) -> Any:
        """What the function returns for this call, its effects done; UNSEEN, and nothing done,
        where the call takes a way that was not recorded. `instead` is called in place of them."""
        with Uninterrupted() as section:
            section.open = True
            try:
                found = self._replay(args, kwargs, section)
            except (CheckError, CodegenError):
                raise
            except _AGAIN as error:
                return self._failed(error)
            if found is None:
                return UNSEEN
            leaf, result, commit = found
            if instead is None:
                commit()
        if instead is not None:
            instead(leaf, result)
        self.uses += 1
        leaf.uses += 1
        if instead is None:
            self._build_fast_path(args, kwargs)
        return result

    def _replay(self, args: Any, kwargs: Any, section: Uninterrupted
                ) -> tuple[TraceExit, Any, Callable[[], None]] | None:
        """The end of the call's way, its result, and what makes its changes; None where the way
        was not recorded. From the code on that writes over arrays, the section is closed."""
        call = Activation(args, kwargs, PathReader(args, kwargs, self.fn, self.names.held),
                          self._sizes)
        at: Block | None = self.root
        try:
            while at is not None:
                call.run(at.segments)
                if isinstance(at, Exit):
                    break
                at = at.follow(call)
            leaf = next((x for x in at.exits if x.fits(args, kwargs)), None) if at else None
            if leaf is None:
                return None
            if leaf.effects and leaf.segment is not None:
                leaf.segment.compile()
                section.open = False
            return leaf, *leaf.replay(args, kwargs, call.registers, call.origins, call.read)
        finally:
            call.end()

    def _failed(self, error: Exception) -> Any:
        """What a call gives that has raised an error, and changed nothing."""
        return UNSEEN

    def _build_fast_path(self, args: Any, kwargs: Any) -> None:
        """Makes the short way of such calls, after the second that went the long way; after the
        fourth, the eighth and so on again, as calls that always differ have no use for one."""
        if spans.on:  # nobody takes it
            return
        self._long += 1
        grown = self._grown
        if grown % 2 or self._long < 2 or self._long & (self._long - 1) or self.casting is not None:
            return
        if any(stage.is_awaited for stage in self.stages()):
            self._long -= 1  # it is made of code that is there: the next call looks again
            return
        leaves = self.leaves()
        # Of several exits, each checks its own guards.
        own = leaves[0].exit_guards if len(leaves) == 1 else []
        at = FastPathContext(args, kwargs, self.fn, self.names.held, [*self.guards, *own],
                             self.root,
                             self.varying.axis_of_size())
        # Where no code can be made, the long way says so.
        constants = {"PROGRAM": self, "FORGET": self._forget, "UNSEEN": UNSEEN, "AGAIN": _AGAIN,
                     "RAISED": CheckError}
        try:
            made = compile_fast_path(at, constants)
            # What it takes as given was read before this: it is as the guards say.
            holds = self.fits(args, kwargs) and (not own or leaves[0].check(args, kwargs) < 0)
        except (*MISSING, RuntimeError):  # RuntimeError: another thread adds a way to the tree
            return
        if made is not None and holds and self._grown == grown:
            self.direct, self.split = made
        else:
            self._drop_fast_path()

    def _forget(self, _: object) -> None:
        """What the short way knows is gone: it keeps what belonged to it no longer."""
        self._drop_fast_path()

    def arrays(self, args: Any, kwargs: Any) -> list[Any]:
        """What a call can read from outside."""
        found = []
        for stage in self.stages():
            with contextlib.suppress(*MISSING):  # of another way
                found += [t._data for t in stage.gather(args, kwargs)[0]]
        return found

    def _sizes(self, read: PathReader) -> dict[str, int]:
        return self.varying.sizes(read)

    def leaves(self) -> list[TraceExit]:
        """Every leaf."""
        return exits_of(self.root)

    def stages(self) -> list[Segment]:
        """Every stage that has something to compute."""
        return segments_of(self.root)
