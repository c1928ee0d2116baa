"""Detects loops in a trace: a decision that is visited again in an equal state is a loop header.

At the second visit the values that differ between iterations become phis, and the iteration is
traced as a function of the phis. The third visit is the back edge: it gives the phis their next
values. Values of an iteration do not outlive it: arrays that Python holds from an earlier
iteration become stale, and their use refuses the trace.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...eager.core.tape import Entry
from ...eager.core.tensor import Tensor
from ...eager.errors import CaptureError
from ..graph.graph import Node
from ..heap.code_tracker import followed
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import SymbolicScalar, formula_of, plain_value
from .frame_state import (
    FrameState,
    Name,
    can_recur,
    header_of,
    is_identity,
    location_of,
    user_frames,
)
from .growing_list import GrowingLists
from .liveness import live
from .loop_elements import LoopEntry, LoopRepeat
from .loop_gradients import (
    CarriedGrad,
    Iteration,
    Key,
    LoopBackwardEvent,
    LoopGradNode,
    end_iteration,
)
from .state_differences import changed_variable, different, same_number
from .unrolled_loops import UnrolledLoops

if TYPE_CHECKING:
    from .symbolic_range import SymbolicIterator


class RestartTrace(BaseException):
    """A loop carries more than was known at its header: tracing starts anew with that knowledge."""


class _LoopHeader:
    """A loop that is being traced."""

    def __init__(self, loops: LoopDetector, entry: LoopEntry, location: Any, before: FrameState,
                 carried_tensors: list[int], carried_numbers: list[Name], depth: int) -> None:
        self.loops, self.tracer = loops, loops.tracer
        self.entry, self.location, self.depth = entry, location, depth
        self.before = before
        self.visits_before = loops.visits_before(location)
        self.carried_tensors, self.carried_numbers = carried_tensors, carried_numbers
        self.first_edges: dict[int, Any] = {}  # by slot: tape edges of the initial values
        self.iterations: list[Iteration] = []
        self.grad_node: LoopGradNode | None = None
        self.entries = 0  # tape entries when the current iteration began
        self.decided = loops.tracer.decided


class LoopDetector:
    """Watches the decisions of one tracer for loops."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.base: Any = None  # the frame that calls the user's function
        self.rolled_gradients = False
        self.live_only = True  # compare live variables only
        self.unrolled, self.lists = UnrolledLoops(), GrowingLists(tracer)
        self.iteration = 0  # counts loop entries and back edges; older values may be stale
        self._began: dict[int, int] = {}  # by depth: the count at the last iteration of a loop
        self.dependent: dict[Node, int] = {}  # depth of the loop whose phis a node depends on
        self._visits: dict[Any, FrameState] = {}
        self._computed_at: set[tuple[int, int]] = set()  # (frame id, f_lasti) since last visit
        self._open_loops: list[_LoopHeader] = []
        # The token of the last loop that is no longer rolled up, and the number of such loops.
        self._left_loop: tuple[Any, int] = (None, 0)
        self._iterators: dict[Any, SymbolicIterator] = {}  # of `for`, by frame and offset
        self._held: dict[int, SymbolicIterator] = {}  # all of them, so that no id is used twice
        self._merge_token: Any = None  # of the last merge point in this iteration
        self._elements_in_iteration = 0  # path elements since the innermost header

    # ---- events of the tracer

    def note_node(self, node: Node) -> None:
        """Notes the node of an op, and the loop that it depends on."""
        self.note_computation()
        if self._open_loops:
            numbers = self.tracer.names.numbers
            depth = max((self.depth_of(numbers.get(i, i)) for i in node.inputs), default=0)
            if depth:
                self.dependent[node] = depth

    def note_computation(self) -> None:
        """Notes the user's line that computes something now."""
        if self._visits:
            frame: Any = sys._getframe(2)
            while frame is not None and not followed(frame.f_code):
                frame = frame.f_back
            if frame is not None:
                self._computed_at.add((id(frame), frame.f_lasti))

    def unroll_open(self) -> None:
        """Unrolls the loops around this point, where a data-dependent size or an ordered op is
        made. In the next iteration the same node would stand for another size or call."""
        if self._open_loops:
            self._left_loop = self._open_loops[-1].entry.token, self._depth()
            self._open_loops.clear()
        self._visits.clear()
        self._elements_in_iteration += 1

    def _depth(self) -> int:
        return self._left_loop[1] + len(self._open_loops)

    def note_path_element(self) -> None:
        """Notes that an element was added to the path."""
        self._elements_in_iteration += 1

    def token(self, kind: str, deeper: int = 0) -> Any:
        """A token of the next path element, equal in all iterations of a loop; last its depth."""
        outer = self._open_loops[-1].entry.token if self._open_loops else self._left_loop[0]
        place = self._merge_token or outer, self._elements_in_iteration
        return (*place, kind, self._depth() + deeper)

    def depth_of(self, subject: Node | ScalarExpr) -> int:
        """The depth of the innermost loop that a node or a number depends on; 0 for none."""
        if isinstance(subject, Node):
            return self.dependent.get(subject, 0)
        depth = 0
        for part in subject.parts:
            if part.op == "phi":
                depth = max(depth, part.args[0][-1])
            elif part.op == "element":
                depth = max(depth, self.dependent.get(part.args[0], 0))
        return depth

    def is_stale(self, number: Any, subject: Node | ScalarExpr | None = None) -> bool:
        """True if a loop that a number, or its `subject`, depends on began another iteration."""
        return any(began > number.iteration and depth <= self.depth_of(subject or number.formula)
                   for depth, began in self._began.items())

    def refuse_stale(self, number: SymbolicScalar) -> None:
        """Refuses the run if a stale number is used."""
        if self.is_stale(number):
            self.tracer.refuse("a number computed in an earlier iteration of a loop is used")

    def note_shared_write(self) -> None:
        """Notes a write that changes a view or its base: from now on it matters which tensors are
        views of which. A loop that was found without this knowledge is traced again."""
        if not self.tracer.names.compares_views:
            self.tracer.names.compares_views = True
            if self._open_loops:
                self.tracer.can_retry = True
                self.tracer.refuse("a loop writes to a view; the next call is traced with this "
                                   "knowledge")

    def end(self) -> None:
        """Releases the frames and values of a run that has ended."""
        self.base = None
        self._iterators.clear()
        self._held.clear()
        self._visits.clear()
        self._open_loops.clear()

    # ---- merge points

    def around(self) -> tuple[set[Any], dict[Any, Any]]:
        """The tokens of the open loops, and the visits so far."""
        return {h.entry.token for h in self._open_loops}, dict(self._visits)

    def has_in_first_iteration(self, start: int, visits: dict[Any, Any]) -> bool:
        """True if a branch lies in the first iteration of the innermost loop: by its index in the
        path, and the visits before it."""
        header = self._open_loops[-1]
        begun = [c.peeled_at for c in self._iterators.values() if id(c) == header.location[0][-1]]
        return header.location in visits or any(at is not None and start >= at for at in begun)

    def note_merge(self, token: Any, around: set[Any], visits: dict[Any, Any]) -> int:
        """Notes a merge point of paths that branched in the loops with these tokens: no other loop
        continues behind it. Returns the loop depth."""
        self._open_loops = [h for h in self._open_loops if h.entry.token in around]
        self._visits, self._merge_token, self._elements_in_iteration = dict(visits), token, 0
        return self._depth()

    # ---- visits

    def visit(self, subject: Any, site: str) -> Any:
        """Checks if a decision is a loop header or a back edge. Returns the subject of the
        decision: `subject`, or its phi."""
        if self.base is None or self.tracer.refusal:
            return subject
        frames = user_frames(self.base)
        if not can_recur(frames, self.tracked_iterators(frames[0]) if frames else ()):
            return subject
        return self._visit((tuple(map(id, frames)), header_of(frames)), frames, subject, site)

    def visit_for(self, iterator: SymbolicIterator, site: str) -> Any:
        """`visit` for a `for` loop that asks for its next element."""
        subject = iterator.condition()[0]
        if self.base is None or self.tracer.refusal:
            return subject
        frames = user_frames(self.base)
        self.lists.visit(iterator, frames)
        return self._visit(self._tracked(iterator, frames), frames, subject, site)

    def _tracked(self, iterator: SymbolicIterator, frames: list[Any]) -> Any:
        """The location of a `for`, whose iterator is now part of the state that visits compare."""
        self._iterators[id(iterator.frame), iterator.offset] = iterator
        self._held[id(iterator)] = iterator
        return (*map(id, frames), id(iterator)), location_of(frames)

    def _visit(self, location: Any, frames: list[Any], subject: Any, site: str) -> Any:
        before = self._visits.get(location)
        header = next((h for h in reversed(self._open_loops) if h.location == location), None)
        state = self.snapshot(frames)
        if header is not None:
            self._learn_carried(header, state)
        if header is not None and self._fits_header(header, state):
            subject = self._repeat(header, state, subject, site)
        elif before is not None and self._is_loop(location, before, state):
            subject = self._enter_loop(location, before, state, subject, site)
        else:
            self.unrolled.note(before, state, site)
            self._visits[location] = state
        self._computed_at.clear()
        return subject

    def snapshot(self, frames: list[Any], names: Sequence[Collection[str] | None] = (),
                 kind: type[FrameState] = FrameState, objects: Sequence[Any] = ()) -> FrameState:
        """The state of these frames and of the objects that the run has changed."""
        if self.live_only and not names:
            names = [live(f.f_code, f.f_lasti) for f in frames]
        state = self.tracer.state
        iterators = [c for c in self._iterators.values() if c.frame in frames and c.is_in_loop]
        aliases = self.tracer.aliases
        return kind(frames, kind.changes(self.tracer), state.paths, self.is_stale, names, iterators,
                    aliases if aliases.in_use else None, objects,
                    kind is not FrameState or self.tracer.names.compares_views)

    # ---- iterators of `for`

    def tracked_iterators(self, frame: Any) -> frozenset[int]:
        """The instructions at which a frame reads iterators whose state is compared."""
        return frozenset(c.offset for c in self._iterators.values()
                         if c.frame is frame and c.is_in_loop)

    def count(self, iterator: SymbolicIterator, site: str) -> Any:
        """Enters or continues a `for` loop that asks for its next element. Returns the subject of
        its loop condition; None if there always is a first iteration."""
        frames = user_frames(self.base)
        location = self._tracked(iterator, frames)
        state = self.snapshot(frames)
        header = next((h for h in self._open_loops if h.location == location), None)
        if header is None and iterator.peeled_at is None \
                and location[1] in self.tracer.names.peeled_loops:
            iterator.peeled_at = len(self.tracer.path)
            return None if iterator.has_first_iteration else iterator.condition()[0]
        subject = iterator.condition()[0]
        subject = self._begin_counting(location, state, subject, site) if header is None else \
            self._continue_counting(header, state, subject, site)
        self._computed_at.clear()
        return subject

    def _begin_counting(self, location: Any, state: FrameState, subject: Any, site: str) -> Any:
        own = next(name for name, c in state.iterators.items() if id(c) == location[0][-1])
        self.tracer.names.carried.setdefault(location[1], set()).add(own)
        before = len(self._open_loops)
        if state.equal:
            subject = self._enter_loop(location, state, state, subject, site)
        if len(self._open_loops) == before:
            self._peel_first_iteration(location, "")
        return subject

    def _continue_counting(self, header: _LoopHeader, state: FrameState, subject: Any,
                           site: str) -> Any:
        carried = self.tracer.names.carried[header.location[1]]
        before = len(carried)
        self._learn_carried(header, state)
        if self._fits_header(header, state):
            return self._repeat(header, state, subject, site)
        if len(carried) > before:
            raise RestartTrace
        self._peel_first_iteration(header.location, changed_variable(header.before, state))
        return subject

    def _peel_first_iteration(self, location: Any, name: str) -> None:
        """Peels the first iteration, since an iteration ends in another state than it begins with.
        If it is peeled already, raises CaptureError."""
        apart, carried = self.tracer.names.peeled_loops, self.tracer.names.carried
        if location[1] not in apart:
            apart.add(location[1])
            carried.pop(location[1], None)
            raise RestartTrace
        raise CaptureError(
            f"each iteration of this loop leaves {f'`{name}`' if name else 'something'} of another "
            "kind, and the number of iterations is known only when the model runs",
            "give the variables of the loop one dtype and shape, and write results into a tensor "
            "made before the loop: y[t] = ... instead of a list")

    def visits_before(self, location: Any) -> dict[Any, FrameState]:
        """The visits before the first one of a location: those of the loops around it. None of
        their values depends on the loop that begins there."""
        locations = list(self._visits)
        end = locations.index(location) if location in self._visits else 0
        return {at: self._visits[at] for at in locations[:end]}

    def _is_loop(self, location: Any, before: FrameState, state: FrameState) -> bool:
        """True if two visits differ in tensors and numbers only, and code ran between them."""
        if not (before.equal and state.equal) or before.structure != state.structure:
            return False
        here = {frame: at for frame, (_, at) in zip(*location)}
        moved = any(here.get(frame, at) != at for frame, at in self._computed_at)
        asks_for_next = len(location[0]) > len(location[1])  # the id of an iterator of `for`
        return asks_for_next or before.rebound(state) or moved

    def _learn_carried(self, header: _LoopHeader, state: FrameState) -> None:
        """Notes what later iterations change: the next run carries it from the start."""
        if state.equal and header.before.structure == state.structure:
            carried = self.tracer.names.carried.setdefault(header.location[1], set())
            carried.update(different(header.before, state), header.carried_tensors,
                           header.carried_numbers, state.symbols)

    def _varying(self, location: Any, before: FrameState, state: FrameState
                 ) -> tuple[list[int], list[Name]]:
        """The tensors and the names of the numbers that change between iterations."""
        changed = different(before, state)
        carried = self.tracer.names.carried.get(location[1], set())
        tensors = [i for i, t in enumerate(state.tensors)
                   if i in changed or (i in carried and not self._is_fixed(t))]
        # A variable that named an input before the loop may name new tensors in all iterations.
        moving = {name for name in changed if not is_identity(name)} | carried
        return tensors, sorted([*(name for name in state.plains if name in moving),
                                *state.symbols])

    def _changed(self, tensor: Any) -> bool:
        path = self.tracer.state.paths[id(tensor)]
        return self.tracer.state.held[path][0] is not tensor._data

    def _enter_loop(self, location: Any, before: FrameState, state: FrameState, subject: Any,
                    site: str) -> Any:
        """Makes this visit a loop header if all changing values can be carried."""
        tracer, depth = self.tracer, self._depth() + 1
        carried_tensors, carried_numbers = self._varying(location, before, state)
        carried = [state.tensors[i] for i in carried_tensors]
        if (not carried and not carried_numbers) or any(map(self._is_fixed, carried)):
            self._visits[location] = state
            return subject
        token = self.token("loop", deeper=1)
        values, formulas = self._carried(state, carried_tensors, carried_numbers, subject)
        phis = tracer.names.phis(token, values)
        symbols = tuple(ScalarExpr("phi", ((token, i, depth),)) for i in range(len(formulas)))
        entry = LoopEntry(token, phis, values, symbols, formulas, site)
        header = _LoopHeader(self, entry, location, state, carried_tensors, carried_numbers, depth)
        self._open_loops.append(header)
        tracer.path.append(entry)
        return self._begin_iteration(header, state, subject)

    def _is_fixed(self, tensor: Tensor) -> bool:
        """True if a tensor cannot become a phi: its gradients cannot be rolled up, or it stands
        unchanged at an access path."""
        if tensor.edge is not None:
            nested = any(h.first_edges for h in self._open_loops)
            if nested or not self.tracer.names.rolls_gradients \
                    or not isinstance(tensor.edge, Entry):
                return True
        return id(tensor) in self.tracer.state.paths and not self._changed(tensor)

    def _carried(self, state: FrameState, carried_tensors: list[int], carried_numbers: list[Name],
                 subject: Any) -> tuple[tuple[Node, ...], tuple[ScalarExpr, ...]]:
        """The nodes and formulas that the loop carries; the condition comes last."""
        values = [self.tracer.node_of(state.tensors[i]) for i in carried_tensors]
        formulas = [self._formula(state, name) for name in carried_numbers]
        (formulas if isinstance(subject, ScalarExpr) else values).append(subject)
        return tuple(values), tuple(formulas)

    def _fits_header(self, header: _LoopHeader, state: FrameState) -> bool:
        """True if the state equals that of the header, except for the phis."""
        at_header = header.before
        if not state.equal or at_header.structure != state.structure:
            return False
        carried_tensors = set(header.carried_tensors)
        if any(a is not b for i, (a, b) in enumerate(zip(at_header.arrays, state.arrays))
               if i not in carried_tensors):
            return False
        carried_numbers = set(header.carried_numbers)
        if any(name not in carried_numbers for name in state.symbols):
            return False
        return all(same_number(at_header.plains.get(name), value)
                   for name, value in state.plains.items() if name not in carried_numbers)

    def _repeat(self, header: _LoopHeader, state: FrameState, subject: Any, site: str) -> Any:
        values, formulas = self._carried(state, header.carried_tensors, header.carried_numbers,
                                         subject)
        if any(v.type != p.type for v, p in zip(values, header.entry.phis, strict=True)):
            self.tracer.refuse("a value that a loop carries changes its type in an iteration")
            return subject
        self.tracer.check_sizes(header.entry.token)
        back_edge = LoopRepeat(header.entry.token, values, formulas, site)
        self.tracer.path.append(back_edge)
        self._end_iteration(header, back_edge, state)
        if self.tracer.refusal:  # the tape describes the iterations that have ended
            return subject
        while self._open_loops[-1] is not header:
            self._open_loops.pop()
        return self._begin_iteration(header, state, subject)

    def _end_iteration(self, header: _LoopHeader, back_edge: LoopRepeat, state: FrameState) -> None:
        if header.grad_node is not None:
            ends = {k: Tensor(state.tensors[i]._data, state.tensors[i].edge)
                    for k, i in enumerate(header.carried_tensors)
                    if state.tensors[i].edge is not None}
            iteration = Iteration(back_edge, ends, header.grad_node, header.entries)
            if not end_iteration(self.tracer, iteration):
                self.tracer.request_unrolling()
            header.iterations.append(iteration)

    def _mark_carried(self, header: _LoopHeader, state: FrameState) -> None:
        """Gives each carried tensor an entry of its own on the tape."""
        carried = {k: state.tensors[i] for k, i in enumerate(header.carried_tensors)
                   if state.tensors[i].edge is not None}
        if not carried:
            return
        if not header.iterations:
            header.first_edges = {k: t.edge for k, t in carried.items()}
        self.rolled_gradients = True
        header.grad_node = LoopGradNode(header, tuple(header.iterations), header.first_edges)
        header.entries = len(self.tracer.entries)
        for k, tensor in carried.items():
            tensor.edge = CarriedGrad(header.grad_node, k, tensor._data)

    def note_loop_gradient(self, header: _LoopHeader, out_gradients: list[tuple[int, Node]],
                           in_gradients: dict[Key, Tensor], site: str) -> None:
        """Makes phis for the gradients that came out of a backward pass through a loop."""
        tracer, token = self.tracer, header.entry.token
        phis = []
        for key, tensor in in_gradients.items():
            node = header.entry.phis[key[1]] if key[0] == "slot" else key[1]
            phi = tracer.names.phi((token, "back", tuple(out_gradients), key), node)
            self.dependent[phi] = header.depth
            tracer.bind(tensor._data, phi)
            phis.append(phi)
        tracer.path.append(LoopBackwardEvent(token, tuple(out_gradients), tuple(in_gradients),
                                             tuple(phis), site))
        self.note_path_element()

    def _formula(self, state: FrameState, name: Name) -> ScalarExpr:
        number = state.symbols.get(name)
        if number is None:
            return cast(ScalarExpr, formula_of(state.plains[name]))
        if self.is_stale(number):
            self.tracer.refuse(f"{name[1]} is a number of an earlier iteration of a loop")
        return number.formula

    def _begin_iteration(self, header: _LoopHeader, state: FrameState, subject: Any) -> Any:
        """Starts an iteration: values of earlier iterations become stale, phis replace them.
        Returns the phi of the loop condition."""
        tracer, entry = self.tracer, header.entry
        self.iteration += 1
        self._began[header.depth] = self.iteration
        tracer.forget(lambda x: self.depth_of(x) >= header.depth, header.decided)
        self.dependent.update(dict.fromkeys(entry.phis, header.depth))
        for i, phi in zip(header.carried_tensors, entry.phis):
            tensor = state.tensors[i]
            tensor._data = tensor._data.view()  # an array of its own, bound to the phi only
            tracer.bind(tensor._data, phi)
        for name, symbol in zip(header.carried_numbers, entry.symbols):
            value = plain_value(state.symbols.get(name, state.plains.get(name)))
            state.replace_number(name, SymbolicScalar(symbol, value, tracer))
        self._mark_carried(header, state)
        header.before = self.snapshot(state.frames)
        self._visits = dict(header.visits_before)
        self._merge_token, self._elements_in_iteration = None, 0
        return entry.symbols[-1] if isinstance(subject, ScalarExpr) else entry.phis[-1]
