"""Plans the backward of replayed calls: gradient programs and the values saved for them.

During tracing, eager records a tape. Backward over a symbolic copy of this tape gives gradients as
nodes of the same graph. Forward values that they read become further outputs of the forward
program, or are recomputed (see partitioner.py). Each set of results that receives gradients gets
its own program when it first occurs.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

from ...eager.autograd.engine import gradients_between
from ...eager.autograd.function import ResultEntry
from ...eager.core.dispatch import evaluate
from ...eager.core.op import OPS
from ...eager.core.tape import Entry, extra_of, no_grad
from ...eager.core.tape import Leaf as TapeLeaf
from ...eager.core.tensor import Tensor
from ...eager.errors import CodegenError, FusewireError
from ...eager.fork_safety import held_while_forking
from ..control_flow.data_dependent_sizes import DataDependentSize
from ..control_flow.loop_elements import LoopEntry
from ..control_flow.loop_gradients import LoopBackwardEvent
from ..control_flow.merges import Merge
from ..graph.bind_sizes import bind_sizes, plain_sizes
from ..graph.graph import Node, topological
from ..graph.reference_interpreter import evaluate_node
from ..guards.gather_paths import compile_gather
from ..guards.guards import PathCodegen
from ..heap.access_path import Path
from ..heap.path_reader import PathReader
from ..runtime import profiling_spans
from ..runtime.compile_queue import ready
from ..runtime.specialization_cache import Specializations
from ..runtime.warnings import warn
from ..scalars.scalar_expr import compute
from ..segments.segment import Backend, Executable, cone, extract_graph, operand
from ..sizes.symbolic_dim import Dim
from ..trace.output_spec import OutputSpecBuilder
from ..trace.tracer import Tracer
from .autograd_node import CompiledBackward, SavedArrays
from .partition import Partition, Result, TapeSection
from .suspended_backward import SuspendedBackward, trace_backward
from .symbolic_tape import Bindings, Boundary, CutPoint, FreedTape, SymbolicTape, ordered

# One trace of a backward at a time: all plans of a function share its nodes.
_TRACING = held_while_forking(threading.Lock())


class BackwardVariant:
    """The backward program from some cut points of a segment to some of its boundaries."""

    def __init__(self, plan: BackwardPlan, segment: BackwardSegment, numbers: tuple[int, ...],
                 needed_boundaries: frozenset[int] | None) -> None:
        """needed_boundaries: the numbers of the boundaries that need gradients; None for all."""
        self.plan = plan
        points = [plan.tape.points[i] for i in numbers]
        self.passed = frozenset(ordered([p.entry for p in points], segment.below))
        self.graph, self._reads, self._boundary_numbers = plan.partition.backward(
            segment.number - 1, numbers, needed_boundaries, plan.inputs, plan.size_inputs)
        self._program: Executable | None = None
        self.refused = False

    def run(self, arrays: Sequence[Any], gradients: Sequence[Tensor]
            ) -> list[tuple[int, Tensor]] | None:
        """(number, gradient) of each needed boundary; None if the program cannot be compiled."""
        with profiling_spans.span("backward", "backward", self.plan.location):
            program = self._compiled()
            if program is None:
                return None
            saved = [arrays[i] for i in self._reads]
            results = program([*saved, *[g._data for g in gradients]])
        return [(i, Tensor(a)) for i, a in zip(self._boundary_numbers, results)]

    def _compiled(self) -> Executable | None:
        """The compiled program; None if it cannot be compiled."""
        if self.refused:
            return None
        try:
            program = self._program = ready(self._program or self.plan.backend(self.graph))
        except CodegenError as error:
            self.refused = True
            warn(f"backward of {self.plan.location} runs op by op: {error.message}")
            return None
        return program


class BackwardSegment:
    """The cut points of one depth, which do not depend on each other, and their boundaries."""

    def __init__(self, plan: BackwardPlan, number: int) -> None:
        tape = plan.tape
        self.plan, self.number = plan, number
        self.points = [p for p in tape.points if p.depth == number]
        self.under = [p for p in tape.points if p.depth < number]
        self.others = [s for s in tape.others if s.depth < number]
        self.fuses = not any(s.depth == number - 1 for s in tape.others if s.depth)
        self.boundaries: list[Any] = [*[p.entry for p in self.under], *tape.outside, *self.others]
        self.lower, self.entries = len(self.under), len(tape.entries)
        self._ends = set(self.boundaries)
        self._variants: Specializations[BackwardVariant] = Specializations("backward variants",
                                                                          _TRACING)

    def below(self, edge: Any) -> list[Any]:
        """The entries below an entry, up to the boundaries."""
        return [e for e in edge.edges if isinstance(e, Entry) and e not in self._ends]

    def variant(self, numbers: tuple[int, ...],
                needed_boundaries: frozenset[int] | None) -> BackwardVariant:
        """The backward program from the cut points of these numbers to the needed boundaries."""
        key = numbers, needed_boundaries
        return self._variants.get(key, lambda: self._trace_variant(*key))

    def _trace_variant(self, numbers: tuple[int, ...],
                       needed_boundaries: frozenset[int] | None) -> BackwardVariant:
        with self.plan.sizes.resumed(self.plan.size_record):
            return BackwardVariant(self.plan, self, numbers, needed_boundaries)

    def eagerly(self, node_of_call: CompiledBackward, numbers: Sequence[int],
                needed_boundaries: frozenset[int] | None,
                gradients: Sequence[Tensor], create_graph: bool) -> list[tuple[int, Tensor]]:
        """The gradients by an eager tape, rebuilt from the call's inputs."""
        points = [self.plan.tape.points[i] for i in numbers]
        entries = ordered([p.entry for p in points], self.below)
        nodes, values = self.plan.values(node_of_call.saved, entries)
        entry_of: dict[Any, Any] = dict(zip(self.boundaries, node_of_call.edges))
        for e, node in zip(entries, nodes):
            operands = tuple(values[n] if hasattr(x, "shape") else x
                             for x, n in zip(e.arrays, node.inputs))
            edges = tuple(entry_of.get(x) for x in e.edges)
            entry_of[e] = Entry(e.op, dict(node.params), operands, edges, values[node])
        boundary_numbers = range(len(self.boundaries)) if needed_boundaries is None \
            else sorted(needed_boundaries)
        by_boundary = gradients_between(
            [Tensor(entry_of[p.entry].out, entry_of[p.entry]) for p in points],
            gradients, node_of_call.edges[:len(self.boundaries)], create_graph)
        return [(i, g) for i in boundary_numbers if (g := by_boundary[i]) is not None]


class BackwardPlan:
    """The backward of a replayed call: its segments and the values saved for them."""

    def __init__(self, tracer: Tracer, outputs: OutputSpecBuilder, tape: SymbolicTape) -> None:
        self.names, self.sizes, self.tape = tracer.names, tracer.sizes, tape
        self.size_record = tracer.sizes.record  # its answers hold for all replays of the trace
        self.location = tracer.location
        self.backend: Backend
        self.live_in = [e.node for e in tracer.path if isinstance(e, DataDependentSize)]
        used = topological([n for e in tape.entries
                            for n in (*tape.nodes[e].inputs, tape.nodes[e])])
        self.live_in += _carried_values(tracer, used)
        on_tape = {tape.nodes[e] for e in tape.entries}
        self.live_in += [n for n in tracer.ordered if n in on_tape]  # they must not happen again
        self._is_sized = bool(tracer.sizes.values)
        top = max((p.depth for p in tape.points), default=0)
        self.segments = [BackwardSegment(self, n + 1) for n in range(top)]
        self.partition = Partition(
            self.names.nodes, self.sizes, outputs.nodes,
            [Result(Tensor(p.entry.out, p.entry), p.node) for p in tape.points],
            [TapeSection([p.number for p in segment.points], segment.boundaries)
             for segment in self.segments], self.live_in, tape.checkpointed)
        tape.checkpointed.clear()
        self.size_inputs = _size_inputs(tracer)
        used = list(dict.fromkeys([*used, *self.size_inputs]))
        self.size_inputs += self.live_in
        self.tensors = [n for n in used if n in self.names.paths]
        self.numbers = [n for n in used if n in self.names.numbers]
        self.inputs = [*self.tensors, *self.numbers]
        numbers = {p.entry: p.number for p in tape.points}
        self._numbers = [numbers.get(e) for e in tape.edges]
        self.is_plain = top == 1 and not (
            tape.others or tape.calls or any(p.is_watched for p in tape.points)
            or any(e is not None and n is None for e, n in zip(tape.edges, self._numbers)))

    def prepare(self, fn: Any, backend: Backend) -> None:
        """Sets the back end and compiles the reads of a call's inputs."""
        self.backend = backend
        self._gather = compile_gather([self.names.paths[n] for n in self.tensors],
                                      self.tape.paths, PathCodegen(fn, self.names.held))

    @property
    def saved(self) -> list[Node]:
        """The values that the forward saves."""
        return self.partition.saved

    # ---- a call

    @property
    def paths(self) -> list[Path]:
        """The access paths of the tensors from outside that need gradients."""
        return self.tape.paths

    def covers(self, call: Any) -> bool:
        """True: the backward is the same for all calls that end at its exit."""
        return True

    def begin(self, call: Any) -> tuple[list[Any], list[Any]]:
        """The saved input arrays, and the edges of the input tensors.

        They are read before the program runs: their references keep it from overwriting them.
        """
        tensors, outside = self._gather(call.args, call.kwargs)
        arrays = [t._data for t in tensors]
        arrays += [operand(compute(self.names.numbers[n], call.origins), n) for n in self.numbers]
        return arrays, [t.edge for t in outside]

    def save(self, begun: Any, nodes: Sequence[Node], arrays: Sequence[Any]) -> None:
        """Does nothing: `attach` takes the saved values."""

    def attach(self, inputs: tuple[list[Any], list[Any]], arrays: list[Any], results: list[Tensor],
               read: PathReader | None) -> None:
        """Attaches the results of a call to the tape.

        The last of the program's output `arrays` are the saved values.
        """
        saved, outside = inputs
        saved += arrays[len(arrays) - len(self.saved):]
        if self.is_plain:
            segment = self.segments[0]
            backward_node = CompiledBackward(
                segment.points[0].entry.op, segment, SavedArrays(saved), tuple(outside), None)
            for edge, tensor in zip(self._numbers, results):
                if edge is not None:
                    tensor.edge = ResultEntry(backward_node, edge, None)
        else:
            self._attach_general(SavedArrays(saved), Bindings(outside, arrays, results, read))

    def _attach_general(self, saved: SavedArrays, bindings: Bindings) -> None:
        """Attaches results for tapes with several segments, hooks, Functions or boundaries."""
        for edge, tensor in zip(self.tape.edges, bindings.tensors):
            if isinstance(edge, TapeLeaf):
                tensor.edge = TapeLeaf(tensor)
        points = self._points(saved, bindings)
        for edge, tensor in zip(self.tape.edges, bindings.tensors):
            if edge is not None and not isinstance(edge, TapeLeaf):
                tensor.edge = edge.find(bindings) if isinstance(edge, Boundary) else points[edge]

    def _points(self, saved: SavedArrays, bindings: Bindings) -> dict[Any, ResultEntry]:
        """The edge of each cut point in this call."""
        points: dict[Any, ResultEntry] = {}
        below: CompiledBackward | None = None
        for segment in self.segments:
            self._instantiate_functions(segment.number - 1, bindings, points)
            edges = [points[p.entry] for p in segment.under]
            edges += bindings.outside
            edges += [s.find(bindings) for s in segment.others]
            op = segment.points[0].entry.op
            below = CompiledBackward(op, segment, saved, tuple(edges), below)
            for p in segment.points:
                points[p.entry] = _part(below, p, bindings)
        self._instantiate_functions(len(self.segments), bindings, points)
        return points

    def _instantiate_functions(self, depth: int, bindings: Bindings,
                               points: dict[Any, ResultEntry]) -> None:
        """Creates the tape entries of the Functions that were called at this depth."""
        for number, (call, at, edges, saved_edges) in enumerate(self.tape.calls):
            if at == depth:
                joint = call.instantiate(
                    bindings, tuple(_edge_in_call(e, bindings, points) for e in edges),
                    [_edge_in_call(e, bindings, points) for e in saved_edges])
                for i, kind in enumerate(joint.result_types):
                    if kind is not None:
                        bindings.parts[number, i] = ResultEntry(joint, i, None)

    def values(self, saved: SavedArrays, entries: Sequence[Entry]
               ) -> tuple[Sequence[Node], dict[Node, Any]]:
        """The nodes of entries, and the values of their operands and results in a call.

        The values are recomputed from the call's inputs.
        """
        assert saved.arrays is not None
        inputs = [*self.inputs, *self.live_in]
        entry_nodes = [self.tape.nodes[e] for e in entries]
        graph = extract_graph(cone(entry_nodes, set(inputs)), entry_nodes, inputs)
        if self._is_sized:
            graph = bind_sizes(graph, _sizes(inputs, saved.arrays))
        values = dict(zip(graph.inputs, saved.arrays))
        with no_grad():
            for node in graph.nodes():
                if node not in values:
                    values[node] = _value(node, values)
        return graph.outputs, values


def _carried_values(tracer: Tracer, used: Sequence[Node]) -> list[Node]:
    """Those of the nodes that are phis of loops and merges: no other value stands for them."""
    phis = {n for e in tracer.path if isinstance(e, (LoopEntry, LoopBackwardEvent, Merge))
            for n in e.phis}
    return [n for n in used if n in phis]


def _size_inputs(tracer: Tracer) -> list[Node]:
    """Inputs whose shapes determine the symbolic sizes."""
    inputs, undetermined = [], set(tracer.sizes.values)
    for node in tracer.sources.values() if undetermined else ():
        if undetermined & plain_sizes(node):
            undetermined -= plain_sizes(node)
            inputs.append(node)
    return inputs


def _sizes(inputs: Sequence[Node], arrays: Sequence[Any]) -> dict[str, int]:
    """The symbolic sizes in a call with these arrays."""
    sizes = {}
    for node, array in zip(inputs, arrays):
        for n, size in zip(node.type.shape, array.shape):
            if type(n) is Dim and n.expr.name is not None:
                sizes[n.expr.name] = size
    return sizes


def _value(node: Node, values: dict[Node, Any]) -> Any:
    if node.op == "const":
        return evaluate_node(node, [])
    return evaluate(OPS[node.op], tuple(Tensor(values[i]) for i in node.inputs),
                    dict(node.params))._data


def _edge_in_call(edge: Any, bindings: Bindings, points: dict[Any, ResultEntry]) -> Any:
    """The edge of this call for an edge of the symbolic tape; other objects unchanged."""
    if isinstance(edge, Boundary):
        return edge.find(bindings)
    return points[edge] if isinstance(edge, Entry) else edge


def _part(backward_node: CompiledBackward, point: CutPoint, bindings: Bindings) -> ResultEntry:
    part = ResultEntry(backward_node, point.number, None)
    part.op = point.entry.op
    if point.is_watched:
        extra = extra_of(part)
        extra.hooks = {i: make(bindings.tensors, bindings.read)
                       for i, make in enumerate(point.hooks)}
        if point.retained is not None:
            extra.retained = weakref.ref(bindings.tensors[point.retained])
    return part


def find_backward(tracer: Tracer, outputs: OutputSpecBuilder
                  ) -> BackwardPlan | SuspendedBackward | None:
    """The backward of the results of a traced call; None if no result needs a gradient."""
    if all(t.edge is None for _, t in outputs.tensors):
        return None
    suspended = trace_backward(tracer, outputs)
    if suspended is not None:
        return suspended
    tape = SymbolicTape(tracer, outputs)
    tape.build()
    if tracer.refusal:
        return None
    if all(e is None or isinstance(e, FreedTape) for e in tape.edges):
        outputs.grad_edges = [None if e is None else e.end for e in tape.edges]
        return None
    try:
        return BackwardPlan(tracer, outputs, tape)
    except FusewireError as error:
        tracer.refuse(f"the backward of the result cannot be traced: {error.message}")
        return None
    finally:
        tape.forget()
