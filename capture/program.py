"""The ways through a function: entry guards, and a tree of decisions that ends in leaves.

A stage of the tree computes what the next decision asks for, a leaf the results and what is to be
changed; changes are made at a leaf only, so that a run which meets something new has changed
nothing, and the function can simply be run again while it is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..eager import interpreter
from ..eager.errors import CheckError, CodegenError, FusewireError
from ..eager.tape import is_grad_enabled
from .graph import Node
from .guards import Guard, Source, compile_check
from .leaf import Leaf
from .names import Names
from .numbers import Formula, Origins, compute
from .reading import Reader
from .recorder import Decision, outcome_of
from .recording import Run
from .stage import Backend, Registers, Stage, cone
from .varying import History
from .widening import is_number_at

UNSEEN: Any = object()  # what `run` gives where no recorded way fits
_MISSING = (AttributeError, KeyError, IndexError, ValueError, TypeError)
_AGAIN = (FusewireError, ArithmeticError, *_MISSING)  # what Python will meet at its own line


class Branch:
    """A decision: what is asked, and where each answer leads."""

    def __init__(self, decision: Decision) -> None:
        self.subject, self.kind, self.site = decision.subject, decision.kind, decision.site
        self.outcomes: dict[Any, Branch | Ends] = {}
        self.stages: list[Stage] = []

    @property
    def wanted(self) -> list[Node]:
        return list(elements([self.subject])) if isinstance(self.subject, Formula) \
            else [self.subject]

    def decide(self, registers: Registers, origins: Origins) -> Any:
        """The answer for this call."""
        value = compute(self.subject, origins) if isinstance(self.subject, Formula) else \
            registers[self.subject]
        return outcome_of(self.kind, self.subject, value)


class Ends:
    """Where a way ends: leaves that differ in what else they depend on."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaves = [leaf]
        self.stages: list[Stage] = []

    @property
    def wanted(self) -> list[Node]:
        return list(elements(f for leaf in self.leaves for f in leaf.formulas))


def elements(subjects: Any) -> Iterator[Node]:
    """The nodes whose elements formulas are made of."""
    for f in subjects:
        if isinstance(f, Formula):
            if f.op == "element":
                yield f.args[0]
            else:
                yield from elements(f.args)


class Program:
    """Everything recorded of a function under one set of entry guards."""

    def __init__(self, fn: Callable[..., Any], names: Names, run: Run, backend: Backend) -> None:
        assert run.leaf is not None
        self.fn, self.names, self.backend = fn, names, backend
        self.grad_enabled, self.casting = is_grad_enabled(), interpreter.STATE.casting
        self.varying = run.varying
        self.uses = 0
        self._stages: dict[Any, Stage] = {}
        self._guard(run.leaf.guards)
        run.leaf.depends_on([], self._source())
        self.root: Branch | Ends = _way(run.path, run.leaf)
        self._plan()

    def _source(self) -> Source:
        return Source(self.fn, self.names.held)

    def _guard(self, guards: list[Guard]) -> None:
        self.guards = guards
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
            failed = [g for g in (*self.guards, *(g for leaf in self.leaves() for g in leaf.own))
                      if compile_check([g], self._source())(args, kwargs) >= 0]
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

    def run(self, args: Any, kwargs: Any,
            instead: Callable[[Leaf, Any], None] | None = None) -> Any:
        """What the function returns for this call, its effects done; UNSEEN, and nothing done,
        where the call takes a way that was not recorded. `instead` is called in place of them."""
        registers: Registers = {}
        read = Reader(args, kwargs, self.fn, self.names.held)
        origins = {"given": read, "element": lambda node: registers[node].item(),
                   "size": lambda expr: expr.value(self._sizes(read))}
        read.number = lambda formula: compute(formula, origins)
        at: Any = self.root
        try:
            while True:
                for stage in at.stages:
                    arrays = stage.run(stage.gather(args, kwargs)[0], registers, origins)
                    registers.update(zip(stage.wanted, arrays))
                if type(at) is Ends:
                    break
                at = at.outcomes.get(at.decide(registers, origins))
                if at is None:
                    return UNSEEN
            leaf = next((x for x in at.leaves if x.check(args, kwargs) < 0), None)
            if leaf is None:
                return UNSEEN
            result, commit = leaf.replay(args, kwargs, registers, origins, read)
        except (CheckError, CodegenError):
            raise
        except _AGAIN:
            return UNSEEN
        if instead is None:
            commit()
        else:
            instead(leaf, result)
        self.uses += 1
        leaf.uses += 1
        return result

    def arrays(self, args: Any, kwargs: Any) -> list[Any]:
        """What a call can read from outside."""
        found = []
        for stage in self.stages():
            with contextlib.suppress(*_MISSING):  # of another way
                found += [t.data for t in stage.gather(args, kwargs)[0]]
        return found

    def _sizes(self, read: Reader) -> dict[str, int]:
        return self.varying.sizes(read).values

    # ---- growing

    def graft(self, run: Run) -> bool:
        """Takes in another run whose entry guards hold; False where it does not go the same way
        up to a decision with another answer."""
        assert run.leaf is not None
        place, left = self.part(run.path)
        if place is None:
            return False
        known = {g.key for g in run.leaf.guards}
        common = [g for g in self.guards if g.key in known]
        gone = [g for g in self.guards if g.key not in known]
        self._add(place, left, run.leaf)
        if gone:
            for leaf in self.leaves():
                if leaf is not run.leaf:
                    leaf.depends_on([*leaf.own, *gone], self._source())
            self._guard(common)
        entry = {g.key for g in common}
        run.leaf.depends_on([g for g in run.leaf.guards if g.key not in entry], self._source())
        self._plan()
        return True

    def part(self, path: list[Decision]) -> tuple[Any, list[Decision]]:
        """Where a path leaves the tree, and the decisions from there on."""
        at: Any = self.root
        for i, decision in enumerate(path):
            if type(at) is Ends or at.subject != decision.subject or at.kind != decision.kind:
                return None, []
            if decision.outcome not in at.outcomes:
                return at, path[i:]
            at = at.outcomes[decision.outcome]
        return (at, []) if type(at) is Ends else (None, [])

    def _add(self, place: Any, left: list[Decision], leaf: Leaf) -> None:
        if type(place) is Ends:
            place.leaves.insert(0, leaf)
        else:
            place.outcomes[left[0].outcome] = _way(left[1:], leaf)

    def walk(self) -> Iterator[Branch | Ends]:
        """Every branch and end of the tree."""
        stack = [self.root]
        while stack:
            at = stack.pop()
            yield at
            if isinstance(at, Branch):
                stack.extend(at.outcomes.values())

    def leaves(self) -> list[Leaf]:
        """Every leaf."""
        return [leaf for at in self.walk() if isinstance(at, Ends) for leaf in at.leaves]

    def stages(self) -> list[Stage]:
        """Every stage that has something to compute."""
        found = [s for at in self.walk() for s in at.stages]
        return found + [leaf.stage for leaf in self.leaves() if leaf.stage is not None]

    # ---- what is computed where

    def _plan(self) -> None:
        """Gives each place of the tree its stages: what is wanted there, and what is used again
        further down is kept."""
        kept = self._stages
        self._stages = {}
        order = list(self.walk())
        needs: dict[int, dict[Node, None]] = {}
        for at in reversed(order):
            below = list(at.outcomes.values()) if isinstance(at, Branch) else []
            needs[id(at)] = dict.fromkeys(cone([*self._wants(at)]))
            for child in below:
                needs[id(at)] |= needs[id(child)]
        pending: list[tuple[Branch | Ends, frozenset[Node]]] = [(self.root, frozenset())]
        while pending:
            at, known = pending.pop()
            wanted = at.wanted
            if isinstance(at, Branch):
                later: dict[Node, None] = {}
                for child in at.outcomes.values():
                    later |= needs[id(child)]
                wants = [n for child in at.outcomes.values() for n in self._all_wants(child)]
            else:
                wants = [n for leaf in at.leaves for n in leaf.outputs]
                later = dict.fromkeys(cone(wants))
                wanted += elements(self.names.numbers.get(n) for n in later)
            at.stages, known = self._staged(wanted, known, later, wants, kept)
            if isinstance(at, Branch):
                pending.extend((child, known) for child in at.outcomes.values())
            else:
                for leaf in at.leaves:
                    leaf.prepare(self.names, self.fn, known, self.backend)

    def _wants(self, at: Branch | Ends) -> list[Node]:
        return at.wanted if isinstance(at, Branch) else \
            [*at.wanted, *(n for leaf in at.leaves for n in leaf.outputs)]

    def _all_wants(self, at: Branch | Ends) -> Iterator[Node]:
        yield from self._wants(at)
        if isinstance(at, Branch):
            for child in at.outcomes.values():
                yield from self._all_wants(child)

    def _staged(
        self, wanted: Sequence[Node], known: frozenset[Node], later: dict[Node, None],
        wants: Sequence[Node], kept: dict[Any, Stage],
    ) -> tuple[list[Stage], frozenset[Node]]:
        """The stages that compute `wanted`, and what is known after them."""
        stages = []
        while True:
            missing = [n for n in dict.fromkeys(wanted) if n not in known]
            if not missing:
                return stages, known
            first = self._numbers_first(missing, known)
            stage = self._stage(first, known, later, wants, kept)
            stages.append(stage)
            known = known.union(stage.wanted)

    def _numbers_first(self, wanted: list[Node], known: frozenset[Node]) -> list[Node]:
        """`wanted`, or what the numbers among its inputs are elements of, where that is unknown."""
        while True:
            numbers = [n for n in cone(wanted, known) if n in self.names.numbers]
            missing = [n for n in elements(self.names.numbers[m] for m in numbers)
                       if n not in known]
            if not missing:
                return wanted
            wanted = list(dict.fromkeys(missing))

    def _stage(self, wanted: list[Node], known: frozenset[Node], later: dict[Node, None],
               wants: Sequence[Node], kept: dict[Any, Stage]) -> Stage:
        new = dict.fromkeys(n for n in cone(wanted, known) if n not in known and n.inputs)
        read_later = {i for n in later if n not in new and n not in known for i in n.inputs}
        read_later.update(wants)
        exports = [n for n in new if n in read_later and n not in wanted]
        outputs = [*wanted, *exports]
        key = (tuple(map(id, outputs)), frozenset(map(id, known)))
        stage = kept.get(key)
        if stage is None:
            stage = Stage(self.names, self.fn, outputs, known, self.backend)
        self._stages[key] = stage
        return stage


def _difference(guard: Guard, read: Reader) -> list[tuple[int, int, int]] | None:
    """(axis, size before, size now) of what makes a guard fail, none for a number; None for
    anything that is not just another number or size."""
    if guard.of == "number":
        return [] if is_number_at(guard.path, read) else None
    value = read(guard.path)
    if guard.of != "sizes" or type(value) is not guard.constants["T"] \
            or value.data.dtype != guard.constants["D"]:
        return None
    before, now = guard.constants["S"], value.data.shape
    found = [(i, a, b) for i, (a, b) in enumerate(zip(before, now)) if a != b]
    return found if found and len(before) == len(now) else None


def _way(path: Sequence[Decision], leaf: Leaf) -> Branch | Ends:
    """A tree with one way."""
    at: Branch | Ends = Ends(leaf)
    for decision in reversed(path):
        branch = Branch(decision)
        branch.outcomes[decision.outcome] = at
        at = branch
    return at
