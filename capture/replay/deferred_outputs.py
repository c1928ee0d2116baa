"""Computes the deferred results of a recorded call by the code compiled from it.

While a function is recorded, ops on large arrays wait: to run them one by one would need code for
each of them, memory for all between, and more time than the whole takes once it is compiled. What
Python asks for on the way is computed then, op by op, and so is what the code does not give.
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
from ..lazy.array import LazyOp
from ..lazy.interpreter import LazyInterpreter
from ..lazy.op_signature import OpSignatures
from ..program.trace_exit import TraceExit
from ..runtime.compile_queue import making_code
from ..segments.segment import Segment
from ..trace.tracer import Tracer


class DeferredOutputs:
    """The lazy values of a recorded call that Python has not read yet."""

    def __init__(self, recorder: Tracer) -> None:
        self._recorder: Tracer | None = recorder
        self._deferring = LazyInterpreter(OpSignatures(), self._evaluated, lambda why: None,
                                          sys.maxsize,
                                          sites=False, small=LARGE)
        # Once the run has ended:
        self._nodes: dict[LazyOp, Node] = {}
        self._results: list[Tensor] = []  # the tensors that leave it
        self._arrays: dict[Node, Any] = {}  # of the tensors that it read
        self._edges: dict[Path, Any] = {}
        recorder.lazy = self._deferring

    def _evaluated(self, steps: list[LazyOp], wanted: list[LazyOp]) -> list[Any]:
        """The arrays of `wanted`, op by op, each known to the recorder as what stood for it."""
        values, recorder = SubgraphTrace(steps, wanted).values(), self._recorder
        if recorder is not None:  # the run goes on
            recorder.lazy = None  # Python looks at values
            for step, value in zip(wanted, values):
                recorder.resolve(step.array_reference(), value)
        return values

    def leave(self) -> None:
        """The run has ended: notes what to compute, and leaves its recorder alone."""
        recorder = self._recorder
        if recorder is None:
            return
        found = {s: recorder.node_of_array(p) for s, p in self._deferring.live_uncomputed().items()}
        self._nodes = {step: node for step, node in found.items() if node is not None}
        self._results = recorder.results
        held = recorder.state.held
        self._arrays = {n: held[p][0] for p, n in recorder.sources.items() if p in held}
        self._edges = recorder.state.edges
        self._recorder = recorder.lazy = None

    def compute_by(self, leaf: TraceExit) -> None:
        """Has the code of a leaf compute what it gives, where that is worth making it now."""
        stage = leaf.segment
        if stage is None or not self._nodes or self._deferring.largest_uncomputed < LARGE \
                or not self._has_all_for(leaf, stage):
            return
        begun = None if leaf.backward is None else (
            self._of(leaf.backward.tensors), [self._edges[p] for p in leaf.backward.tape.paths])
        try:
            with making_code():
                code = stage.compile()
        except CodegenError:
            return  # the next call says so
        arrays = code(self._of(stage.inputs.tensors))
        values = dict(zip(leaf.outputs, arrays))
        self._deferring.set_values({s: values[n] for s, n in self._nodes.items() if n in values})
        if leaf.backward is not None and begun is not None:
            leaf.backward.attach(begun, arrays, self._results, None)

    def _has_all_for(self, leaf: TraceExit, stage: Segment) -> bool:
        """True if the code of an exit needs only tensors that this run has read."""
        known, given = self._arrays.keys(), stage.inputs
        if given.numbers or given.registers or not known >= set(given.tensors):
            return False
        way = leaf.backward
        return way is None or (
            way.is_plain and not way.numbers and known >= set(way.tensors)
            and self._edges.keys() >= set(way.tape.paths)
            and not any(e.changes_tape for e in leaf.effects))

    def _of(self, nodes: Sequence[Node]) -> list[Any]:
        """The arrays of the nodes, as the run read them."""
        return [self._arrays[n] for n in nodes]

    def end(self) -> None:
        """Computes what is left."""
        self._nodes, self._results, self._arrays, self._edges = {}, [], {}, {}
        self._deferring.end()
