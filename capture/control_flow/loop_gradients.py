"""Gradients through rolled loops.

While a loop is recorded, what a turn begins with gets a place of its own on the tape, so that the
tape of each turn can be told apart. The way back goes through the turns last to first: each kind of
turn has a graph from the gradients of what it ended with to those of what it began with, and a
replay, which keeps what each turn began with, runs these over as many turns as there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...eager import interpreter
from ...eager.autograd.engine import gradients_between
from ...eager.core.op import OPS
from ...eager.core.tape import MODE, Entry
from ...eager.core.tensor import Tensor
from ...eager.ops.elementwise import pointwise
from ..graph.graph import Node
from ..graph.graph_builder import GraphBuilder, as_tensor, building, on_tape

Key = tuple[str, Any]  # whose gradient: ("slot", number) of what is carried, or ("from", node)


class IterationVjp(NamedTuple):
    """The way back through one kind of turn: from gradients `given` to `gradients` by key."""

    given: dict[int, Node]
    gradients: dict[Key, Node]


class LoopBackwardEvent(NamedTuple):
    """An element of a recorded path: the way back through all turns of a loop."""

    token: Any
    given: tuple[tuple[int, Node], ...]  # gradients of what the loop ended with, by slot
    results: tuple[Key, ...]
    phis: tuple[Node, ...]  # what stands for the results
    site: str


class Iteration:
    """One turn as it was run: the element that ended it, what it carried on, and its tape."""

    def __init__(self, jump: Any, ends: dict[int, Tensor], circle: LoopGradNode,
                 entries: int) -> None:
        self.jump, self.ends, self.circle, self.first = jump, ends, circle, entries
        self.stops: dict[Key, Any] = {}


class LoopGradNode(Entry):
    """All turns before the present one: collects the gradients of what that began with."""

    __slots__ = ("head", "markers", "turns")

    def __init__(self, head: Any, turns: tuple[Iteration, ...], first: dict[int, Any]) -> None:
        self.head, self.turns = head, turns
        self.markers: dict[int, CarriedGrad] = {}
        from_outside = {e: None for t in turns for k, e in t.stops.items() if k[0] == "from"}
        super().__init__(OPS["alias"], {}, (), (*first.values(), *from_outside), None)

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        recorder = self.head.recorder
        noted = recorder.noting
        if noted and MODE.enabled:
            recorder.unrolls()
        given = [(i, recorder.node_of(x)) for i, x in sorted(g.items())] if noted else []
        found = self._run_back(recorder, dict(g), noted)
        if noted:
            recorder.went_through(self.head, given, found)
        for key, gradient in found.items():
            edge = self._edge(key)
            if useful is None or edge in useful:
                before = sums.get(edge)
                sums[edge] = gradient if before is None else pointwise.add(before, gradient)

    def _edge(self, key: Key) -> Any:
        if key[0] == "slot":
            return self.head.first_edges[key[1]]
        return next(t.stops[key] for t in self.turns if key in t.stops)

    def _run_back(self, recorder: Any, carried: dict[int, Tensor], noted: bool
                  ) -> dict[Key, Tensor]:
        """The gradients of what the loop began with and of what it read, by key."""
        sums: dict[Key, Tensor] = {}
        before, interpreter.STATE.active = interpreter.STATE.active, None
        listening, recorder.listening = recorder.listening, False  # each turn has its own numbers
        try:
            for turn in reversed(self.turns):
                if noted:
                    iteration_vjp(recorder, turn, tuple(sorted(carried)))
                outputs = [turn.ends[i] for i in carried]
                found = gradients_between(outputs, list(carried.values()),
                                          list(turn.stops.values()), MODE.enabled)
                carried = {}
                for key, gradient in zip(turn.stops, found):
                    if gradient is not None and key[0] == "slot":
                        carried[key[1]] = gradient
                    elif gradient is not None:
                        sums[key] = pointwise.add(sums[key], gradient) if key in sums else gradient
        finally:
            interpreter.STATE.active, recorder.listening = before, listening
        return {("slot", i): Tensor(x._data.view(), x.edge) for i, x in sorted(carried.items())} | {
            k: Tensor(x._data.view(), x.edge) for k, x in sums.items()}


class CarriedGrad(Entry):
    """What a turn begins with: hands its gradient to the turns before."""

    __slots__ = ("number",)

    def __init__(self, circle: LoopGradNode, number: int, array: Any) -> None:
        super().__init__(circle.op, {}, (array,), (circle,), array)
        self.number = number

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        sums.setdefault(self.edges[0], {})[self.number] = g


def end_iteration(recorder: Any, turn: Iteration) -> bool:
    """Finds where the tape of a turn ends; False where it holds what has no graph."""
    serial = {i: n for n, i in enumerate(recorder.entries)}
    outside = set(map(id, recorder.state.edges.values()))
    for entry, place, edge in _through(recorder, turn, serial):
        if isinstance(edge, CarriedGrad):
            if edge.edges[0] is not turn.circle:
                return False
            turn.stops["slot", edge.number] = edge
        elif entry is None:  # carried on as it came from outside
            return False
        elif isinstance(edge, Entry) and id(edge) not in serial and id(edge) not in outside:
            return False  # of a Function, which no node stands for
        elif _is_stop(edge, turn, serial):
            node = recorder.entries[id(entry)][1].inputs[place]
            turn.stops["from", node] = edge
        elif type(edge) is not Entry:
            return False
    return True


def _is_stop(edge: Any, turn: Iteration, serial: dict[int, int]) -> bool:
    return not isinstance(edge, Entry) or serial.get(id(edge), -1) < turn.first


def _through(recorder: Any, turn: Iteration, serial: dict[int, int]
             ) -> Iterator[tuple[Any, int, Any]]:
    """(entry, number of its input, edge of that) for all edges of a turn; its ends have no entry
    that uses them, unless the turn made them."""
    seen: set[int] = set()
    stack: list[Any] = [(None, i, t.edge) for i, t in turn.ends.items()]
    while stack:
        user, place, edge = stack.pop()
        inside = type(edge) is Entry and not _is_stop(edge, turn, serial)
        if user is not None or not inside:
            yield user, place, edge
        if inside and id(edge) not in seen:
            seen.add(id(edge))
            stack += [(edge, k, e) for k, e in enumerate(edge.edges) if e is not None]


def iteration_vjp(recorder: Any, turn: Iteration, slots: tuple[int, ...]) -> IterationVjp:
    """The graph of the way back through a turn, from the gradients of these slots."""
    made: dict[Any, IterationVjp] = recorder.names.turned
    key = turn.jump, slots
    if key not in made:
        shadows = _shadows(recorder, turn)
        given = {i: recorder.names.phi((turn.jump.token, "gradient", i), turn.jump.values[i])
                 for i in slots}
        stops = {k: shadows[id(e)] for k, e in turn.stops.items()}
        outputs = [Tensor(as_tensor(turn.jump.values[i])._data, shadows[id(turn.ends[i].edge)])
                   for i in slots]
        with building(GraphBuilder(recorder.nodes)), recorder.sizes.recording(False):
            found = gradients_between(outputs, [as_tensor(n) for n in given.values()],
                                      list(stops.values()), False)
        made[key] = IterationVjp(given, {k: x._data.node for k, x in zip(stops, found)
                                         if x is not None})
    return made[key]


def _shadows(recorder: Any, turn: Iteration) -> dict[int, Any]:
    """By the id of an edge of a turn, the same on a tape of nodes."""
    found: dict[int, Any] = {id(e): Entry(OPS["alias"], {}, (), (), None)
                             for e in turn.stops.values()}
    stack: list[Any] = [t.edge for t in turn.ends.values()]
    while stack:
        edge = stack[-1]
        missing = [e for e in edge.edges if e is not None and id(e) not in found] \
            if id(edge) not in found else []
        if missing:
            stack += missing
            continue
        stack.pop()
        if id(edge) not in found:
            node = recorder.entries[id(edge)][1]
            operands = tuple(on_tape(x, n) for x, n in zip(edge.arrays, node.inputs))
            found[id(edge)] = Entry(edge.op, dict(node.params), operands, tuple(
                None if e is None else found[id(e)] for e in edge.edges), as_tensor(node)._data)
    return found
