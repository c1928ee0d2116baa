"""Suspends a call at an exit, and resumes it when the gradients of its results arrive.

Between the two, a user may change the arguments and the state that the call has read. So the
suspended call captures every value that its backward blocks read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...eager.core.tensor import Tensor
from ...eager.errors import CodegenError
from ..autodiff.suspended_backward import SuspendedBackward, add_masks
from ..graph.bind_sizes import bind_sizes
from ..graph.graph import Node
from ..graph.reference_interpreter import evaluate
from ..guards.gather_paths import compile_gather
from ..guards.guards import PathCodegen
from ..heap.access_path import Path
from ..heap.path_reader import MISSING, PathReader
from ..runtime.warnings import warn
from ..scalars.scalar_expr import ScalarExpr, elements
from ..segments.segment import Segment, cone
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
from .taped_call import TapedCall
from .visitor import Visitor


class Captures:
    """What the calls that end at an exit capture: the values that the blocks behind it read.

    It also holds the segments of these blocks as they are now: a path that is traced later changes
    them, and the captured values are those that the present ones read.
    """

    def __init__(self, root: Block, backward: SuspendedBackward, names: ValueTable, fn: Any
                 ) -> None:
        self.root, self.names, self.masks = root, names, _masks_of(root)
        self._roots = [variant.root for variant in backward.variants]
        blocks = [at for variant_root in self._roots for at in walk(variant_root)]
        tokens = {at.element.token for at in blocks if isinstance(at, LoopBackward)}
        self.segments = {at: at.segments for at in blocks}
        self.vjps = {at: dict(at.vjps) for at in walk(root)
                     if isinstance(at, BackEdge) and at.element.token in tokens}
        segments = [s for of in self.segments.values() for s in of]
        in_loops = [s for vjps in self.vjps.values() for _, vjp in vjps.values() for s in vjp]
        self.registers = {n for s in segments for n in s.inputs.registers}
        self.registers.update(n for at in blocks for n in at.required)
        self.tensors = list(dict.fromkeys(
            n for s in (*segments, *in_loops) for n in s.inputs.tensors))
        numbers = [names.numbers[n] for s in (*segments, *in_loops) for n in s.inputs.numbers]
        formulas = [*numbers, *(f for at in blocks for f in getattr(at, "formulas", ()))]
        self.registers.update(elements(formulas))
        self.numbers = _numbers_of(root, names)
        self._gather = compile_gather([names.paths[n] for n in self.tensors], backward.paths,
                                      PathCodegen(fn, names.held))

    def covers(self, call: Activation) -> bool:
        """True if the blocks have a trace of the path that a call took."""
        return all(map(_Coverage(call, self).covers, self._roots))

    def suspend(self, call: Activation, location: str) -> tuple[SuspendedCall, list[Any]]:
        """The suspended call, and the edges of the inputs that receive gradients."""
        tensors, outside = self._gather(call.args, call.kwargs)
        suspended = SuspendedCall(
            self, dict(zip(self.tensors, [t._data for t in tensors])),
            self._read_numbers(call), call.sizes(), location)
        suspended.save(call.registers, call.registers.values())
        suspended.symbols, suspended.measured = call.symbols, call.measured
        suspended.iterations, suspended.outcomes = call.iterations, call.outcomes
        suspended.sources, suspended.all_outcomes = call.sources, call.all_outcomes
        return suspended, [t.edge for t in outside]

    def _read_numbers(self, call: Activation) -> dict[Path, Any]:
        """The numbers at all access paths that this call has."""
        found = {}
        for path in self.numbers:
            with contextlib.suppress(*MISSING):  # of another path through the tree
                found[path] = call.read(path)
        return found


def _masks_of(root: Block) -> dict[Node, tuple[bool, ...]]:
    """Which inputs of a node have gradients, by all traces of a tree; () if they differ in that."""
    masks: dict[Node, tuple[bool, ...]] = {}
    for trace_exit in (e for at in walk(root) for e in at.exits):
        if isinstance(trace_exit.backward, SuspendedBackward):
            add_masks(masks, trace_exit.backward.masks)
    return masks


def _numbers_of(root: Block, names: ValueTable) -> list[Path]:
    """The access paths of the numbers that the blocks of a tree read."""
    blocks = list(walk(root))
    subjects = [at.subject for at in blocks if isinstance(at, Branch)]
    formulas = [f for at in blocks for f in (*getattr(at, "formulas", ()), *(
        f for e in at.exits for f in e.formulas))]
    formulas += [names.numbers[n] for n in cone([n for at in blocks for n in at.required])
                 if n in names.numbers]
    return list(dict.fromkeys(part.args[0] for f in (*formulas, *subjects)
                              if isinstance(f, ScalarExpr)
                              for part in f.parts if part.op == "access_path"))


class SuspendedCall(Activation):
    """An activation at an exit, with the captured tensors and numbers of its call."""

    def __init__(self, captures: Captures, tensors: Mapping[Node, Any],
                 numbers: Mapping[Path, Any], sizes: Mapping[str, int], location: str) -> None:
        super().__init__((), {}, PathReader((), {}, None, {}), lambda read: sizes)
        self.captures, self.tensors, self.numbers = captures, tensors, numbers
        self.location = location
        self.origins = {**self.origins, "access_path": numbers.__getitem__}

    def save(self, nodes: Iterable[Node], arrays: Iterable[Any]) -> None:
        """Puts those of the arrays in registers that the blocks read."""
        captured = self.captures.registers
        self.registers.update((n, array) for n, array in zip(nodes, arrays) if n in captured)

    def resume(self, root: Block, gradients: Mapping[Node, Any]) -> dict[int, Any]:
        """The gradients of inputs by number, by the blocks from `root` on. `gradients` are those of
        the results. The call can be resumed again."""
        call = self._copy(self.registers, self.symbols)
        call.registers.update(gradients)
        *_, end = path_of(root, call)
        assert isinstance(end, EndOfBackward)  # `covers` has found the whole path
        element = end.element
        return {i: call.registers[n]
                for i, n, present in zip(element.inputs, element.nodes, element.formulas)
                if call.value(present)}

    def again(self, nodes: Sequence[Node], edges: Mapping[Path, Any]) -> list[Tensor]:
        """The values of nodes at the exit, on a tape from the inputs that have these edges."""
        assert self.sources is not None
        names, masks = self.captures.names, self.captures.masks
        inputs = {n: Tensor(a, edges.get(names.paths[n])) for n, a in self.sources.items()}
        call = TapedCall(inputs, self.all_outcomes, names, masks, self.numbers.__getitem__,
                         self.sizes())
        for _ in path_of(self.captures.root, call):
            pass
        return call.tensors(nodes)

    def segments_of(self, block: Block) -> Sequence[Segment]:
        return self.captures.segments[block]

    def vjps_of(self, block: BackEdge) -> Mapping[tuple[int, ...], Any]:
        return self.captures.vjps[block]

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
            warn(f"backward of {self.location} runs op by op: {error.message}")
            operands = segment.operands(arrays, self.registers, self.origins)
            return evaluate(bind_sizes(segment.graph, self.sizes()), operands)
        return segment.run(arrays, self.registers, self.origins)

    def _copy(self, registers: Mapping[Node, Any], symbols: Mapping[Any, Any]) -> SuspendedCall:
        call = SuspendedCall(self.captures, self.tensors, self.numbers, self.sizes(),
                             self.location)
        call.registers, call.symbols = dict(registers), dict(symbols)
        call.measured, call.iterations, call.outcomes = \
            self.measured, self.iterations, self.outcomes
        return call


class _Coverage(Visitor[Block | None]):
    """Follows the backward of a call without computing it."""

    def __init__(self, call: Activation, captures: Captures) -> None:
        self.call, self.captures = call, captures

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
            vjps = self.captures.vjps[state.back_edge]
            if slots not in vjps:
                return None
            gradients = vjps[slots][0].gradients
            slots = tuple(sorted(key[1] for key in gradients if key[0] == "slot"))
            found.update(key for key in gradients if key[0] != "slot")
        found.update(("slot", i) for i in slots)
        return block.body if found == set(block.element.results) else None
