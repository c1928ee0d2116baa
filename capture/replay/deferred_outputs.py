"""Computes the deferred outputs of a traced call by the code compiled from its trace.

Ops on large arrays are deferred during tracing. To run them one by one would take code for each op,
memory for all intermediate arrays, and more time than the compiled program. Values that Python
reads during the trace are computed at once, op by op. Values that the compiled code does not return
are computed op by op at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ...eager.core.dispatch import LARGE
from ...eager.core.tensor import Tensor
from ...eager.errors import CodegenError
from ..autodiff.backward_plan import BackwardPlan
from ..cfg.trace_exit import TraceExit
from ..graph.graph import Node
from ..graph_breaks.subgraph import SubgraphTrace
from ..heap.access_path import Path
from ..lazy.lazy_array import LazyOp
from ..lazy.lazy_interpreter import LazyInterpreter
from ..lazy.op_signature import OpSignatures
from ..runtime.compile_queue import making_code
from ..segments.segment import Segment
from ..trace.tracer import Tracer


class DeferredOutputs:
    """The lazy values of a traced call that Python has not read yet."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer: Tracer | None = tracer
        self._lazy_interpreter = LazyInterpreter(OpSignatures(), self._evaluated, lambda why: None,
                                                 sys.maxsize, sites=False, small=LARGE)
        # Set at the end of the run:
        self._nodes: dict[LazyOp, Node] = {}
        self._results: list[Tensor] = []  # the tensors that it returns
        self._arrays: dict[Node, Any] = {}  # of the tensors that it has read
        self._edges: dict[Path, Any] = {}
        tracer.lazy = self._lazy_interpreter

    def _evaluated(self, steps: list[LazyOp], outputs: list[LazyOp]) -> list[Any]:
        """The arrays of `outputs`, computed op by op. The tracer maps them to their nodes."""
        values, tracer = SubgraphTrace(steps, outputs).values(), self._tracer
        if tracer is not None:  # the run has not ended
            tracer.lazy = None  # Python reads values
            for step, value in zip(outputs, values):
                tracer.resolve(step.array_reference(), value)
        return values

    def leave(self) -> None:
        """Ends the run: stores the values to compute and detaches from the tracer."""
        tracer = self._tracer
        if tracer is None:
            return
        nodes = {s: tracer.node_of_array(p)
                 for s, p in self._lazy_interpreter.live_uncomputed().items()}
        self._nodes = {step: node for step, node in nodes.items() if node is not None}
        self._results = tracer.results
        held = tracer.state.held
        self._arrays = {n: held[p][0] for p, n in tracer.sources.items() if p in held}
        self._edges = tracer.state.edges
        self._tracer = tracer.lazy = None

    def compute_by(self, trace_exit: TraceExit) -> None:
        """Computes the outputs by the code of an exit, if this repays its compilation."""
        segment = trace_exit.segment
        if segment is None or not self._nodes or self._lazy_interpreter.largest_uncomputed < LARGE \
                or not self._has_all_for(trace_exit, segment):
            return
        backward = trace_exit.backward
        tape_inputs = None if not isinstance(backward, BackwardPlan) else (
            self._arrays_of(backward.tensors), [self._edges[p] for p in backward.paths])
        try:
            with making_code():
                code = segment.compile()
        except CodegenError:
            return  # the next call reports it
        arrays = code(self._arrays_of(segment.inputs.tensors))
        values = dict(zip(trace_exit.outputs, arrays))
        self._lazy_interpreter.set_values(
            {s: values[n] for s, n in self._nodes.items() if n in values})
        if backward is not None and tape_inputs is not None:
            backward.attach(tape_inputs, arrays, self._results, None)

    def _has_all_for(self, trace_exit: TraceExit, segment: Segment) -> bool:
        """True if the code of an exit needs only tensors that this run has read."""
        read_nodes, inputs = self._arrays.keys(), segment.inputs
        if inputs.numbers or inputs.registers or not read_nodes >= set(inputs.tensors):
            return False
        backward = trace_exit.backward
        return backward is None or (
            isinstance(backward, BackwardPlan) and backward.is_plain and not backward.numbers
            and read_nodes >= set(backward.tensors)
            and self._edges.keys() >= set(backward.paths)
            and not any(e.changes_tape for e in trace_exit.effects))

    def _arrays_of(self, nodes: Sequence[Node]) -> list[Any]:
        """The arrays of the nodes, as the run read them."""
        return [self._arrays[n] for n in nodes]

    def end(self) -> None:
        """Computes the remaining values op by op."""
        self._nodes, self._results, self._arrays, self._edges = {}, [], {}, {}
        self._lazy_interpreter.end()
