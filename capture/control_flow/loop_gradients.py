"""Computes gradients through rolled loops.

While a loop is traced, each carried tensor gets a tape entry of its own at the start of an
iteration, so that the tapes of iterations are separate. The backward pass visits the iterations
last to first. Each traced iteration has a graph (`IterationVjp`) from the gradients of the values
at its end to the gradients of the values at its start. A replay saves the values at the start of
every iteration and runs these graphs once per iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ...eager import interpreter
from ...eager.autograd.engine import gradients_between
from ...eager.core.op import OPS
from ...eager.core.tape import MODE, Entry
from ...eager.core.tensor import Tensor
from ...eager.ops.elementwise import pointwise
from ..graph.graph import Node
from ..graph.graph_builder import GraphBuilder, as_tensor, building, on_tape

Key = tuple[str, Any]  # ("slot", index of a carried tensor) or ("from", loop-invariant node)


class IterationVjp(NamedTuple):
    """The backward graph of one traced iteration: from the gradients `incoming`, by slot, to
    `gradients`, by key."""

    incoming: dict[int, Node]
    gradients: dict[Key, Node]


class LoopBackwardEvent(NamedTuple):
    """An element of a path: the backward pass through all iterations of a loop."""

    token: Any
    incoming: tuple[tuple[int, Node], ...]  # gradients of the final values, by slot
    results: tuple[Key, ...]
    phis: tuple[Node, ...]  # one for each result
    site: str


class Iteration:
    """One iteration of the traced run: its back edge, the tensors it carries on, and its tape.

    `boundaries` are the tape edges at which the tape of the iteration ends, by key.
    """

    def __init__(self, back_edge: Any, carried_on: dict[int, Tensor], grad_node: LoopGradNode,
                 entries: int) -> None:
        self.back_edge, self.carried_on, self.grad_node = back_edge, carried_on, grad_node
        self.first_entry = entries
        self.boundaries: dict[Key, Any] = {}


class LoopGradNode(Entry):
    """A tape entry for all iterations before the current one: collects the gradients of the tensors
    that the current one began with."""

    __slots__ = ("header", "iterations")

    def __init__(self, header: Any, iterations: tuple[Iteration, ...],
                 first_edges: dict[int, Any]) -> None:
        self.header, self.iterations = header, iterations
        from_outside = {e: None for t in iterations for k, e in t.boundaries.items()
                        if k[0] == "from"}
        super().__init__(OPS["alias"], {}, (), (*first_edges.values(), *from_outside), None)

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        tracer = self.header.tracer
        recording = tracer.is_recording
        if recording and MODE.enabled:
            tracer.request_unrolling()
        out_gradients = [(i, tracer.node_of(x))
                         for i, x in sorted(g.items())] if recording else []
        gradients = self._run_back(tracer, dict(g), recording)
        if recording:
            tracer.note_loop_gradient(self.header, out_gradients, gradients)
        pass_on([(self._edge(key), gradient) for key, gradient in gradients.items()], sums, useful)

    def _edge(self, key: Key) -> Any:
        if key[0] == "slot":
            return self.header.first_edges[key[1]]
        return next(t.boundaries[key] for t in self.iterations if key in t.boundaries)

    def _run_back(self, tracer: Any, carried: dict[int, Tensor], recording: bool
                  ) -> dict[Key, Tensor]:
        """The gradients of the initial values and of the loop-invariant values, by key."""
        sums: dict[Key, Tensor] = {}
        before, interpreter.STATE.active = interpreter.STATE.active, None
        listening, tracer.listening = tracer.listening, False  # numbers differ per iteration
        try:
            for iteration in reversed(self.iterations):
                if recording:
                    iteration_vjp(tracer, iteration, tuple(sorted(carried)))
                outputs = [iteration.carried_on[i] for i in carried]
                gradients = gradients_between(outputs, list(carried.values()),
                                              list(iteration.boundaries.values()), MODE.enabled)
                carried = {}
                for key, gradient in zip(iteration.boundaries, gradients):
                    if gradient is not None and key[0] == "slot":
                        carried[key[1]] = gradient
                    elif gradient is not None:
                        sums[key] = pointwise.add(sums[key], gradient) if key in sums else gradient
        finally:
            interpreter.STATE.active, tracer.listening = before, listening
        return {("slot", i): Tensor(x._data.view(), x.edge) for i, x in sorted(carried.items())} | {
            k: Tensor(x._data.view(), x.edge) for k, x in sums.items()}


def pass_on(gradients: Iterable[tuple[Any, Tensor]], sums: Any, useful: Any) -> None:
    """Adds gradients to the sums of their edges, if a backward needs these."""
    for edge, gradient in gradients:
        if useful is None or edge in useful:
            before = sums.get(edge)
            sums[edge] = gradient if before is None else pointwise.add(before, gradient)


class PhiGrad(Entry):
    """The tape entry of a phi: passes its gradient on to the entry of all phis of a loop or merge,
    which gets the gradients by `slot`."""

    __slots__ = ("slot",)

    def __init__(self, grad_node: Entry, slot: int, array: Any) -> None:
        super().__init__(grad_node.op, {}, (array,), (grad_node,), array)
        self.slot = slot

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        sums.setdefault(self.edges[0], {})[self.slot] = g


class CarriedGrad(PhiGrad):
    """A tape entry for a tensor that an iteration begins with: passes its gradient on to the
    iterations before."""

    __slots__ = ()


def end_iteration(tracer: Any, iteration: Iteration) -> bool:
    """Finds the boundaries of an iteration's tape. Returns False if the tape cannot become a
    graph."""
    serial = {i: n for n, i in enumerate(tracer.entries)}
    outside = set(map(id, tracer.state.edges.values()))
    for entry, position, edge in _edges_of(tracer, iteration, serial):
        if isinstance(edge, CarriedGrad):
            if edge.edges[0] is not iteration.grad_node:
                return False
            iteration.boundaries["slot", edge.slot] = edge
        elif entry is None:  # carried on unchanged from outside
            return False
        elif isinstance(edge, Entry) and id(edge) not in serial and id(edge) not in outside:
            return False  # of a Function, which has no node
        elif _is_boundary(edge, iteration, serial):
            node = tracer.entries[id(entry)][1].inputs[position]
            iteration.boundaries["from", node] = edge
        elif type(edge) is not Entry:
            return False
    return True


def _is_boundary(edge: Any, iteration: Iteration, serial: dict[int, int]) -> bool:
    return not isinstance(edge, Entry) or serial.get(id(edge), -1) < iteration.first_entry


def _edges_of(tracer: Any, iteration: Iteration, serial: dict[int, int]
              ) -> Iterator[tuple[Any, int, Any]]:
    """(entry, index of its input, edge of that input) for all edges of an iteration's tape. The
    edge of a carried tensor has no entry, unless an entry of the iteration reads it."""
    seen: set[int] = set()
    stack: list[Any] = [(None, i, t.edge) for i, t in iteration.carried_on.items()]
    while stack:
        user, position, edge = stack.pop()
        inside = type(edge) is Entry and not _is_boundary(edge, iteration, serial)
        if user is not None or not inside:
            yield user, position, edge
        if inside and id(edge) not in seen:
            seen.add(id(edge))
            stack += [(edge, k, e) for k, e in enumerate(edge.edges) if e is not None]


def iteration_vjp(tracer: Any, iteration: Iteration, slots: tuple[int, ...]) -> IterationVjp:
    """The backward graph of an iteration from the gradients of these slots."""
    vjps: dict[Any, IterationVjp] = tracer.names.iteration_vjps
    key = iteration.back_edge, slots
    if key not in vjps:
        node_tape = _node_tape(tracer, iteration)
        out_gradients = {i: tracer.names.phi((iteration.back_edge.token, "gradient", i),
                                             iteration.back_edge.values[i])
                         for i in slots}
        boundaries = {k: node_tape[id(e)] for k, e in iteration.boundaries.items()}
        outputs = [Tensor(as_tensor(iteration.back_edge.values[i])._data,
                          node_tape[id(iteration.carried_on[i].edge)])
                   for i in slots]
        builder = GraphBuilder(tracer.nodes)
        with building(builder), tracer.sizes.recording(False):
            in_gradients = gradients_between(outputs, [as_tensor(n)
                                                       for n in out_gradients.values()],
                                             list(boundaries.values()), False)
        if builder.ordered:  # each iteration needs a number of its own
            tracer.request_unrolling()
        vjps[key] = IterationVjp(out_gradients, {k: x._data.node
                                                 for k, x in zip(boundaries, in_gradients)
                                                 if x is not None})
    return vjps[key]


def _node_tape(tracer: Any, iteration: Iteration) -> dict[int, Any]:
    """A copy of an iteration's tape over nodes: the copies of edges by the ids of the edges."""
    entries: dict[int, Any] = {id(e): Entry(OPS["alias"], {}, (), (), None)
                               for e in iteration.boundaries.values()}
    stack: list[Any] = [t.edge for t in iteration.carried_on.values()]
    while stack:
        edge = stack[-1]
        missing = [e for e in edge.edges if e is not None and id(e) not in entries] \
            if id(edge) not in entries else []
        if missing:
            stack += missing
            continue
        stack.pop()
        if id(edge) not in entries:
            node = tracer.entries[id(edge)][1]
            operands = tuple(on_tape(x, n) for x, n in zip(edge.arrays, node.inputs))
            entries[id(edge)] = Entry(edge.op, dict(node.params), operands, tuple(
                None if e is None else entries[id(e)] for e in edge.edges), as_tensor(node)._data)
    return entries
