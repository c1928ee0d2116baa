"""The way back of replayed results: programs of gradients, and what the forward keeps for them.

While the function was recorded, eager noted a tape. Our own way back, run over its shadow, gives
the gradients as nodes of the same graph. What those read of the forward becomes further outputs of
the forward program, or is computed again (`split.py`). A program goes back from just those results
that a gradient has come to; it is made when that first happens.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Sequence
from typing import Any

from ...eager.autograd.engine import gradients_between
from ...eager.autograd.function import Part
from ...eager.core.dispatch import evaluate, taped
from ...eager.core.op import OPS, Op
from ...eager.core.tape import Entry, extra_of, no_grad
from ...eager.core.tape import Leaf as TapeLeaf
from ...eager.core.tensor import Tensor
from ...eager.errors import CodegenError, FusewireError
from ...eager.fork_safety import held_while_forking
from ..control_flow.data_dependent_sizes import DataDependentSize
from ..control_flow.loop_detection import LoopEntry
from ..control_flow.loop_gradients import LoopBackwardEvent
from ..graph.bind_sizes import bind_sizes, plain_sizes
from ..graph.device_placement import devices_of
from ..graph.graph import Node, Nodes, topological
from ..graph.graph_builder import Builder, as_tensor, building
from ..graph.reference_interpreter import evaluate_node
from ..guards.gather import compile_gather
from ..guards.guards import PathCodegen
from ..heap.path_reader import Reader
from ..runtime import spans
from ..runtime.compile_queue import ready
from ..runtime.warnings import warn
from ..scalars.scalar_expr import Origins, compute
from ..segments.segment import Backend, Executable, cone, cut, operand
from ..sizes.symbolic_dim import Dim, Sizes
from ..trace.output_spec import Outputs
from ..trace.tracer import Tracer
from .autograd_node import CompiledBackward, Held
from .partitioner import opened, saved_values
from .symbolic_tape import Bindings, Boundary, CutPoint, FreedTape, SymbolicTape, ordered

_TRACING = held_while_forking(threading.Lock())  # one at a time: all runs share their nodes


class OnTape(Builder):
    """Makes nodes, and notes on the tape what was made of what: rules differentiate parts again."""

    def __init__(self, nodes: Nodes, sizes: Sizes) -> None:
        super().__init__(nodes)
        self.sizes = sizes

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        with self.sizes.listening(False):  # nodes are told apart by their formulas
            operands = self.operands(inputs)
        kind = op.result(*[n.type for n in operands], **params)
        with self.sizes.listening(False):
            out = as_tensor(self.nodes.make(op.name, operands, params, kind, self.site))
        return taped(op, inputs, params, out)


class BackwardVariant:
    """The way back from some points of a level: which gradients it gives, and its program."""

    def __init__(self, way: BackwardPlan, level: BackwardSegment, points: Sequence[CutPoint],
                 wanted: frozenset[int] | None, asks: bool) -> None:
        """wanted: the stops to find gradients for, all by default. asks: what is asked of sizes is
        a condition of the recording."""
        self.way = way
        self.passed = frozenset(ordered([p.entry for p in points], level.below))
        nodes = way.names.nodes
        places = devices_of([p.node for p in points])
        given = [nodes.input(f"g{p.number}", p.node.type, device)
                 for p, device in zip(points, places)]
        with building(OnTape(nodes, way.sizes)), way.sizes.listening(asks):
            found = gradients_between(
                [Tensor(p.entry.out, p.entry) for p in points], [as_tensor(n) for n in given],
                level.stops, False)
        made = [(i, g._data.node) for i, g in enumerate(found)
                if g is not None and (wanted is None or i in wanted)]
        self.places = [i for i, _ in made]
        self.gradients = opened(nodes, [node for _, node in made], way.opened)
        self.given = given
        self._program: Executable | None = None
        self.refused = False

    def prepare(self) -> None:
        """Chooses the inputs, once it is known what the forward keeps."""
        known = self.way.kept
        found = cone([*self.gradients, *self.way.telling], known)
        held = {n: i for i, n in enumerate(self.way.held)}
        inputs = [n for n in found if n in held]
        self._reads = [held[n] for n in inputs]
        self.graph = cut(found, self.gradients, [*inputs, *self.given])

    def run(self, arrays: Sequence[Any], gradients: Sequence[Tensor]
            ) -> list[tuple[int, Tensor]] | None:
        """(which stop, its gradient), or None where there is no code."""
        with spans.span("backward", "backward", self.way.place):
            program = self._compiled()
            if program is None:
                return None
            read = [arrays[i] for i in self._reads]
            made = program([*read, *[g._data for g in gradients]])
        return [(i, Tensor(a)) for i, a in zip(self.places, made)]

    def _compiled(self) -> Executable | None:
        """What runs it; None where there is no code."""
        if self.refused:
            return None
        try:
            program = self._program = ready(self._program or self.way.backend(self.graph))
        except CodegenError as error:
            self.refused = True
            warn(f"the backward of {self.way.place} runs op by op: {error.message}")
            return None
        return program


class BackwardSegment:
    """Points that do not depend on each other, and where the way back from them stops."""

    def __init__(self, way: BackwardPlan, number: int) -> None:
        shadow = way.shadow
        self.way, self.number = way, number
        self.points = [p for p in shadow.points if p.level == number]
        self.under = [p for p in shadow.points if p.level < number]
        self.others = [s for s in shadow.others if s.depth < number]
        self.fuses = not any(s.depth == number - 1 for s in shadow.others if s.depth)
        self.stops: list[Any] = [*[p.entry for p in self.under], *shadow.outside, *self.others]
        self.lower, self.entries = len(self.under), len(shadow.entries)
        self._ends = set(self.stops)
        self._variants: dict[Any, BackwardVariant] = {}

    def below(self, edge: Any) -> list[Any]:
        """The entries that an entry uses, up to the stops."""
        return [e for e in edge.edges if isinstance(e, Entry) and e not in self._ends]

    def variant(self, numbers: tuple[int, ...], wanted: frozenset[int] | None) -> BackwardVariant:
        """The way back from the points of these numbers to the stops that are wanted."""
        found = self._variants.get((numbers, wanted))
        if found is None:
            points = [self.way.shadow.points[i] for i in numbers]
            with _TRACING, self.way.sizes.resumed(self.way.noted):
                found = BackwardVariant(self.way, self, points, wanted, asks=False)
                found.prepare()
            self._variants[numbers, wanted] = found
        return found

    def first(self) -> BackwardVariant:
        """The way back from all points, of which the forward's program is to keep the values."""
        numbers = tuple(p.number for p in self.points)
        found = self._variants[numbers, None] = BackwardVariant(self.way, self, self.points, None,
                                                                True)
        return found

    def eagerly(self, back: CompiledBackward, numbers: Sequence[int], wanted: frozenset[int] | None,
                gradients: Sequence[Tensor], create_graph: bool) -> list[tuple[int, Tensor]]:
        """The gradients by the tape that eager would have noted, made from the call's inputs."""
        points = [self.way.shadow.points[i] for i in numbers]
        order = ordered([p.entry for p in points], self.below)
        nodes, values = self.way.values(back.held, order)
        new: dict[Any, Any] = dict(zip(self.stops, back.edges))
        for e, node in zip(order, nodes):
            operands = tuple(values[n] if hasattr(x, "shape") else x
                             for x, n in zip(e.arrays, node.inputs))
            new[e] = Entry(e.op, dict(node.params), operands, tuple(new.get(x) for x in e.edges),
                           values[node])
        places = range(len(self.stops)) if wanted is None else sorted(wanted)
        found = gradients_between([Tensor(new[p.entry].out, new[p.entry]) for p in points],
                                  gradients, back.edges[:len(self.stops)], create_graph)
        return [(i, g) for i in places if (g := found[i]) is not None]


class BackwardPlan:
    """How gradients go back through a replayed call."""

    def __init__(self, recorder: Tracer, outputs: Outputs, shadow: SymbolicTape) -> None:
        self.names, self.sizes, self.shadow = recorder.names, recorder.sizes, shadow
        self.noted = recorder.sizes.noted  # what the run asked of sizes: it holds for its replays
        self.place = recorder.place
        self.backend: Backend
        self.found = [e.node for e in recorder.path if isinstance(e, DataDependentSize)]
        self.found += _carried(recorder, shadow)
        self._is_sized = bool(recorder.sizes.values)
        self.opened: dict[Node, Node] = {n: n for n in self.found}
        self.kept: dict[Node, None] = {}
        top = max((p.level for p in shadow.points), default=0)
        self.levels = [BackwardSegment(self, n + 1) for n in range(top)]
        variants = [level.first() for level in self.levels]
        results = opened(self.names.nodes, outputs.nodes, self.opened)
        inside = opened(self.names.nodes, list(shadow.forgotten), self.opened)
        forgotten = dict(zip(inside, shadow.forgotten.values()))
        roots = [g for v in variants for g in v.gradients]
        demanded = read_in_backward(roots, {g for v in variants for g in v.given})
        values = saved_values(demanded, set(results), forgotten)
        self.kept = dict.fromkeys([*self.found, *values])
        shadow.forgotten.clear()
        used = topological([n for e in shadow.entries for n in (*shadow.nodes[e].inputs,
                                                                shadow.nodes[e])])
        self.telling = _telling(recorder)
        used = list(dict.fromkeys([*used, *self.telling]))
        self.telling += self.found
        self.tensors = [n for n in used if n in self.names.paths]
        self.numbers = [n for n in used if n in self.names.numbers]
        self.held = [*self.tensors, *self.numbers, *self.kept]
        for variant in variants:
            variant.prepare()
        numbers = {p.entry: p.number for p in shadow.points}
        self._numbers = [numbers.get(e) for e in shadow.edges]
        self.is_plain = top == 1 and not (
            shadow.others or shadow.calls or any(p.is_watched for p in shadow.points)
            or any(e is not None and n is None for e, n in zip(shadow.edges, self._numbers)))

    def prepare(self, fn: Any, backend: Backend) -> None:
        """Makes what finds the inputs of a call."""
        self.backend = backend
        self._gather = compile_gather([self.names.paths[n] for n in self.tensors],
                                      self.shadow.paths, PathCodegen(fn, self.names.held))

    # ---- a call

    def begin(self, args: Any, kwargs: Any, origins: Origins) -> tuple[list[Any], list[Any]]:
        """What is kept of the inputs, and the edges of tensors from outside: before the program
        runs, so that it does not write over what is needed again."""
        tensors, outside = self._gather(args, kwargs)
        arrays = [t._data for t in tensors]
        arrays += [operand(compute(self.names.numbers[n], origins), n) for n in self.numbers]
        return arrays, [t.edge for t in outside]

    def tie(self, begun: tuple[list[Any], list[Any]], arrays: list[Any], made: list[Tensor],
            read: Reader | None) -> None:
        """Gives the tensors that a call has made their places on the tape. The last of the
        program's `arrays` are what was kept."""
        held, outside = begun
        held += arrays[len(arrays) - len(self.kept):]
        if self.is_plain:
            level = self.levels[0]
            back = CompiledBackward(level.points[0].entry.op, level, Held(held), tuple(outside),
                                    None)
            for edge, tensor in zip(self._numbers, made):
                if edge is not None:
                    tensor.edge = Part(back, edge, None)
        else:
            self._tie(Held(held), Bindings(outside, arrays, made, read))

    def _tie(self, held: Held, links: Bindings) -> None:
        """The same for any tape."""
        for edge, tensor in zip(self.shadow.edges, links.tensors):
            if isinstance(edge, TapeLeaf):
                tensor.edge = TapeLeaf(tensor)
        points = self._points(held, links)
        for edge, tensor in zip(self.shadow.edges, links.tensors):
            if edge is not None and not isinstance(edge, TapeLeaf):
                tensor.edge = edge.find(links) if isinstance(edge, Boundary) else points[edge]

    def _points(self, held: Held, links: Bindings) -> dict[Any, Part]:
        """The edge of each point in this call."""
        points: dict[Any, Part] = {}
        below: CompiledBackward | None = None
        for level in self.levels:
            self._calls(level.number - 1, links, points)
            edges = [points[p.entry] for p in level.under]
            edges += links.outside
            edges += [s.find(links) for s in level.others]
            below = CompiledBackward(level.points[0].entry.op, level, held, tuple(edges), below)
            for p in level.points:
                points[p.entry] = _part(below, p, links)
        self._calls(len(self.levels), links, points)
        return points

    def _calls(self, depth: int, links: Bindings, points: dict[Any, Part]) -> None:
        """Makes the entries of the Functions that were called at this depth."""
        for number, (call, at, edges, places) in enumerate(self.shadow.calls):
            if at == depth:
                joint = call.made(links, tuple(_found(e, links, points) for e in edges),
                                  [_found(p, links, points) for p in places])
                for i, kind in enumerate(joint.made):
                    if kind is not None:
                        links.parts[number, i] = Part(joint, i, None)

    def values(self, held: Held, entries: Sequence[Entry]
               ) -> tuple[Sequence[Node], dict[Node, Any]]:
        """The nodes of entries, and the arrays of what they read and made in a call, computed
        again from its inputs."""
        assert held.arrays is not None
        inputs = [*self.tensors, *self.numbers, *self.found]
        wanted = [self.shadow.nodes[e] for e in entries]
        graph = cut(cone(wanted, set(inputs)), wanted, inputs)
        if self._is_sized:
            graph = bind_sizes(graph, _sizes(inputs, held.arrays))
        values = dict(zip(graph.inputs, held.arrays))
        with no_grad():
            for node in graph.nodes():
                if node not in values:
                    values[node] = _value(node, values)
        return graph.outputs, values


def _carried(recorder: Tracer, shadow: SymbolicTape) -> list[Node]:
    """What the tape reads of what loops carried."""
    phis = {n for e in recorder.path if isinstance(e, (LoopEntry, LoopBackwardEvent))
            for n in e.phis}
    return list(dict.fromkeys(n for e in shadow.entries
                              for n in (*shadow.nodes[e].inputs, shadow.nodes[e]) if n in phis))


def _telling(recorder: Tracer) -> list[Node]:
    """Inputs from whose shapes the sizes that vary can be told."""
    found, left = [], set(recorder.sizes.values)
    for node in recorder.sources.values() if left else ():
        if left & plain_sizes(node):
            left -= plain_sizes(node)
            found.append(node)
    return found


def _sizes(inputs: Sequence[Node], arrays: Sequence[Any]) -> dict[str, int]:
    """The sizes that vary, in a call with these arrays."""
    found = {}
    for node, array in zip(inputs, arrays):
        for n, size in zip(node.type.shape, array.shape):
            if type(n) is Dim and n.expr.name is not None:
                found[n.expr.name] = size
    return found


def _value(node: Node, values: dict[Node, Any]) -> Any:
    if node.op == "const":
        return evaluate_node(node, [])
    return evaluate(OPS[node.op], tuple(Tensor(values[i]) for i in node.inputs),
                    dict(node.params))._data


def _found(edge: Any, links: Bindings, points: dict[Any, Part]) -> Any:
    """The edge of this call for one of the shadow; anything else as it is."""
    if isinstance(edge, Boundary):
        return edge.find(links)
    return points[edge] if isinstance(edge, Entry) else edge


def _part(back: CompiledBackward, point: CutPoint, links: Bindings) -> Part:
    part = Part(back, point.number, None)
    part.op = point.entry.op
    if point.is_watched:
        extra = extra_of(part)
        extra.hooks = {i: make(links.tensors, links.read) for i, make in enumerate(point.hooks)}
        if point.retained is not None:
            extra.retained = weakref.ref(links.tensors[point.retained])
    return part


def read_in_backward(roots: Sequence[Node], given: Collection[Node]) -> list[Node]:
    """The values of the forward that gradients read or are, made from those `given`."""
    behind: set[Node] = set()
    demanded: dict[Node, None] = {}
    for node in topological(roots):
        if node in given or any(i in behind for i in node.inputs):
            behind.add(node)
            demanded.update(dict.fromkeys(i for i in node.inputs if i not in behind))
    demanded.update(dict.fromkeys(g for g in roots if g not in behind))
    return [n for n in demanded if n not in behind]


def find_backward(recorder: Tracer, outputs: Outputs) -> BackwardPlan | None:
    """How gradients go back from the results of a recorded run; None where they do not."""
    if all(t.edge is None for _, t in outputs.tensors):
        return None
    shadow = SymbolicTape(recorder, outputs)
    shadow.build()
    if recorder.refusal:
        return None
    if all(e is None or isinstance(e, FreedTape) for e in shadow.edges):
        outputs.ends = [None if e is None else e.end for e in shadow.edges]
        return None
    try:
        return BackwardPlan(recorder, outputs, shadow)
    except FusewireError as error:
        recorder.refuse(f"the backward of the result cannot be recorded: {error.message}")
        return None
    finally:
        shadow.forget()
