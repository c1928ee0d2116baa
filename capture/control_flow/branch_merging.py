"""Where ways meet again after a decision, so that what follows is recorded once.

Where the answers to a question lead to one place is found as loops are: by the state of Python's
frames. Where it is the same for both, but for tensors and numbers, these get names of their own
(phis), and all that follows is recorded as a function of them. The first way guesses where that is,
and what differs there; where another way does not fit, all begins anew with what was learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from ..graph.graph import Node
from ..scalars.scalar_expr import ScalarExpr, elements, of_number
from ..scalars.symbolic_scalar import Number
from .decision import Decision
from .frame_state import GENERATORS, Name, Snapshot, location_of, user_frames
from .liveness import MergePoint, is_plain_range, live, merge_point
from .loop_detection import LoopEntry, LoopRepeat
from .operand_stack import is_single_question, tells_symbols


class Split(NamedTuple):
    """A question whose answers lead to one place again."""

    key: Any
    site: str = ""


class Merge(NamedTuple):
    """That place: phis of tensors and of numbers, and what they are on this way."""

    key: Any
    phis: tuple[Node, ...]
    values: tuple[Node, ...]
    symbols: tuple[ScalarExpr, ...]
    formulas: tuple[ScalarExpr, ...]
    site: str


class MergeFailed(BaseException):
    """Ways do not meet where they were thought to: all begins anew with what was learnt."""


@dataclass
class MergeHints:
    """What is known of a function's questions, by their keys: from one beginning to the next."""

    numbers: bool = True  # whether numbers of Python may differ where ways meet
    apart: set[Any] = field(default_factory=set)  # questions whose ways do not meet
    varying: dict[Any, set[Any]] = field(default_factory=dict)  # what differs where they do
    at: dict[Any, set[Any]] = field(default_factory=dict)  # and what did at the same line before
    keys: dict[Any, int] = field(default_factory=dict)

    def number(self, key: Any) -> int:
        return self.keys.setdefault(key, len(self.keys))


@dataclass
class Plan:
    """What the first way had where it met the others."""

    place: Any
    state: Snapshot
    nodes: list[Node]
    numbers: dict[Name, Any]
    subject: Any
    followed: bool = False  # whether a run has gone on from there

    def differences(self, other: Plan) -> set[Any] | None:
        """The tensors and numbers that differ; None where more does."""
        one, two = self.state, other.state
        if not two.equal or one.structure != two.structure or not _alike(
                [*self.nodes, self.subject], [*other.nodes, other.subject]):
            return None
        if any(self.kind(name) is not other.kind(name) for name in self.numbers):
            return None
        found: set[Any] = {i for i, (a, b) in enumerate(zip(self.nodes, other.nodes))
                           if a is not b}
        return found.union(n for n, value in self.numbers.items() if value != other.numbers[n])

    def kind(self, name: Name) -> type:
        """Of a number: int or float."""
        found = self.state.symbols.get(name)
        return type(self.state.plains[name] if found is None else found.value)


def _alike(one: list[Any], two: list[Any]) -> bool:
    """Whether nodes and formulas are of the same types."""
    return len(one) == len(two) and all(
        type(a) is type(b) and (type(a) is ScalarExpr or a.type == b.type) for a,
        b in zip(one, two))


@dataclass
class _Fork:
    """A question that was asked, and what was known when it was."""

    key: Any
    frames: list[tuple[Any, int]]
    start: int  # in the path
    decided: set[Any]
    nodes: set[Node]
    heads: int  # loops around
    tokens: set[Any]
    visits: dict[Any, Any]


_UNKNOWN: Any = object()


class BranchMerger:
    """Watches the questions of one recorder."""

    def __init__(self, recorder: Any, learnt: MergeHints, plans: dict[Any, Plan | None]) -> None:
        self.recorder, self.learnt = recorder, learnt
        self.plans = plans  # None: ways do not meet
        self._forks: list[_Fork] = []
        self._origin: Any = None  # what began last: a turn of a loop, or where ways met
        self._trail: tuple[Any, ...] = ()  # the answers since then
        self._turns: dict[Any, int] = {}  # loops by their tokens, numbered by the way there
        self._read = 0  # of the path

    def visit(self, subject: Any) -> Any:
        """A question is about to be asked: perhaps ways meet here. What it asks of."""
        self._follow()
        frames = user_frames(self.recorder.loops.base)
        if not frames or not is_single_question(frames[0], subject.op):
            return subject
        for fork in reversed(self._forks):
            if (subject, "bool") not in fork.decided:
                subject = self._arrive(fork, frames, subject)
        return subject

    def asked(self) -> None:
        """A question was asked and answered."""
        recorder, loops = self.recorder, self.recorder.loops
        frames = user_frames(loops.base)
        self._follow()
        key = self._origin, self._trail[:-1]
        plan = self.plans.get(key, _UNKNOWN)
        if not frames or plan is None or key in self.learnt.apart:
            return
        decided = {k for k in recorder._decided if k != (recorder.path[-1].subject, "bool")}
        if plan is not _UNKNOWN:
            self._open(key, len(recorder.path) - 1)
        self._forks.append(_Fork(
            key, [(f, f.f_lasti) for f in frames], len(recorder.path) - 1, decided,
            {node for _, node in recorder._known.values()}, *loops.around()))

    def _open(self, key: Any, start: int) -> None:
        self.recorder.path.insert(start, Split(key))
        self._read += 1

    def ended(self, whole: bool) -> None:
        """The run has ended, where the function does or before: Unmet if ways should have met."""
        self._follow()
        self._leave(self._forks, whole)

    def _leave(self, forks: list[_Fork], for_good: bool = True) -> None:
        """Ways of these do not meet any more. Unmet if they should have."""
        for fork in forks:
            if self.plans.setdefault(fork.key, None) is not None and for_good:
                self._part(fork)

    def _part(self, fork: _Fork) -> NoReturn:
        self.learnt.apart.add(fork.key)
        raise MergeFailed

    def _follow(self) -> None:
        """Takes notice of what was added to the path."""
        path = self.recorder.path
        for element in path[self._read:]:
            if isinstance(element, (LoopEntry, LoopRepeat)):
                if isinstance(element, LoopEntry):
                    self._turns[element.token] = self.learnt.number(
                        (self._origin, self._trail, element.token))
                self._origin, self._trail = self._turns[element.token], ()
                self._close(element)
            elif isinstance(element, Decision):
                self._trail += (element.outcome,)
        self._read = len(path)

    def _close(self, element: LoopEntry | LoopRepeat) -> None:
        """A turn of a loop begins: ways of questions in the turn before do not meet in it."""
        in_first_turn = self.recorder.loops.has_in_first_iteration
        for fork in list(self._forks):
            inside = element.token in fork.tokens if isinstance(element, LoopRepeat) else \
                in_first_turn(fork.start, fork.visits)
            if inside:
                self._forks.remove(fork)
                self._leave([fork])

    # ---- places
    def _arrive(self, fork: _Fork, frames: list[Any], subject: Any) -> Any:
        place, plan = location_of(frames), self.plans.get(fork.key)
        known = self.recorder.loops.known_iterators(frames[0])
        ways = _meeting(fork, frames, known) if plan is None or plan.place == place else None
        if ways is None:
            return subject
        found = self._state(place, frames, ways, subject)
        if plan is None and not (found.state.equal
                                 and all(t.edge is None for t in found.state.tensors)):
            return subject
        if plan is None:
            plan = self._begin(fork, found, ways)
        differences, within = plan.differences(found), _Within(self.recorder, fork.start)
        known = self.learnt.varying[fork.key]
        if differences is None or not self._may_vary(differences | known, frames, ways) \
                or any(map(within.makes, _formulas(found.state.structure))):
            self._part(fork)
        self._learn(place, known, differences | within.made(found))
        return self._meet(fork, found, frames, plan)

    def _begin(self, fork: _Fork, found: Plan, ways: MergePoint) -> Plan:
        """The first way meets the others here; it guesses what differs."""
        self.plans[fork.key] = found
        self._open(fork.key, fork.start)
        fork.start += 1
        now = found.state
        new = {i for i, node in enumerate(found.nodes) if not self._was_there(node, fork)}
        new |= {i for i, t in enumerate(now.tensors)
                if any(now.locals[0].get(name) is t for name in ways.changed)}
        before = self.learnt.at.get(found.place, set())
        self.learnt.varying.setdefault(fork.key, set()).update(
            new, before & {*range(len(found.nodes)), *found.numbers})
        return found

    def _learn(self, place: Any, known: set[Any], differing: set[Any]) -> None:
        """Unmet where more differs than is known."""
        if not differing <= known:
            known |= differing
            self.learnt.at.setdefault(place, set()).update(known)
            raise MergeFailed

    def _state(self, place: Any, frames: list[Any], ways: MergePoint, subject: Any) -> Plan:
        recorder = self.recorder
        names = [live(f.f_code, f.f_lasti) for f in frames]
        if names[0] is not None:
            names[0] = names[0].union(ways.counters)
        now = recorder.loops.snapshot(frames, names)
        numbers: dict[Name, Any] = {name: of_number(value) for name, value in now.plains.items()}
        numbers.update({name: number.formula for name, number in now.symbols.items()})
        return Plan(place, now, [recorder.node_of(t) for t in now.tensors] if now.equal else [],
                    numbers, subject)

    def _may_vary(self, changed: set[Any], frames: list[Any], ways: MergePoint) -> bool:
        """Whether numbers among these can become symbols."""
        names = [each for each in changed if type(each) is tuple]
        return not names or (
            self.learnt.numbers and not any((0, c) in names for c in ways.counters)
            and not any(tells_symbols(frames[i].f_code) for i, _ in names))

    def _was_there(self, node: Node, fork: _Fork) -> bool:
        return node in fork.nodes or node in self.recorder.common.outside or node.op == "const"

    # ---- going on
    def _meet(self, fork: _Fork, found: Plan, frames: list[Any], plan: Plan) -> Any:
        """Goes on from here with phis; that of the question."""
        self._leave(self._forks[self._forks.index(fork) + 1:])
        recorder, now, varying = self.recorder, found.state, self.learnt.varying[fork.key]
        tensors = sorted(i for i in varying if type(i) is int)
        names = sorted(n for n in varying if type(n) is tuple)
        token = "met", self.learnt.number(fork.key)
        depth = recorder.loops.meet(token, fork.heads, fork.visits)
        element = self._element(fork, found, tensors, names, (token, depth))
        recorder.path.append(element)
        self._rename(fork, found, [now.tensors[i] for i in tensors], element, depth)
        for name, symbol in zip(names, element.symbols):
            value = now.symbols[name].value if name in now.symbols else now.plains[name]
            now.put(name, Number(symbol, value, recorder))
        self._origin, self._trail, self._read = token, (), len(recorder.path)
        del self._forks[self._forks.index(fork):]
        recorder.met(plan)
        return (element.symbols if type(found.subject) is ScalarExpr else element.phis)[-1]

    def _element(self, fork: _Fork, found: Plan, tensors: list[int], names: list[Name],
                 at: tuple[Any, int]) -> Merge:
        """What goes on, the question last."""
        (token, depth), recorder = at, self.recorder
        values, formulas = [found.nodes[i] for i in tensors], [found.numbers[n] for n in names]
        (formulas if type(found.subject) is ScalarExpr else values).append(found.subject)
        phis = recorder.names.phis(token, values)
        symbols = tuple(ScalarExpr("phi", ((token, i, depth),)) for i in range(len(formulas)))
        return Merge(fork.key, phis, tuple(values), symbols, tuple(formulas),
                     recorder.path[fork.start].site)

    def _rename(self, fork: _Fork, found: Plan, tensors: list[Any], element: Merge, depth: int
                ) -> None:
        """What the ways have made is forgotten, the phis take its places."""
        recorder = self.recorder
        varying = self.learnt.varying[fork.key]
        kept = {node for i, node in enumerate(found.nodes) if i not in varying} | fork.nodes
        recorder.forget_made(lambda n: n not in kept and not (
            n in recorder.common.outside or n.op == "const"))
        recorder._decided = set(fork.decided)
        for tensor, phi in zip(tensors, element.phis):
            tensor._data = tensor._data.view()  # an array of its own, known under the new name only
            recorder.learn(tensor._data, phi)
        if depth:
            recorder.loops.dependent.update(dict.fromkeys(element.phis, depth))


def _meeting(fork: _Fork, frames: list[Any], known: frozenset[int]) -> MergePoint | None:
    """What ways from a question to here have to agree in; None where they cannot meet here. All
    frames but the innermost have stood still."""
    before = fork.frames[-len(frames):]
    if len(before) != len(frames) or any(f is not g for f, (g, _) in zip(frames, before)) or \
            any(f.f_lasti != at for f, (_, at) in list(zip(frames, before))[1:]):
        return None
    frame, (_, start) = frames[0], before[0]
    if frame.f_code.co_flags & GENERATORS:
        return None
    found = merge_point(frame.f_code, start, frame.f_lasti, known)
    if found is None or (found.counters and not is_plain_range(frame)):
        return None
    return found if all(type(frame.f_locals.get(name)) is int for name in found.counters) else None


def _formulas(structure: Any) -> Iterator[ScalarExpr]:
    """The formulas of numbers that lie in lists and the like."""
    stack = [structure]
    while stack:
        top = stack.pop()
        if type(top) is ScalarExpr:
            yield top
        elif type(top) in (tuple, frozenset):
            stack += top


class _Within:
    """What is made of phis that loops, and ways which met, have got since a question."""

    def __init__(self, recorder: Any, start: int) -> None:
        self.numbers = recorder.names.numbers
        self.phis: set[Any] = set()
        for element in recorder.path[start:]:
            if isinstance(element, (LoopEntry, Merge)):
                self.phis.update(element.phis, element.symbols)

    def made(self, found: Plan) -> set[Any]:
        """The tensors and numbers that are."""
        return {i for i, node in enumerate(found.nodes) if self.makes(node)} | {
            n for n, number in found.numbers.items() if self.makes(number)}

    def makes(self, subject: Any) -> bool:
        """Whether a node or a number depends on one."""
        stack, seen = [subject] if self.phis else [], {subject}
        while stack:
            top = stack.pop()
            if top in self.phis:
                return True
            new = [p for p in self._parts(top) if p not in seen]
            seen.update(new)
            stack += new
        return False

    def _parts(self, subject: Any) -> list[Any]:
        if type(subject) is ScalarExpr:
            return [*elements([subject]), *subject.parts]
        return [*subject.inputs, *([self.numbers[subject]] if subject in self.numbers else [])]
