"""The ways through a function: entry guards, and a tree of decisions that ends in leaves.

A stage of the tree computes what the next decision asks for, a leaf the results and what is to be
changed; changes are made at a leaf only, so that a run which meets something new has changed
nothing, and the function can simply be run again while it is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from ..eager import interpreter
from ..eager.errors import CheckError, CodegenError, FusewireError
from ..eager.tape import is_grad_enabled
from . import watching
from .direct import Direct, Situation, compile_direct
from .formulas import Formula
from .guards import Guard, Source, compile_check, compile_each
from .leaf import Leaf
from .names import Names
from .planning import Planner, leaves_of, stages_of
from .reading import Reader
from .recording import Run
from .stage import Backend, Stage
from .tree import Branch, Call, Element, Ends, Place, grow
from .varying import History
from .widening import is_number_at

WAYS = 16  # answers to one question that are told apart
LEAVES = 64  # ways of one program
UNSEEN: Any = object()  # what `run` gives where no recorded way fits
_MISSING = (AttributeError, KeyError, IndexError, ValueError, TypeError)
_AGAIN = (FusewireError, ArithmeticError, *_MISSING)  # what Python will meet at its own line
_PLAIN = (  # what hands Python a plain number: of a tensor, or of a number that is followed
    "a tensor's value becomes a plain number here, and each new one needs a recording. Use "
    "x.item(), which stays compiled, or tensors",
    "only the exact value of a number will do here (for a function of math, a text, an index), and "
    "each new one needs a recording. Compute with tensors here, or do this part outside")


def _none(args: Any, kwargs: Any) -> Any:
    """No short way."""
    return UNSEEN


class Program:
    """Everything recorded of a function under one set of entry guards."""

    def __init__(self, fn: Callable[..., Any], names: Names, run: Run, backend: Backend) -> None:
        assert run.leaf is not None
        self.fn, self.names, self.backend = fn, names, backend
        self.grad_enabled, self.casting = is_grad_enabled(), interpreter.STATE.casting
        self.varying = run.varying
        self.uses = 0
        self._lengthen()
        self._long = 0  # calls that went the long way
        self._grown = 0  # how often it began or ended to take in a run: odd while it does
        self._planner = Planner(names, fn, backend)
        self._guarded: Callable[[Any, Any], list[bool]] | None = None  # made when it is asked for
        self._guard(run.leaf.guards)
        run.leaf.depends_on([], self._source())
        self.root, _ = grow(None, run.path, run.leaf)
        self._planner.plan(self.root)

    def _source(self, careful: bool = False) -> Source:
        return Source(self.fn, self.names.held, careful)

    def _lengthen(self) -> None:
        """Calls go the long way again."""
        self.direct: Direct = _none
        self.split: str | None = None  # see `Short`

    def _guard(self, guards: list[Guard]) -> None:
        self._lengthen()
        self.guards = guards
        self._guarded = None
        self.check = compile_check(guards, self._source())

    # ---- calls

    def missed(self, args: Any, kwargs: Any) -> str:
        """Why this program does not fit the call: the condition that failed; "" where it fits."""
        if self.grad_enabled != is_grad_enabled():
            return f"gradients are {'enabled' if self.grad_enabled else 'disabled'}"
        if self.casting is not interpreter.STATE.casting:
            return f"autocast is {'off' if self.casting is None else self.casting.dtype.name}"
        try:
            failed = self.check(args, kwargs)
        except _MISSING:
            return "what it read is no longer there"
        return "" if failed < 0 else self.guards[failed].says

    def fits(self, args: Any, kwargs: Any) -> bool:
        """Whether the entry guards hold."""
        if self.grad_enabled != is_grad_enabled() \
                or self.casting is not interpreter.STATE.casting:
            return False
        try:
            return self.check(args, kwargs) < 0
        except _MISSING:
            return False

    def differs_only(self, args: Any, kwargs: Any, history: History) -> bool:
        """Whether nothing but plain numbers and sizes keep the call from fitting; `history` is
        told which."""
        if self.grad_enabled != is_grad_enabled() \
                or self.casting is not interpreter.STATE.casting:
            return False
        read = Reader(args, kwargs, self.fn, self.names.held)
        try:
            failed = [g for g, holds in zip(self._all_guards(), self._each(args, kwargs))
                      if not holds]
            found = [_difference(g, read) for g in failed if g.of != "condition"]
        except _MISSING:
            return False
        if any(f is None for f in found):
            return False
        for guard, sizes in zip((g for g in failed if g.of != "condition"), found):
            if guard.of == "number":
                history.numbers_differ(frozenset([guard.path]))
            for axis, before, now in sizes or ():
                history.size_differs((guard.path, axis), before, now)
        return True

    def _all_guards(self) -> list[Guard]:
        return [*self.guards, *(g for leaf in self.leaves() for g in leaf.own)]

    def _each(self, args: Any, kwargs: Any) -> list[bool]:
        """Whether each of all guards holds."""
        if self._guarded is None:
            self._guarded = compile_each(self._all_guards(), self._source(careful=True))
        return self._guarded(args, kwargs)

    def run(self, args: Any, kwargs: Any,
            instead: Callable[[Leaf, Any], None] | None = None) -> Any:
        """What the function returns for this call, its effects done; UNSEEN, and nothing done,
        where the call takes a way that was not recorded. `instead` is called in place of them."""
        call = Call(args, kwargs, Reader(args, kwargs, self.fn, self.names.held), self._sizes)
        at: Place | None = self.root
        try:
            while at is not None:
                call.run(at.stages)
                if isinstance(at, Ends):
                    break
                at = at.follow(call)
            leaf = next((x for x in at.leaves if x.fits(args, kwargs)), None) if at else None
            if leaf is None:
                return UNSEEN
            result, commit = leaf.replay(args, kwargs, call.registers, call.origins, call.read)
        except (CheckError, CodegenError):
            raise
        except _AGAIN:
            return UNSEEN
        finally:
            call.end()
        if instead is None:
            commit()
        else:
            instead(leaf, result)
        self.uses += 1
        leaf.uses += 1
        if instead is None:
            self._shorten(args, kwargs)
        return result

    def _shorten(self, args: Any, kwargs: Any) -> None:
        """Makes the short way of such calls, after the second that went the long way; after the
        fourth, the eighth and so on again, as calls that always differ have no use for one."""
        if watching.on:  # nobody takes it
            return
        self._long += 1
        grown = self._grown
        if grown % 2 or self._long < 2 or self._long & (self._long - 1) or self.casting is not None:
            return
        if any(stage.is_awaited for stage in self.stages()):
            self._long -= 1  # it is made of code that is there: the next call looks again
            return
        leaves = self.leaves()
        own = leaves[0].own if len(leaves) == 1 else []  # of several ways, each checks its own
        at = Situation(args, kwargs, self.fn, self.names.held, [*self.guards, *own], self.root,
                       self.varying.places())
        # Where no code can be made, the long way says so.
        constants = {"PROGRAM": self, "FORGET": self._forget, "UNSEEN": UNSEEN, "AGAIN": _AGAIN,
                     "RAISED": CheckError}
        try:
            made = compile_direct(at, constants)
            # What it takes as given was read before this: it is as the guards say.
            holds = self.fits(args, kwargs) and (not own or leaves[0].check(args, kwargs) < 0)
        except (*_MISSING, RuntimeError):  # RuntimeError: another thread adds a way to the tree
            return
        if made is not None and holds and self._grown == grown:
            self.direct, self.split = made
        else:
            self._lengthen()

    def _forget(self, _: object) -> None:
        """What the short way knows is gone: it keeps what belonged to it no longer."""
        self._lengthen()

    def arrays(self, args: Any, kwargs: Any) -> list[Any]:
        """What a call can read from outside."""
        found = []
        for stage in self.stages():
            with contextlib.suppress(*_MISSING):  # of another way
                found += [t._data for t in stage.gather(args, kwargs)[0]]
        return found

    def _sizes(self, read: Reader) -> dict[str, int]:
        return self.varying.sizes(read)

    # ---- growing

    def graft(self, run: Run) -> bool:
        """Takes in another run whose entry guards hold; False where it does not go the same way
        up to a decision with another answer."""
        self._grown += 1
        try:
            return self._take_in(run)
        finally:
            self._lengthen()  # also what another thread has made of half of it
            self._long = 0
            self._grown += 1

    def _take_in(self, run: Run) -> bool:
        assert run.leaf is not None
        self._lengthen()
        self.root, grown = grow(self.root, run.path, run.leaf)
        if not grown:
            return False
        known = {g.key for g in run.leaf.guards}
        common = [g for g in self.guards if g.key in known]
        gone = [g for g in self.guards if g.key not in known]
        if gone:
            for leaf in self.leaves():
                if leaf is not run.leaf:
                    leaf.depends_on([*leaf.own, *gone], self._source())
            self._guard(common)
        entry = {g.key for g in common}
        run.leaf.depends_on([g for g in run.leaf.guards if g.key not in entry], self._source())
        self._guarded = None
        self._planner.plan(self.root)
        return True

    def part(self, path: Sequence[Element]) -> tuple[Place | None, Sequence[Element]]:
        """Where a path leaves the tree, and its elements from there on."""
        at = self.root
        for i, element in enumerate(path):
            if not at.same(element):
                return None, []
            below = at.after(element)
            if below is None:
                return at, path[i:]
            at = below
        return (at, []) if isinstance(at, Ends) else (None, [])

    def unmet(self, args: Any, kwargs: Any) -> dict[Leaf, str]:
        """For each leaf that this call does not fit, the condition of its own that fails."""
        found = {}
        for leaf in self.leaves():
            try:
                failed = leaf.check(args, kwargs)
            except _MISSING:
                found[leaf] = "what it read is there"
            else:
                found |= {} if failed < 0 else {leaf: leaf.own[failed].says}
        return found

    def news(self, run: Run, unmet: dict[Leaf, str]) -> str:
        """What a run shows that is not in the tree."""
        place, left = self.part(run.path)
        if left:
            return f"{left[0].site or 'a decision'} decides as never before"
        here = place.leaves if isinstance(place, Ends) else unmet
        failed = [unmet[leaf] for leaf in here if leaf in unmet]
        return f"no longer: {failed[0]}" if failed else "its values decide something else"

    def leaves(self) -> list[Leaf]:
        """Every leaf."""
        return leaves_of(self.root)

    def stages(self) -> list[Stage]:
        """Every stage that has something to compute."""
        return stages_of(self.root)


def crowded(run: Run, programs: Sequence[Program]) -> str:
    """Why a run is one way too many, or nothing: a plain number has a way for each value."""
    for program in programs:
        place, left = program.part(run.path)
        if isinstance(place, Branch) and left and len(place.outcomes) >= WAYS:
            return f"{place.site}: {_PLAIN[isinstance(place.subject, Formula)]}"
        if len(program.leaves()) >= LEAVES:
            return f"{run.path[-1].site}: its decisions have more than {LEAVES} outcomes together"
    return ""


def _difference(guard: Guard, read: Reader) -> list[tuple[int, int, int]] | None:
    """(axis, size before, size now) of what makes a guard fail, none for a number; None for
    anything that is not just another number or size."""
    if guard.of == "number":
        return [] if is_number_at(guard.path, read) else None
    value = read(guard.path)
    if guard.of != "sizes" or type(value) is not guard.constants["T"] \
            or value._data.dtype != guard.constants["D"]:
        return None
    before, now = guard.constants["S"], value._data.shape
    found = [(i, a, b) for i, (a, b) in enumerate(zip(before, now)) if a not in (None, b)]
    return found if found and len(before) == len(now) else None
