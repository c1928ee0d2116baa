"""Merges the paths of a branch, so that the code behind the merge point is traced once.

A merge point is found as loops are: by the state of Python's frames. If the state of two paths
differs in tensors and numbers only, these become phis, and the rest of the function is traced as a
function of the phis. The first path guesses the merge point and the values that differ there. If
another path does not fit, tracing starts anew with the facts learnt so far (`MergeHints`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from ..graph.graph import Node
from ..scalars.scalar_expr import ScalarExpr, elements, of_number
from ..scalars.symbolic_scalar import SymbolicScalar
from .decision import Decision
from .frame_state import GENERATORS, FrameState, Name, location_of, user_frames
from .liveness import MergePoint, is_plain_range, live, merge_point
from .loop_detection import LoopEntry, LoopRepeat
from .operand_stack import is_single_test, tells_symbols_apart


class MergedBranch(NamedTuple):
    """An element of a path: a decision whose outcomes lead to one merge point."""

    key: Any
    site: str = ""


class Merge(NamedTuple):
    """An element of a path: the merge point, its phis of tensors and of numbers, and their values
    on this path."""

    key: Any
    phis: tuple[Node, ...]
    values: tuple[Node, ...]
    symbols: tuple[ScalarExpr, ...]
    formulas: tuple[ScalarExpr, ...]
    site: str


class MergeFailed(BaseException):
    """Paths do not merge where they were expected to: tracing starts anew with more hints."""


@dataclass
class MergeHints:
    """Facts about a function's branches, by their keys. They last from one attempt to the next."""

    numbers: bool = True  # Python numbers may differ at a merge point
    unmergeable: set[Any] = field(default_factory=set)  # branches whose paths never merge
    varying: dict[Any, set[Any]] = field(default_factory=dict)  # by branch: values that need a phi
    at_line: dict[Any, set[Any]] = field(default_factory=dict)  # by location, in earlier attempts
    keys: dict[Any, int] = field(default_factory=dict)

    def number(self, key: Any) -> int:
        return self.keys.setdefault(key, len(self.keys))


@dataclass
class MergePlan:
    """The state of the first path at its merge point."""

    location: Any
    state: FrameState
    nodes: list[Node]
    numbers: dict[Name, Any]
    subject: Any
    followed: bool = False  # a run has continued behind the merge point

    def differences(self, other: MergePlan) -> set[Any] | None:
        """The tensors and numbers that differ; None if anything else differs."""
        one, two = self.state, other.state
        if not two.equal or one.structure != two.structure or not _same_types(
                [*self.nodes, self.subject], [*other.nodes, other.subject]):
            return None
        if any(self.kind(name) is not other.kind(name) for name in self.numbers):
            return None
        differing: set[Any] = {i for i, (a, b) in enumerate(zip(self.nodes, other.nodes))
                               if a is not b}
        return differing.union(n for n, value in self.numbers.items() if value != other.numbers[n])

    def kind(self, name: Name) -> type:
        """The type of a number: int or float."""
        symbol = self.state.symbols.get(name)
        return type(self.state.plains[name] if symbol is None else symbol.value)


def _same_types(one: list[Any], two: list[Any]) -> bool:
    """True if nodes and formulas have the same types."""
    return len(one) == len(two) and all(
        type(a) is type(b) and (type(a) is ScalarExpr or a.type == b.type)
        for a, b in zip(one, two))


@dataclass
class _OpenBranch:
    """A branch whose merge point is awaited, and the state of the trace at the branch."""

    key: Any
    frames: list[tuple[Any, int]]
    start: int  # index in the path
    decided: set[Any]
    nodes: set[Node]
    loop_depth: int
    loop_tokens: set[Any]
    visits: dict[Any, Any]


_UNKNOWN: Any = object()


class BranchMerger:
    """Watches the decisions of one tracer for merge points."""

    def __init__(self, tracer: Any, hints: MergeHints,
                 plans: dict[Any, MergePlan | None]) -> None:
        self.tracer, self.hints = tracer, hints
        self.plans = plans  # by branch; None: its paths do not merge
        self._branches: list[_OpenBranch] = []
        self._origin: Any = None  # the loop iteration or merge point that began last
        self._outcomes: tuple[Any, ...] = ()  # of decisions since then
        self._loop_numbers: dict[Any, int] = {}  # by token; depends on the path to the loop
        self._elements_read = 0  # of the path

    def visit(self, subject: Any) -> Any:
        """Merges paths here if they merge at this decision. Returns the subject of the decision:
        `subject`, or its phi."""
        self._read_path()
        frames = user_frames(self.tracer.loops.base)
        if not frames or not is_single_test(frames[0], subject.op):
            return subject
        for branch in reversed(self._branches):
            if (subject, "bool") not in branch.decided:
                subject = self._merge_here(branch, frames, subject)
        return subject

    def note_decision(self) -> None:
        """Notes that a decision got its outcome: a branch begins."""
        tracer, loops = self.tracer, self.tracer.loops
        frames = user_frames(loops.base)
        self._read_path()
        key = self._origin, self._outcomes[:-1]
        plan = self.plans.get(key, _UNKNOWN)
        if not frames or plan is None or key in self.hints.unmergeable:
            return
        decided = {k for k in tracer._decided if k != (tracer.path[-1].subject, "bool")}
        if plan is not _UNKNOWN:
            self._insert_split(key, len(tracer.path) - 1)
        self._branches.append(_OpenBranch(
            key, [(f, f.f_lasti) for f in frames], len(tracer.path) - 1, decided,
            {node for _, node in tracer._nodes_by_id.values()}, *loops.around()))

    def _insert_split(self, key: Any, start: int) -> None:
        self.tracer.path.insert(start, MergedBranch(key))
        self._elements_read += 1

    def end(self, whole: bool) -> None:
        """Ends the run, at the end of the function (`whole`) or before it. Raises MergeFailed if
        paths should have merged."""
        self._read_path()
        self._close_unmerged(self._branches, whole)

    def _close_unmerged(self, branches: list[_OpenBranch], for_good: bool = True) -> None:
        """Closes branches without a merge point. Raises MergeFailed if their paths should have
        merged."""
        for branch in branches:
            if self.plans.setdefault(branch.key, None) is not None and for_good:
                self._fail(branch)

    def _fail(self, branch: _OpenBranch) -> NoReturn:
        self.hints.unmergeable.add(branch.key)
        raise MergeFailed

    def _read_path(self) -> None:
        """Reads the elements that were added to the path since the last call."""
        path = self.tracer.path
        for element in path[self._elements_read:]:
            if isinstance(element, (LoopEntry, LoopRepeat)):
                if isinstance(element, LoopEntry):
                    self._loop_numbers[element.token] = self.hints.number(
                        (self._origin, self._outcomes, element.token))
                self._origin, self._outcomes = self._loop_numbers[element.token], ()
                self._begin_iteration(element)
            elif isinstance(element, Decision):
                self._outcomes += (element.outcome,)
        self._elements_read = len(path)

    def _begin_iteration(self, element: LoopEntry | LoopRepeat) -> None:
        """Begins a loop iteration: branches of the iteration before cannot merge in it."""
        in_first_iteration = self.tracer.loops.has_in_first_iteration
        for branch in list(self._branches):
            inside = element.token in branch.loop_tokens if isinstance(element, LoopRepeat) else \
                in_first_iteration(branch.start, branch.visits)
            if inside:
                self._branches.remove(branch)
                self._close_unmerged([branch])

    # ---- merge points
    def _merge_here(self, branch: _OpenBranch, frames: list[Any], subject: Any) -> Any:
        location, plan = location_of(frames), self.plans.get(branch.key)
        tracked = self.tracer.loops.tracked_iterators(frames[0])
        point = _merge_point_at(branch, frames, tracked) \
            if plan is None or plan.location == location else None
        if point is None:
            return subject
        arrival = self._state_at(location, frames, point, subject)
        if plan is None and not (arrival.state.equal
                                 and all(t.edge is None for t in arrival.state.tensors)):
            return subject
        if plan is None:
            plan = self._first_arrival(branch, arrival, point)
        differences, inner_phis = plan.differences(arrival), _InnerPhis(self.tracer, branch.start)
        varying = self.hints.varying[branch.key]
        if differences is None or not self._may_vary(differences | varying, frames, point) \
                or any(map(inner_phis.reach, _formulas_in(arrival.state.structure))):
            self._fail(branch)
        self._check_differences(location, varying, differences | inner_phis.reached_by(arrival))
        return self._merge(branch, arrival, frames, plan)

    def _first_arrival(self, branch: _OpenBranch, arrival: MergePlan,
                       point: MergePoint) -> MergePlan:
        """Makes this the merge point of a branch: the first path guesses which values differ."""
        self.plans[branch.key] = arrival
        self._insert_split(branch.key, branch.start)
        branch.start += 1
        state = arrival.state
        new = {i for i, node in enumerate(arrival.nodes) if not self._existed_before(node, branch)}
        new |= {i for i, t in enumerate(state.tensors)
                if any(state.locals[0].get(name) is t for name in point.changed)}
        before = self.hints.at_line.get(arrival.location, set())
        self.hints.varying.setdefault(branch.key, set()).update(
            new, before & {*range(len(arrival.nodes)), *arrival.numbers})
        return arrival

    def _check_differences(self, location: Any, varying: set[Any], differing: set[Any]) -> None:
        """Raises MergeFailed if more values differ than the hints say."""
        if not differing <= varying:
            varying |= differing
            self.hints.at_line.setdefault(location, set()).update(varying)
            raise MergeFailed

    def _state_at(self, location: Any, frames: list[Any], point: MergePoint,
                  subject: Any) -> MergePlan:
        tracer = self.tracer
        names = [live(f.f_code, f.f_lasti) for f in frames]
        if names[0] is not None:
            names[0] = names[0].union(point.counters)
        state = tracer.loops.snapshot(frames, names)
        numbers: dict[Name, Any] = {name: of_number(value) for name, value in state.plains.items()}
        numbers.update({name: number.formula for name, number in state.symbols.items()})
        return MergePlan(location, state, [tracer.node_of(t) for t in state.tensors]
                         if state.equal else [],
                         numbers, subject)

    def _may_vary(self, changed: set[Any], frames: list[Any], point: MergePoint) -> bool:
        """True if the numbers among `changed` can become symbols."""
        names = [each for each in changed if type(each) is tuple]
        return not names or (
            self.hints.numbers and not any((0, c) in names for c in point.counters)
            and not any(tells_symbols_apart(frames[i].f_code) for i, _ in names))

    def _existed_before(self, node: Node, branch: _OpenBranch) -> bool:
        return node in branch.nodes or node in self.tracer.common.outside or node.op == "const"

    # ---- behind the merge point
    def _merge(self, branch: _OpenBranch, arrival: MergePlan, frames: list[Any],
               plan: MergePlan) -> Any:
        """Continues from the merge point with phis. Returns the phi of the decision's subject."""
        self._close_unmerged(self._branches[self._branches.index(branch) + 1:])
        tracer, state, varying = self.tracer, arrival.state, self.hints.varying[branch.key]
        tensors = sorted(i for i in varying if type(i) is int)
        names = sorted(n for n in varying if type(n) is tuple)
        token = "met", self.hints.number(branch.key)
        depth = tracer.loops.note_merge(token, branch.loop_depth, branch.visits)
        element = self._merge_element(branch, arrival, tensors, names, (token, depth))
        tracer.path.append(element)
        self._bind_phis(branch, arrival, [state.tensors[i] for i in tensors], element, depth)
        for name, symbol in zip(names, element.symbols):
            value = state.symbols[name].value if name in state.symbols else state.plains[name]
            state.replace_number(name, SymbolicScalar(symbol, value, tracer))
        self._origin, self._outcomes, self._elements_read = token, (), len(tracer.path)
        del self._branches[self._branches.index(branch):]
        tracer.on_merge(plan)
        return (element.symbols if type(arrival.subject) is ScalarExpr else element.phis)[-1]

    def _merge_element(self, branch: _OpenBranch, arrival: MergePlan, tensors: list[int],
                       names: list[Name], at: tuple[Any, int]) -> Merge:
        """The `Merge` of a merge point; the subject of the decision comes last."""
        (token, depth), tracer = at, self.tracer
        values, formulas = [arrival.nodes[i] for i in tensors], [arrival.numbers[n] for n in names]
        (formulas if type(arrival.subject) is ScalarExpr else values).append(arrival.subject)
        phis = tracer.names.phis(token, values)
        symbols = tuple(ScalarExpr("phi", ((token, i, depth),)) for i in range(len(formulas)))
        return Merge(branch.key, phis, tuple(values), symbols, tuple(formulas),
                     tracer.path[branch.start].site)

    def _bind_phis(self, branch: _OpenBranch, arrival: MergePlan, tensors: list[Any],
                   element: Merge, depth: int) -> None:
        """Forgets the values that the merged paths computed, and binds the phis in their places."""
        tracer = self.tracer
        varying = self.hints.varying[branch.key]
        live_nodes = {node for i, node in enumerate(arrival.nodes)
                      if i not in varying} | branch.nodes
        tracer.forget_branch_values(lambda n: n not in live_nodes and not (
            n in tracer.common.outside or n.op == "const"))
        tracer._decided = set(branch.decided)
        for tensor, phi in zip(tensors, element.phis):
            tensor._data = tensor._data.view()  # an array of its own, known under the new name only
            tracer.bind(tensor._data, phi)
        if depth:
            tracer.loops.dependent.update(dict.fromkeys(element.phis, depth))


def _merge_point_at(branch: _OpenBranch, frames: list[Any], tracked: frozenset[int]
                    ) -> MergePoint | None:
    """The state that paths from a branch to here must agree in; None if they cannot merge here.
    Only the innermost frame may have moved since the branch."""
    before = branch.frames[-len(frames):]
    if len(before) != len(frames) or any(f is not g for f, (g, _) in zip(frames, before)) or \
            any(f.f_lasti != at for f, (_, at) in list(zip(frames, before))[1:]):
        return None
    frame, (_, start) = frames[0], before[0]
    if frame.f_code.co_flags & GENERATORS:
        return None
    point = merge_point(frame.f_code, start, frame.f_lasti, tracked)
    if point is None or (point.counters and not is_plain_range(frame)):
        return None
    return point if all(type(frame.f_locals.get(name)) is int for name in point.counters) else None


def _formulas_in(structure: Any) -> Iterator[ScalarExpr]:
    """The formulas of numbers in lists and other containers."""
    stack = [structure]
    while stack:
        top = stack.pop()
        if type(top) is ScalarExpr:
            yield top
        elif type(top) in (tuple, frozenset):
            stack += top


class _InnerPhis:
    """Finds values that depend on phis of loops and merge points behind a branch."""

    def __init__(self, tracer: Any, start: int) -> None:
        self.numbers = tracer.names.numbers
        self.phis: set[Any] = set()
        for element in tracer.path[start:]:
            if isinstance(element, (LoopEntry, Merge)):
                self.phis.update(element.phis, element.symbols)

    def reached_by(self, plan: MergePlan) -> set[Any]:
        """The tensors and numbers of a plan that depend on such phis."""
        return {i for i, node in enumerate(plan.nodes) if self.reach(node)} | {
            n for n, number in plan.numbers.items() if self.reach(number)}

    def reach(self, subject: Any) -> bool:
        """True if a node or a number depends on such a phi."""
        stack, seen = [subject] if self.phis else [], {subject}
        while stack:
            value = stack.pop()
            if value in self.phis:
                return True
            operands = [p for p in self._parts(value) if p not in seen]
            seen.update(operands)
            stack += operands
        return False

    def _parts(self, subject: Any) -> list[Any]:
        if type(subject) is ScalarExpr:
            return [*elements([subject]), *subject.parts]
        return [*subject.inputs, *([self.numbers[subject]] if subject in self.numbers else [])]
