"""Suspends a call at an exit, and resumes it when the gradients of its results arrive.

Between the two, a user may change the arguments and the state that the call has read. So the
suspended call captures every value that its backward blocks read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...eager.core.tensor import Tensor
from ...eager.errors import CodegenError
from ..autodiff.suspended_backward import SuspendedBackward
from ..graph.bind_sizes import bind_sizes
from ..graph.graph import Node
from ..graph.reference_interpreter import evaluate
from ..guards.gather_paths import compile_gather
from ..guards.guards import PathCodegen
from ..heap.access_path import Path
from ..heap.path_reader import PathReader
from ..runtime.warnings import warn
from ..scalars.scalar_expr import elements
from ..segments.segment import Segment
from ..trace.value_table import ValueTable
from .interpret import Activation, IterationState, path_of
from .ir import (
    BackEdge,
    Block,
    Branch,
    EndOfBackward,
    IfMerge,
    LoopBackward,
    Yield,
    walk,
)
from .visitor import Visitor


class Captures:
    """The values of a call that the blocks behind an exit read."""

    def __init__(self, root: Block, backward: SuspendedBackward, names: ValueTable, fn: Any
                 ) -> None:
        self._roots = [variant.root for variant in backward.variants]
        blocks = [at for variant_root in self._roots for at in walk(variant_root)]
        tokens = {at.element.token for at in blocks if isinstance(at, LoopBackward)}
        edges = [at for at in walk(root) if isinstance(at, BackEdge) and at.element.token in tokens]
        segments = [s for at in blocks for s in at.segments]
        in_loops = [s for at in edges for _, vjp in at.vjps.values() for s in vjp]
        self.registers = {n for s in segments for n in s.inputs.registers}
        self.registers.update(n for at in blocks for n in at.required)
        self.tensors = list(dict.fromkeys(
            n for s in (*segments, *in_loops) for n in s.inputs.tensors))
        numbers = [names.numbers[n] for s in (*segments, *in_loops) for n in s.inputs.numbers]
        formulas = [*numbers, *(f for at in blocks for f in getattr(at, "formulas", ()))]
        self.registers.update(elements(formulas))
        self.numbers = list(dict.fromkeys(
            part.args[0] for f in formulas for part in f.parts if part.op == "access_path"))
        self._gather = compile_gather([names.paths[n] for n in self.tensors], backward.paths,
                                      PathCodegen(fn, names.held))

    def covers(self, call: Activation) -> bool:
        """True if the blocks have a trace of the path that a call took."""
        return all(map(_Coverage(call).covers, self._roots))

    def suspend(self, call: Activation, backward: SuspendedBackward
                ) -> tuple[SuspendedCall, list[Any]]:
        """The suspended call, and the edges of the inputs that receive gradients."""
        tensors, outside = self._gather(call.args, call.kwargs)
        suspended = SuspendedCall(
            dict(zip(self.tensors, [t._data for t in tensors])),
            {path: call.read(path) for path in self.numbers}, call.sizes(), backward)
        registers = call.registers
        suspended.registers = {n: registers[n] for n in self.registers if n in registers}
        suspended.symbols, suspended.measured = call.symbols, call.measured
        suspended.iterations, suspended.outcomes = call.iterations, call.outcomes
        return suspended, [t.edge for t in outside]


class SuspendedCall(Activation):
    """An activation at an exit, with the captured tensors and numbers of its call."""

    def __init__(self, tensors: Mapping[Node, Any], numbers: Mapping[Path, Any],
                 sizes: Mapping[str, int], backward: SuspendedBackward) -> None:
        super().__init__((), {}, PathReader((), {}, None, {}), lambda read: sizes)
        self.tensors, self.numbers, self.backward = tensors, numbers, backward
        self.origins = {**self.origins, "access_path": numbers.__getitem__}

    def resume(self, root: Block, gradients: Mapping[Node, Any]) -> dict[int, Any]:
        """The gradients of inputs by number, by the blocks from `root` on. `gradients` are those of
        the results. The call can be resumed again."""
        call = self._copy(self.registers, self.symbols)
        call.registers.update(gradients)
        *_, end = path_of(root, call)
        assert isinstance(end, EndOfBackward)  # `covers` has found the whole path
        element = end.element
        return {i: call.registers[n] for i, n in zip(element.inputs, element.nodes)}

    def outcome(self, block: Branch) -> Any:
        """The outcome of the forward, so that both take the same path."""
        return self.outcomes[block.subject, block.kind]

    def at_iteration_end(self, state: IterationState) -> Activation:
        return self._copy(state.registers, state.symbols)

    def outputs(self, segment: Segment) -> list[Any]:
        arrays = [Tensor(self.tensors[n]) for n in segment.inputs.tensors]
        try:
            segment.compile()
        except CodegenError as error:
            warn(f"backward of {self.backward.location} runs op by op: {error.message}")
            operands = segment.operands(arrays, self.registers, self.origins)
            return evaluate(bind_sizes(segment.graph, self.sizes()), operands)
        return segment.run(arrays, self.registers, self.origins)

    def _copy(self, registers: Mapping[Node, Any], symbols: Mapping[Any, Any]) -> SuspendedCall:
        call = SuspendedCall(self.tensors, self.numbers, self.sizes(), self.backward)
        call.registers, call.symbols = dict(registers), dict(symbols)
        call.measured, call.iterations, call.outcomes = \
            self.measured, self.iterations, self.outcomes
        return call


class _Coverage(Visitor[Block | None]):
    """Follows the backward of a call without computing it."""

    def __init__(self, call: Activation) -> None:
        self.call = call

    def covers(self, root: Block) -> bool:
        """True if the backward of the call's path has a trace up to its end."""
        block: Block | None = root
        while block is not None:
            if isinstance(block, EndOfBackward):
                return True
            block = self.visit(block)
        return False

    def branch(self, block: Branch) -> Block | None:
        return block.outcomes.get(self.call.outcomes.get((block.subject, block.kind)))

    def if_merge(self, block: IfMerge) -> Block | None:
        return block.body

    def yield_values(self, block: Yield) -> Block | None:
        return block.target.continuation

    def loop_backward(self, block: LoopBackward) -> Block | None:
        """The successor, if the backward of each iteration has a trace for its gradients."""
        slots = tuple(sorted(i for i, _ in block.element.incoming))
        found = set[Any]()
        for state in reversed(self.call.iterations[block.element.token]):
            if slots not in state.back_edge.vjps:
                return None
            gradients = state.back_edge.vjps[slots][0].gradients
            slots = tuple(sorted(key[1] for key in gradients if key[0] == "slot"))
            found.update(key for key in gradients if key[0] != "slot")
        found.update(("slot", i) for i in slots)
        return block.body if found == set(block.element.results) else None
