"""Merges the paths of a branch, so that the code behind the merge point is traced once.

A merge point is found as loops are: by the state of Python's frames. If the state of two paths
differs in tensors and numbers only, these become phis, and the rest of the function is traced as a
function of the phis. The first path guesses the merge point and the values that differ there. If
another path differs in more values, tracing starts anew with the facts learnt so far
(`MergeHints`). A path in another state goes on without a merge.
"""

from __future__ import annotations

import functools
from typing import Any, NoReturn

from ...eager.core.tensor import Tensor
from ..graph.graph import Node
from ..heap.loop_inversion import is_in_while
from ..heap.operand_stack import (
    ContainerPosition,
    container_iterators,
    container_positions,
    is_single_test,
    tells_symbols_apart,
)
from ..scalars.scalar_expr import ScalarExpr, of_number
from ..scalars.symbolic_scalar import SymbolicScalar
from .decision import Decision
from .frame_state import (
    IDENTITY,
    FrameState,
    MergeState,
    Name,
    is_identity,
    is_made,
    location_of,
    user_frames,
)
from .inner_phis import InnerPhis, formulas_in
from .liveness import MergePoint, live
from .loop_elements import LoopEntry, LoopRepeat
from .merge_gradients import (
    MergeGrad,
    MergeGradNode,
    PathTape,
    can_repeat,
    may_be_optional,
    newer_on_tape,
    path_tape,
    uneven_boundaries,
)
from .merge_table import Arrival, MergePlan, MergeTable, OpenBranch, modes_of
from .merges import Merge, MergedBranch, number_phis
from .possible_aliases import PossibleAliases
from .symbolic_range import PositionedIterator


class MergeFailed(BaseException):
    """Paths do not merge where they were expected to: tracing starts anew with more hints."""


MERGE_FAILED = "code tells apart the objects of paths that were merged; the next call is traced " \
    "without this merge"


_UNKNOWN: Any = object()


class BranchMerger:
    """Watches the decisions of one tracer for merge points."""

    def __init__(self, tracer: Any, merges: MergeTable, all_merge: bool) -> None:
        """`all_merge`: it is a failure if a path of a branch ends before the merge point."""
        self.tracer, self.hints, self.plans = tracer, merges.hints, merges.plans
        self._backwards = merges.backwards
        self._own_backwards: set[Any] = set()  # keys of those of this run
        self._all_merge = all_merge
        self.aliases: PossibleAliases = tracer.aliases
        self.aliases.in_use = self.hints.identities and not all_merge
        self._branches: list[OpenBranch] = []
        self._origin: Any = None  # the loop iteration or merge point that began last
        self._outcomes: tuple[Any, ...] = ()  # of decisions since then
        self._loop_numbers: dict[Any, int] = {}  # by token; depends on the path to the loop
        self._elements_read = 0  # of the path
        self._iterators: dict[tuple[int, int], PositionedIterator] = {}  # by frame and offset
        self._iterators_before = container_iterators()  # that existed before the run

    def visit(self, subject: Any) -> Any:
        """Merges paths here if they merge at this decision. Returns the subject of the decision:
        `subject`, or its phi."""
        self._read_path()
        frames = user_frames(self.tracer.loops.base)
        if not frames or not is_single_test(frames[0], subject.op):
            return subject
        iterators_of = functools.cache(self._iterators_of)  # one search for all branches
        for branch in reversed(self._branches):
            if (subject, "bool") not in branch.decided:
                subject = self._merge_here(branch, frames, subject, iterators_of)
        return subject

    def note_iterator(self, iterator: PositionedIterator) -> None:
        """Notes the iterator of a `for` that begins now."""
        self._iterators[id(iterator.frame), iterator.offset] = iterator

    def _iterators_of(self, frame: Any) -> list[PositionedIterator | ContainerPosition]:
        """The iterators of the `for` loops that a frame is in."""
        positioned = [i for i in self._iterators.values() if i.frame is frame and i.is_in_loop]
        return [*positioned, *container_positions(frame, self._iterators_before)]

    def note_decision(self) -> None:
        """Notes that a decision got its outcome: a branch begins."""
        tracer, loops = self.tracer, self.tracer.loops
        frames = user_frames(loops.base)
        self._read_path()
        key = self._origin, self._outcomes[:-1]
        plan = self.plans.get(key, _UNKNOWN)
        if not frames or plan is None or (plan is _UNKNOWN and key in self.hints.unmergeable):
            return
        decided = {k for k in tracer._decided if k != (tracer.path[-1].subject, "bool")}
        if plan is not _UNKNOWN:
            self._insert_split(key, len(tracer.path) - 1)
        self._branches.append(OpenBranch(
            key, [(f, f.f_lasti) for f in frames], len(tracer.path) - 1, decided,
            {node for _, node in tracer._nodes_by_id.values()},
            len(tracer.entries),
            {name for name, value in frames[0].f_locals.items()
             if self.aliases.may_be_input(value)}, self._made_objects(frames),
            *loops.around()))

    def _made_objects(self, frames: list[Any]) -> list[Any]:
        """The objects in local variables that the run has made and that may change."""
        owned = self.tracer.state.paths
        return [value for frame in frames for _, value in sorted(frame.f_locals.items())
                if is_made(value, owned)]

    def _insert_split(self, key: Any, start: int) -> None:
        self.tracer.insert_element(start, MergedBranch(key))
        self._elements_read += 1

    def end(self, whole: bool) -> None:
        """Ends the run, at the end of the function (`whole`) or before it. Raises MergeFailed if
        paths should have merged."""
        if self.aliases.observed_at_end():
            self.note_observed()
        self._read_path()
        self._close_unmerged(self._branches, whole)

    def leave_branches(self) -> None:
        """Lets the open branches end without a merge point: this path issues an ordered op."""
        self._read_path()
        self._close_unmerged(self._branches)
        self._branches.clear()

    def note_observed(self) -> NoReturn:
        """Code can tell whether a possible alias is an input: its branch cannot merge."""
        self.hints.unmergeable |= self.aliases.branches()
        self.hints.identities = None not in self.aliases.branches()
        raise MergeFailed

    def note_identity_test(self) -> None:
        """Code compares the identities of objects: variables name the same input on all paths.
        Raises MergeFailed if they do not."""
        self.hints.identities = self.aliases.in_use = False
        self.aliases.restore(user_frames(self.tracer.loops.base))
        if self.aliases.branches():
            raise MergeFailed

    def _close_unmerged(self, branches: list[OpenBranch], for_good: bool = True) -> None:
        """Closes branches without a merge point. Raises MergeFailed if their paths should have
        merged."""
        for branch in branches:
            plan = self.plans.setdefault(branch.key, None)
            if plan is not None and for_good and self._all_merge:
                self.hints.unmergeable.add(branch.key)
                raise MergeFailed

    def _fail(self, branch: OpenBranch, is_first: bool) -> None:
        """Goes on without a merge: this path does not fit the others, or cannot merge at all if it
        `is_first`. For export, raises MergeFailed. Later programs never merge this branch."""
        self.hints.unmergeable.add(branch.key)
        if self._all_merge:
            raise MergeFailed
        self._branches.remove(branch)
        if is_first:
            self.plans[branch.key] = None
            self.tracer.delete_element(branch.start - 1)
            self._elements_read -= 1
            for other in self._branches:
                other.start -= other.start >= branch.start

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
    def _merge_here(self, branch: OpenBranch, frames: list[Any], subject: Any,
                    iterators_of: Any) -> Any:
        location, plan = location_of(frames), self.plans.get(branch.key)
        moved = branch.moved_frame(frames) if plan is None or plan.location == location else None
        if moved is None:
            return subject
        iterators = iterators_of(frames[moved])
        tracked = self.tracer.loops.tracked_iterators(frames[moved]).union(
            i.offset for i in iterators)
        point = branch.merge_point(frames, moved, tracked)
        if point is None:
            return subject
        positions = [(i.offset, i.count, i.tensors) for i in iterators]
        arrival = self._state_at(location, frames, point, subject, [*branch.objects, *positions])
        is_first, on_tape = plan is None, self._newer_on_tape(branch, arrival)
        if plan is None:
            if not arrival.state.equal or on_tape is None \
                    or not self._may_carry_gradients(branch, arrival):
                return subject
            plan = self._first_arrival(branch, arrival, point, on_tape)
        inner_phis, varying = InnerPhis(self.tracer, branch.start), self.hints.varying[branch.key]
        differences = plan.differences(arrival.plan)
        if differences is not None and on_tape is not None:
            differences |= on_tape | _identities_of(varying | differences | on_tape, arrival)
        if not arrival.state.equal or differences is None or on_tape is None \
                or not self._may_vary(differences | varying, frames, point) \
                or any(map(inner_phis.reach, formulas_in(arrival.plan.structure))):
            self._fail(branch, is_first)
            return subject
        self._check_differences(branch, arrival.plan,
                                differences | inner_phis.reached_by(arrival.plan))
        tape = self._checked_tape(branch, arrival)
        if tape is None:
            self._fail(branch, is_first)
            return subject
        return self._merge(branch, arrival, plan, tape)

    def _first_arrival(self, branch: OpenBranch, arrival: Arrival, point: MergePoint,
                       on_tape: set[int]) -> MergePlan:
        """Makes this the merge point of a branch: the first path guesses which values differ."""
        state, plan = arrival
        self.plans[branch.key] = plan
        self._insert_split(branch.key, branch.start)
        branch.start += 1
        varying: set[Any] = {i for i, node in enumerate(plan.nodes)
                             if not self._existed_before(node, branch)}
        varying |= on_tape | self._assigned_tensors(arrival, branch, point)
        numbers: set[Any] = {(i, name) for i, name in plan.numbers
                             if i == point.frame and name in point.changed - point.counters}
        if not self._all_merge and self._may_vary(numbers, state.frames, point):
            varying |= numbers
        before = self.hints.at_line.get(plan.location, set())
        self.hints.varying[branch.key] = varying | (
            before & {*range(len(plan.nodes)), *plan.numbers})
        return plan

    def _assigned_tensors(self, arrival: Arrival, branch: OpenBranch, point: MergePoint
                          ) -> set[Any]:
        """The tensors of variables that a path may assign, and the identities that may differ."""
        state, plan = arrival
        names = [(point.frame, name) for name in point.changed]
        names += [(i, name) for i in range(point.frame) for name in state.locals[i]]
        assigned = [state.locals[i].get(name) for i, name in names]
        varying: set[Any] = {i for i, t in enumerate(state.tensors)
                             if any(t is value for value in assigned)
                             and not self._is_from_outside(t)}
        for key, name in [((0, IDENTITY + name), name) for i, name in names if i == 0]:
            was_input = bool(branch.inputs) if point.called else name in branch.inputs
            if key in state.named_tensors \
                    and state.tensors[state.named_tensors[key]].edge is None \
                    and (was_input or plan.numbers[key] != of_number(0)):
                varying |= {key, state.named_tensors[key]}
        return varying

    def _is_from_outside(self, tensor: Tensor) -> bool:
        """True for a tensor from outside that the run has not changed."""
        state = self.tracer.state
        path = state.paths.get(id(tensor))
        return path is not None and state.held[path][0] is tensor._data

    # ---- gradients
    def _newer_on_tape(self, branch: OpenBranch, arrival: Arrival) -> set[int] | None:
        """The tensors of a state whose tape begins behind the branch. None if their gradients
        cannot pass a merge."""
        tensors, tracer = arrival.state.tensors, self.tracer
        if all(t.edge is None for t in tensors):
            return set()
        if branch.loop_tokens or not can_repeat(tracer.path[branch.start:]):
            return None
        newer = newer_on_tape(tracer, branch.entries, tensors)
        return None if newer is None or self._tape(branch, [tensors[i] for i in newer]) is None \
            else newer

    def _may_carry_gradients(self, branch: OpenBranch, arrival: Arrival) -> bool:
        """True if no gradients pass the merge of this branch, or if they may. Those in a `while`
        go through its loop."""
        return all(t.edge is None for t in arrival.state.tensors) or (
            self.hints.gradients and branch.location not in self.hints.uneven
            and not any(is_in_while(code, at) for code, at in branch.location))

    def _tape(self, branch: OpenBranch, tensors: list[Tensor]) -> PathTape | None:
        return path_tape(self.tracer, branch.entries, tensors,
                         lambda node: self._existed_before(node, branch))

    def _checked_tape(self, branch: OpenBranch, arrival: Arrival) -> PathTape | None:
        """The tape from the branch to the tensors that vary; None if their gradients cannot pass
        the merge, or go to other values than on other paths."""
        plan, owned = self.plans[branch.key], self.tracer.state.paths
        tensors = [arrival.state.tensors[i]
                   for i in sorted(self._varying_tensors(branch, arrival.state))]
        if any(t.edge is not None and self._is_from_outside(t) for t in tensors):
            return None
        tape = self._tape(branch, [t for t in tensors
                                   if t.edge is not None and id(t) not in owned])
        assert plan is not None
        if plan is arrival.plan and tape is not None:
            plan.boundaries = tape.reached
        apart = None if tape is None else uneven_boundaries(tape, plan.boundaries)
        if tape is None or apart is None or (apart and self._all_merge) \
                or not all(may_be_optional(self.tracer, n) for n in apart):
            self.hints.uneven.add(branch.location)
            return None
        optional = self.hints.optional.get(branch.key, ())
        if new := apart.difference(optional):
            optional += tuple([n for n in self.tracer.names.paths if n in new])
            self.hints.optional[branch.key] = optional
            if plan is not arrival.plan:
                arrival.plan.boundaries = tape.reached
                self._begin_anew(branch.key, arrival.plan)
        return tape._replace(optional=optional)

    def _varying_tensors(self, branch: OpenBranch, state: FrameState) -> set[int]:
        return {state.named_tensors[n] if is_identity(n) else n
                for n in self.hints.varying[branch.key] if type(n) is int or is_identity(n)}

    def begin_backward(self, name: Any, outcomes: tuple[Any, ...]) -> Any:
        """Begins a backward through merged paths, the one with these outcomes. Returns the key of
        its branch."""
        self._read_path()
        key = self._origin, self._outcomes, "backward", name
        self._outcomes += outcomes
        return key

    def end_backward(self, key: Any, values: dict[Node, Node], formulas: tuple[ScalarExpr, ...]
                     ) -> tuple[dict[Node, Node], tuple[ScalarExpr, ...]]:
        """Merges the paths of a backward: the phis of `values`, the gradients of nodes, and of
        numbers. Raises MergeFailed if paths give gradients to different nodes."""
        nodes = self._backwards.setdefault(key, tuple(values))
        self._own_backwards.add(key)
        if values.keys() != set(nodes):
            self.hints.gradients = False
            raise MergeFailed
        token, loops = ("merge", self.hints.number(key)), self.tracer.loops
        gradients = tuple([values[n] for n in nodes])
        phis = self.tracer.names.phis(token, gradients)
        depth = loops.note_merge(token, *loops.around())
        symbols = number_phis(token, len(formulas), depth)
        self.tracer.path.append(Merge(key, phis, gradients, symbols, formulas, ""))
        self._origin, self._outcomes, self._elements_read = token, (), len(self.tracer.path)
        return dict(zip(nodes, phis)), symbols

    def _check_differences(self, branch: OpenBranch, arrival: MergePlan,
                           differing: set[Any]) -> None:
        """Adds values that differ to the hints. For export, raises MergeFailed if there are new
        ones. Otherwise the run continues as the first trace of another program."""
        varying = self.hints.varying[branch.key]
        if differing <= varying:
            return
        varying |= differing
        self.hints.at_line.setdefault(arrival.location, set()).update(varying)
        if self._all_merge:
            raise MergeFailed
        self._begin_anew(branch.key, arrival)

    def _begin_anew(self, key: Any, plan: MergePlan) -> None:
        """Makes this run the first trace of a new program, with this plan of a merge point."""
        self.tracer.merge_failed, self.plans[key] = True, plan
        for backward in self._backwards.keys() - self._own_backwards:
            del self._backwards[backward]

    def _state_at(self, location: Any, frames: list[Any], point: MergePoint, subject: Any,
                  objects: list[Any]) -> Arrival:
        tracer = self.tracer
        names = [live(f.f_code, f.f_lasti) for f in frames]
        moved = names[point.frame]
        if moved is not None:
            names[point.frame] = moved.union(point.counters)
        state = tracer.loops.snapshot(frames, names, MergeState, objects)
        # An object that only an earlier merge has seen may hold a value that is forgotten.
        state.equal = state.equal and not any(tracer.state.changed_fields()) \
            and all(map(tracer.can_name, state.tensors))
        numbers = {name: of_number(value) for name, value in state.plains.items()}
        numbers.update({name: number.formula for name, number in state.symbols.items()})
        kinds = {name: type(value) for name, value in state.plains.items()}
        kinds.update({name: type(number.value) for name, number in state.symbols.items()})
        nodes = [tracer.node_of(t) for t in state.tensors] if state.equal else []
        return Arrival(state, MergePlan(location, state.structure, nodes, numbers, kinds, subject,
                                         modes_of(tracer)))

    def _may_vary(self, changed: set[Any], frames: list[Any], point: MergePoint) -> bool:
        """True if the numbers among `changed` can become symbols."""
        names = [each for each in changed if type(each) is tuple and not is_identity(each)]
        return not names or (
            self.hints.numbers and self.tracer.names.symbolic_scalars
            and not any((point.frame, c) in names for c in point.counters)
            and not any(tells_symbols_apart(frames[i].f_code) for i, _ in names))

    def _existed_before(self, node: Node, branch: OpenBranch) -> bool:
        return node in branch.nodes or self.tracer.is_outside(node) or node.op == "const"

    # ---- behind the merge point
    def _merge(self, branch: OpenBranch, arrival: Arrival, plan: MergePlan,
               tape: PathTape) -> Any:
        """Continues from the merge point with phis. Returns the phi of the decision's subject."""
        self._close_unmerged(self._branches[self._branches.index(branch) + 1:])
        tracer, state, varying = self.tracer, arrival.state, self.hints.varying[branch.key]
        names = sorted(n for n in varying if type(n) is tuple)
        tensors = sorted(self._varying_tensors(branch, state))
        token = "merge", self.hints.number(branch.key)
        depth = tracer.loops.note_merge(token, branch.loop_tokens, branch.visits)
        element = self._merge_element(branch, arrival.plan, tensors, names, (token, depth))
        tracer.path.append(element)
        self._bind_numbers(state, dict(zip(names, element.symbols)), branch.key)
        phis = dict(zip([state.tensors[i] for i in tensors], element.phis))
        self._bind_phis(branch, arrival.plan, phis)
        if depth:
            tracer.loops.dependent.update(dict.fromkeys(element.phis, depth))
        self._bind_gradients(branch, tape, phis)
        self._origin, self._outcomes, self._elements_read = token, (), len(tracer.path)
        del self._branches[self._branches.index(branch):]
        tracer.on_merge(plan)
        return (element.symbols if type(arrival.plan.subject) is ScalarExpr else element.phis)[-1]

    def _merge_element(self, branch: OpenBranch, arrival: MergePlan, tensors: list[int],
                       names: list[Name], at: tuple[Any, int]) -> Merge:
        """The `Merge` of a merge point; the subject of the decision comes last."""
        (token, depth), tracer = at, self.tracer
        values, formulas = [arrival.nodes[i] for i in tensors], [arrival.numbers[n] for n in names]
        (formulas if type(arrival.subject) is ScalarExpr else values).append(arrival.subject)
        phis = tracer.names.phis(token, values)
        symbols = number_phis(token, len(formulas), depth)
        return Merge(branch.key, phis, tuple(values), symbols, tuple(formulas),
                     tracer.path[branch.start].site)

    def _bind_numbers(self, state: FrameState, symbols: dict[Name, ScalarExpr], key: Any) -> None:
        """Gives numbers and the identities of tensors their phis."""
        for name, symbol in symbols.items():
            value = state.symbols[name].value if name in state.symbols else state.plains[name]
            number = SymbolicScalar(symbol, value, self.tracer)
            if is_identity(name):
                state.replace_identity(name, number, key)
            else:
                state.replace_number(name, number)

    def _bind_phis(self, branch: OpenBranch, arrival: MergePlan, phis: dict[Tensor, Node]
                   ) -> None:
        """Forgets the values that the merged paths computed, and binds the phis in their places."""
        tracer = self.tracer
        varying = self.hints.varying[branch.key]
        live_nodes = {node for i, node in enumerate(arrival.nodes)
                      if i not in varying} | branch.nodes
        tracer.forget_branch_values(branch.key, lambda n: n not in live_nodes and not (
            tracer.is_outside(n) or n.op == "const"))
        tracer._decided = set(branch.decided)
        for tensor, phi in phis.items():
            tensor._data = tensor._data.view()  # an array of its own, known under the new name only
            tracer.bind(tensor._data, phi)

    def _bind_gradients(self, branch: OpenBranch, tape: PathTape, phis: dict[Tensor, Node]
                        ) -> None:
        """Gives the phis with gradients entries of their own on the tape."""
        if not tape.outputs:
            return
        tracer = self.tracer
        grad_node = MergeGradNode(tracer, self.hints.number(branch.key), branch.location,
                                  tracer.path[branch.start:-1], tape)
        carried = [t for t in phis if t.edge is not None and id(t) not in tracer.state.paths]
        for slot, tensor in enumerate(carried):
            edge = tensor.edge = MergeGrad(grad_node, slot, tensor._data)
            tracer.entries[id(edge)] = edge, phis[tensor]


def _identities_of(varying: set[Any], arrival: Arrival) -> set[Name]:
    """The identities of varying tensors that are inputs on this path: they vary, too."""
    return {name for name, i in arrival.state.named_tensors.items()
            if i in varying and arrival.plan.numbers[name] != of_number(0)}
