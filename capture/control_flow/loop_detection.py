"""Loops of a recorded run: a decision that is visited again in an equal state closes a circle.

From the second visit on, what differs between turns is given a name of its own (a phi), and the
turn is recorded as a function of these; the third visit then leads back to where they got their
names, with the values that they have by now. What a turn has made belongs to it alone: arrays that
Python kept from an earlier one are forgotten, so that a use of them refuses the recording.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...eager.core.tape import Entry
from ...eager.core.tensor import Tensor
from ...eager.errors import CaptureError
from ..graph.graph import Node
from ..heap.code_tracker import followed
from ..scalars.scalar_expr import Constant, ScalarExpr, of_number
from ..scalars.symbolic_scalar import Number
from .frame_state import Name, Snapshot, location_of, may_come_again, user_frames
from .liveness import live
from .loop_gradients import (
    CarriedGrad,
    Iteration,
    Key,
    LoopBackwardEvent,
    LoopGradNode,
    end_iteration,
)

if TYPE_CHECKING:
    from .symbolic_range import Counted


class LoopEntry(NamedTuple):
    """The head of a loop: phis of tensors and of numbers, and what they begin with."""

    token: Any
    phis: tuple[Node, ...]
    values: tuple[Node, ...]
    symbols: tuple[ScalarExpr, ...]
    formulas: tuple[ScalarExpr, ...]
    site: str


class LoopRepeat(NamedTuple):
    """The way back to the head of a loop, with the values of the next turn."""

    token: Any
    values: tuple[Node, ...]
    formulas: tuple[ScalarExpr, ...]
    site: str


class RestartTrace(BaseException):
    """A loop changes more than was known when it began: all begins anew with what was learnt."""


class _Head:
    """A loop that is being recorded."""

    def __init__(self, loops: LoopDetector, enter: LoopEntry, place: Any, before: Snapshot,
                 variant: list[int], counters: list[Name], depth: int) -> None:
        self.loops = loops
        self.enter, self.place, self.depth = enter, place, depth
        self.before, self.variant, self.counters = before, variant, counters
        self.first_edges: dict[int, Any] = {}  # of what is carried, before the first turn
        self.turns: list[Iteration] = []
        self.circle: LoopGradNode | None = None
        self.entries = 0  # on the tape when the present turn began

    @property
    def recorder(self) -> Any:
        return self.loops.recorder


class LoopDetector:
    """Watches the decisions of one recorder."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.base: Any = None  # the frame that runs the user's function
        self.rolled_gradients = False
        self.live_only = False  # whether variables count only where they are read later
        self.turn = 0  # counts heads entered and jumps: what was made before belongs to before
        self.dependent: dict[Node, int] = {}  # nodes made of phis: of how deep a loop
        self._visits: dict[Any, Snapshot] = {}
        self._computed: set[tuple[int, int]] = set()  # where, since the last visit: frame, f_lasti
        self._heads: list[_Head] = []
        self._outside: tuple[Any, int] = (None, 0)  # around them: the last loop that was left for
        # good, and how many were
        self._iterators: dict[Any, Counted] = {}  # of `for`, by frame and place
        self._since: Any = None  # where ways have met in this turn
        self._position = 0  # elements of the path since the innermost head, the same in each turn

    # ---- what the recorder tells

    def made(self, node: Node) -> None:
        """A node was made by an op."""
        self.computed()
        if self._heads:
            numbers = self.recorder.names.numbers
            depth = max((self.depth_of(numbers.get(i, i)) for i in node.inputs), default=0)
            if depth:
                self.dependent[node] = depth

    def computed(self) -> None:
        """Something is computed now, by code of the user's."""
        if self._visits:
            frame: Any = sys._getframe(2)
            while frame is not None and not followed(frame.f_code):
                frame = frame.f_back
            if frame is not None:
                self._computed.add((id(frame), frame.f_lasti))

    def measured(self) -> None:
        """A size was measured: in the next turn it would be another one of the same name, so the
        loops around go on as code that was written out, turn by turn."""
        if self._heads:
            self._outside = self._heads[-1].enter.token, self._depth()
            self._heads.clear()
        self._visits.clear()
        self._position += 1

    def _depth(self) -> int:
        return self._outside[1] + len(self._heads)

    def step(self) -> None:
        """An element was added to the path."""
        self._position += 1

    def depth_of(self, subject: Node | ScalarExpr) -> int:
        """How deep the loop is on whose turns a node or a number depends; 0: on none."""
        if isinstance(subject, Node):
            return self.dependent.get(subject, 0)
        depth = 0
        for part in subject.parts:
            if part.op == "phi":
                depth = max(depth, part.args[0][-1])
            elif part.op == "element":
                depth = max(depth, self.dependent.get(part.args[0], 0))
        return depth

    def stale(self, number: Number) -> bool:
        """Whether a number was computed in an earlier turn from what has changed since."""
        return number.turn < self.turn and self.depth_of(number.formula) > 0

    def check(self, number: Number) -> None:
        """Refuses the run where a stale number is used."""
        if self.stale(number):
            self.recorder.refuse("a number that an earlier iteration of a loop computed is used")

    def end(self) -> None:
        """The run has ended: its frames and what they held are let go."""
        self.base = None
        self._iterators.clear()
        self._visits.clear()
        self._heads.clear()

    # ---- ways that meet

    def around(self) -> tuple[int, set[Any], dict[Any, Any]]:
        """How many loops stand around, their tokens, and the visits so far."""
        return len(self._heads), {h.enter.token for h in self._heads}, dict(self._visits)

    def has_in_first_iteration(self, start: int, visits: dict[Any, Any]) -> bool:
        """Whether a question stands in the first turn of the innermost loop: by where it is in the
        path, and what was visited before."""
        head = self._heads[-1]
        begun = [c.begun for c in self._iterators.values() if id(c) == head.place[0][-1]]
        return head.place in visits or any(at is not None and start >= at for at in begun)

    def meet(self, token: Any, heads: int, visits: dict[Any, Any]) -> int:
        """Ways meet that parted when so many loops stood around: the number of these."""
        del self._heads[heads:]
        self._visits, self._since, self._position = dict(visits), token, 0
        return self._depth()

    # ---- visits

    def visit(self, subject: Any, site: str) -> Any:
        """A decision is about to be noted: perhaps it is the head of a loop. What it asks of."""
        if self.base is None or self.recorder.refusal:
            return subject
        frames = user_frames(self.base)
        place = (tuple(map(id, frames)), location_of(frames))
        before = self._visits.get(place)
        head = next((h for h in reversed(self._heads) if h.place == place), None)
        if not may_come_again(frames, self.known_iterators(frames[0]) if frames else ()):
            return subject
        now = self.snapshot(frames)
        if head is not None:
            self._learn(head, now)
        if head is not None and self._fits(head, now):
            subject = self._jump(head, now, subject, site)
        elif before is not None and self._comes_again(place, before, now):
            subject = self._enter(place, before, now, subject, site)
        else:
            self._visits[place] = now
        self._computed.clear()
        return subject

    def snapshot(self, frames: list[Any], names: Sequence[Collection[str] | None] = ()
                 ) -> Snapshot:
        """The state of these frames, and of what the run has changed; see `Snapshot`."""
        if self.live_only and not names:
            names = [live(f.f_code, f.f_lasti) for f in frames]
        state = self.recorder.state
        changes = ((path, state.values[path] if isinstance(state.values[path], Tensor) else
                    list(now.items()) if isinstance(now, dict) else list(now))
                   for path, _, now in state.changes())
        counted = [c for c in self._iterators.values() if c.frame in frames and c.is_open]
        return Snapshot(frames, changes, state.paths, self.stale, names, counted)

    # ---- iterators of `for`

    def known_iterators(self, frame: Any) -> frozenset[int]:
        """The instructions at which a frame takes from iterators whose state is known."""
        return frozenset(c.offset for c in self._iterators.values()
                         if c.frame is frame and c.is_open)

    def count(self, counted: Counted, site: str) -> Any:
        """A `for` asks whether there is another turn: what it asks of; None where there always is.
        """
        frames = user_frames(self.base)
        self._iterators[id(counted.frame), counted.offset] = counted
        place = (*map(id, frames), id(counted)), location_of(frames)
        now = self.snapshot(frames)
        head = next((h for h in self._heads if h.place == place), None)
        if head is None and place[1] in self.recorder.names.apart and counted.begun is None:
            counted.begun = len(self.recorder.path)
            return None if counted.surely_begins else counted.question()[0]
        subject = counted.question()[0]
        subject = self._begin_counting(place, now, subject, site) if head is None else \
            self._count_on(head, now, subject, site)
        self._computed.clear()
        return subject

    def _begin_counting(self, place: Any, now: Snapshot, subject: Any, site: str) -> Any:
        own = next(name for name, c in now.counted.items() if id(c) == place[0][-1])
        self.recorder.names.carried.setdefault(place[1], set()).add(own)
        before = len(self._heads)
        if now.equal:
            subject = self._enter(place, now, now, subject, site)
        if len(self._heads) == before:
            self._tell_apart(place, "")
        return subject

    def _count_on(self, head: _Head, now: Snapshot, subject: Any, site: str) -> Any:
        carried = self.recorder.names.carried[head.place[1]]
        before = len(carried)
        self._learn(head, now)
        if self._fits(head, now):
            return self._jump(head, now, subject, site)
        if len(carried) > before:
            raise RestartTrace
        self._tell_apart(head.place, _grown(head.before, now))
        return subject

    def _tell_apart(self, place: Any, name: str) -> None:
        """What a turn leaves is not what it begins with: perhaps that of the first one is."""
        apart, carried = self.recorder.names.apart, self.recorder.names.carried
        if place[1] not in apart:
            apart.add(place[1])
            carried.pop(place[1], None)
            raise RestartTrace
        raise CaptureError(
            f"each iteration of this loop gives {f'`{name}`' if name else 'a value'} another "
            "type, and the number of iterations is known only when the model runs",
            "keep the dtype and shape of each variable that the loop changes, and write results "
            "into a tensor made before: y[t] = ... in place of a list")

    def _comes_again(self, place: Any, before: Snapshot, now: Snapshot) -> bool:
        """Whether two visits differ in tensors and numbers only, and code ran between them."""
        if not (before.equal and now.equal) or before.structure != now.structure:
            return False
        here = {frame: at for frame, (_, at) in zip(*place)}
        moved = any(here.get(frame, at) != at for frame, at in self._computed)
        return before.rebound(now) or moved

    def _learn(self, head: _Head, now: Snapshot) -> None:
        """What other turns than the first change is carried in the next run from the start."""
        if now.equal and head.before.structure == now.structure:
            known = self.recorder.names.carried.setdefault(head.place[1], set())
            known.update(_different(head.before, now), head.variant, head.counters, now.symbols)

    def _varying(self, place: Any, before: Snapshot, now: Snapshot) -> tuple[list[int], list[Name]]:
        """The tensors and the names of the numbers that change from turn to turn."""
        changed = _different(before, now)
        known = self.recorder.names.carried.get(place[1], set())
        tensors = [i for i, t in enumerate(now.tensors)
                   if i in changed or (i in known and not self._is_fixed(t))]
        return tensors, sorted([*(name for name in now.plains if name in changed | known),
                                *now.symbols])

    def _changed(self, tensor: Any) -> bool:
        path = self.recorder.state.paths[id(tensor)]
        return self.recorder.state.held[path][0] is not tensor._data

    def _enter(self, place: Any, before: Snapshot, now: Snapshot, subject: Any,
               site: str) -> Any:
        """Makes this visit the head of a loop, if what it would carry can be carried."""
        recorder, depth = self.recorder, self._depth() + 1
        variant, counters = self._varying(place, before, now)
        carried = [now.tensors[i] for i in variant]
        if (not carried and not counters) or any(map(self._is_fixed, carried)):
            self._visits[place] = now
            return subject
        outer = self._heads[-1].enter.token if self._heads else self._outside[0]
        token = (self._since or outer, self._position, depth)
        values, formulas = self._carried(now, variant, counters, subject)
        phis = recorder.names.phis(token, values)
        symbols = tuple(ScalarExpr("phi", ((token, i, depth),)) for i in range(len(formulas)))
        enter = LoopEntry(token, phis, values, symbols, formulas, site)
        head = _Head(self, enter, place, now, variant, counters, depth)
        self._heads.append(head)
        recorder.path.append(enter)
        return self._begin(head, now, subject)

    def _is_fixed(self, tensor: Tensor) -> bool:
        """Whether a tensor can have no other name: it carries gradients where they cannot be
        rolled up, or stands at a path, where it is what it was."""
        if tensor.edge is not None:
            nested = any(h.first_edges for h in self._heads)
            if nested or not self.recorder.names.rolls_gradients or not isinstance(tensor.edge,
                                                                                   Entry):
                return True
        return id(tensor) in self.recorder.state.paths and not self._changed(tensor)

    def _carried(self, now: Snapshot, variant: list[int], counters: list[Name],
                 subject: Any) -> tuple[tuple[Node, ...], tuple[ScalarExpr, ...]]:
        """The nodes and formulas of what goes round, the condition last."""
        values = [self.recorder.node_of(now.tensors[i]) for i in variant]
        formulas = [self._formula(now, name) for name in counters]
        (formulas if isinstance(subject, ScalarExpr) else values).append(subject)
        return tuple(values), tuple(formulas)

    def _fits(self, head: _Head, now: Snapshot) -> bool:
        """Whether the state is that of the head, but for its phis."""
        then = head.before
        if not now.equal or then.structure != now.structure:
            return False
        variant = set(head.variant)
        if any(a is not b for i, (a, b) in enumerate(zip(then.arrays, now.arrays))
               if i not in variant):
            return False
        counters = set(head.counters)
        if any(name not in counters for name in now.symbols):
            return False
        return all(_same(then.plains.get(name), value) for name, value in now.plains.items()
                   if name not in counters)

    def _jump(self, head: _Head, now: Snapshot, subject: Any, site: str) -> Any:
        values, formulas = self._carried(now, head.variant, head.counters, subject)
        if any(v.type != p.type for v, p in zip(values, head.enter.phis, strict=True)):
            self.recorder.refuse("a value carried by a loop changes its type in a later iteration")
            return subject
        jump = LoopRepeat(head.enter.token, values, formulas, site)
        self.recorder.path.append(jump)
        self._end_turn(head, jump, now)
        if self.recorder.refusal:  # the tape is right as it is: for turns that ended well
            return subject
        while self._heads[-1] is not head:
            self._heads.pop()
        return self._begin(head, now, subject)

    def _end_turn(self, head: _Head, jump: LoopRepeat, now: Snapshot) -> None:
        if head.circle is not None:
            ends = {k: Tensor(now.tensors[i]._data, now.tensors[i].edge)
                    for k, i in enumerate(head.variant) if now.tensors[i].edge is not None}
            turn = Iteration(jump, ends, head.circle, head.entries)
            if not end_iteration(self.recorder, turn):
                self.recorder.unrolls()
            head.turns.append(turn)

    def _mark(self, head: _Head, now: Snapshot) -> None:
        """Gives what a turn begins with its own place on the tape."""
        carried = {k: now.tensors[i] for k, i in enumerate(head.variant)
                   if now.tensors[i].edge is not None}
        if not carried:
            return
        if not head.turns:
            head.first_edges = {k: t.edge for k, t in carried.items()}
        self.rolled_gradients = True
        head.circle = LoopGradNode(head, tuple(head.turns), head.first_edges)
        head.entries = len(self.recorder.entries)
        for k, tensor in carried.items():
            tensor.edge = CarriedGrad(head.circle, k, tensor._data)

    def went_through(self, head: _Head, given: list[tuple[int, Node]],
                     found: dict[Key, Tensor], site: str) -> None:
        """The way back went through a loop: what came of it gets names."""
        recorder, token = self.recorder, head.enter.token
        phis = []
        for key, tensor in found.items():
            node = head.enter.phis[key[1]] if key[0] == "slot" else key[1]
            phi = recorder.names.phi((token, "back", tuple(given), key), node)
            self.dependent[phi] = head.depth
            recorder.learn(tensor._data, phi)
            phis.append(phi)
        recorder.path.append(LoopBackwardEvent(token, tuple(given), tuple(found), tuple(phis),
                                               site))
        self.step()

    def _formula(self, now: Snapshot, name: Name) -> ScalarExpr:
        number = now.symbols.get(name)
        if number is None:
            return of_number(now.plains[name])
        if self.stale(number):
            self.recorder.refuse(f"{name[1]} is a number of an earlier iteration of a loop")
        return number.formula

    def _begin(self, head: _Head, now: Snapshot, subject: Any) -> Any:
        """A turn begins: what earlier ones made is forgotten, the phis take their places. The
        phi of the condition."""
        recorder, enter = self.recorder, head.enter
        self.turn += 1
        recorder.forget(lambda x: self.depth_of(x) >= head.depth)
        self.dependent = {n: d for n, d in self.dependent.items() if d < head.depth}
        self.dependent.update(dict.fromkeys(enter.phis, head.depth))
        for i, phi in zip(head.variant, enter.phis):
            tensor = now.tensors[i]
            tensor._data = tensor._data.view()  # an array of its own, known under the new name only
            recorder.learn(tensor._data, phi)
        for name, symbol in zip(head.counters, enter.symbols):
            value = now.symbols[name].value if name in now.symbols else now.plains[name]
            now.put(name, Number(symbol, value, recorder))
        self._mark(head, now)
        head.before = self.snapshot(now.frames)
        self._visits.clear()
        self._since, self._position = None, 0
        return enter.symbols[-1] if isinstance(subject, ScalarExpr) else enter.phis[-1]


def _different(before: Snapshot, now: Snapshot) -> set[int | Name]:
    """The places of tensors, and the names of plain numbers, that are others than before."""
    found: set[int | Name] = {name for name, value in now.plains.items()
                              if not _same(before.plains.get(name), value)}
    return found.union(i for i, (a, b) in enumerate(zip(before.arrays, now.arrays)) if a is not b)


def _grown(before: Snapshot, now: Snapshot) -> str:
    """The local variable that holds something of another kind than before."""
    frames = len(now.frames)
    for one, two in zip(before.structure[:frames], now.structure[:frames]):
        for name, value in two:
            if (name, value) not in one:
                return str(name)
    return ""


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and Constant(a) == Constant(b)
