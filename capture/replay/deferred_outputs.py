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
from ..graph.graph import Node
from ..graph_breaks.subgraph import SubgraphTrace
from ..heap.access_path import Path
from ..lazy.lazy_array import LazyOp
from ..lazy.lazy_interpreter import LazyInterpreter
from ..lazy.op_signature import OpSignatures
from ..program.trace_exit import TraceExit
from ..runtime.compile_queue import making_code
from ..segments.segment import Segment
from ..trace.tracer import Tracer


class DeferredOutputs:
    """The lazy values of a traced call that Python has not read yet."""

    def __init__(self, recorder: Tracer) -> None:
        self._recorder: Tracer | None = recorder
        self._lazy_interpreter = LazyInterpreter(OpSignatures(), self._evaluated, lambda why: None,
                                          sys.maxsize,
                                          sites=False, small=LARGE)
        # Set at the end of the run:
        self._nodes: dict[LazyOp, Node] = {}
        self._results: list[Tensor] = []  # the tensors that it returns
        self._arrays: dict[Node, Any] = {}  # of the tensors that it has read
        self._edges: dict[Path, Any] = {}
        recorder.lazy = self._lazy_interpreter

    def _evaluated(self, steps: list[LazyOp], outputs: list[LazyOp]) -> list[Any]:
        """The arrays of `outputs`, computed op by op. The recorder maps them to their nodes."""
        values, recorder = SubgraphTrace(steps, outputs).values(), self._recorder
        if recorder is not None:  # the run has not ended
            recorder.lazy = None  # Python reads values
            for step, value in zip(outputs, values):
                recorder.resolve(step.array_reference(), value)
        return values

    def leave(self) -> None:
        """Ends the run: stores the values to compute and detaches from the recorder."""
        recorder = self._recorder
        if recorder is None:
            return
        nodes = {s: recorder.node_of_array(p)
                 for s, p in self._lazy_interpreter.live_uncomputed().items()}
        self._nodes = {step: node for step, node in nodes.items() if node is not None}
        self._results = recorder.results
        held = recorder.state.held
        self._arrays = {n: held[p][0] for p, n in recorder.sources.items() if p in held}
        self._edges = recorder.state.edges
        self._recorder = recorder.lazy = None

    def compute_by(self, leaf: TraceExit) -> None:
        """Computes the outputs by the code of an exit, if this repays its compilation."""
        stage = leaf.segment
        if stage is None or not self._nodes or self._lazy_interpreter.largest_uncomputed < LARGE \
                or not self._has_all_for(leaf, stage):
            return
        tape_inputs = None if leaf.backward is None else (
            self._arrays_of(leaf.backward.tensors),
            [self._edges[p] for p in leaf.backward.tape.paths])
        try:
            with making_code():
                code = stage.compile()
        except CodegenError:
            return  # the next call reports it
        arrays = code(self._arrays_of(stage.inputs.tensors))
        values = dict(zip(leaf.outputs, arrays))
        self._lazy_interpreter.set_values(
            {s: values[n] for s, n in self._nodes.items() if n in values})
        if leaf.backward is not None and tape_inputs is not None:
            leaf.backward.attach(tape_inputs, arrays, self._results, None)

    def _has_all_for(self, leaf: TraceExit, stage: Segment) -> bool:
        """True if the code of an exit needs only tensors that this run has read."""
        read_nodes, inputs = self._arrays.keys(), stage.inputs
        if inputs.numbers or inputs.registers or not read_nodes >= set(inputs.tensors):
            return False
        backward = leaf.backward
        return backward is None or (
            backward.is_plain and not backward.numbers and read_nodes >= set(backward.tensors)
            and self._edges.keys() >= set(backward.tape.paths)
            and not any(e.changes_tape for e in leaf.effects))

    def _arrays_of(self, nodes: Sequence[Node]) -> list[Any]:
        """The arrays of the nodes, as the run read them."""
        return [self._arrays[n] for n in nodes]

    def end(self) -> None:
        """Computes the remaining values op by op."""
        self._nodes, self._results, self._arrays, self._edges = {}, [], {}, {}
        self._lazy_interpreter.end()
