"""Interprets the control-flow graph: follows the path of one call, block by block.

A replay interprets it with compiled segments. The reference interpreter (`ReferenceCall`) evaluates
segments with NumPy and needs no native code.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...eager.core.op import OPS
from ...eager.ops.data_dependent import run
from ..control_flow.data_dependent_sizes import array_of_size
from ..control_flow.decision import outcome_of
from ..control_flow.loop_elements import LoopEntry
from ..control_flow.merges import Merge
from ..effects.effect_call import ClockRead, EffectCall, Pending
from ..graph.bind_sizes import bind_sizes
from ..graph.graph import Node
from ..graph.reference_interpreter import evaluate
from ..heap.path_reader import PathReader, no_number
from ..scalars.scalar_expr import Origins, ScalarExpr, compute
from ..segments.segment import Registers, Segment
from .ir import (
    BackEdge,
    Block,
    Branch,
    EndOfBackward,
    Exit,
    HostCall,
    IfMerge,
    LoopBackward,
    LoopHeader,
    SizeDefinition,
    Yield,
)
from .trace_exit import TraceExit
from .visitor import Visitor

Sizes = Callable[[PathReader], Mapping[str, int]]


class IterationState(NamedTuple):
    """The values at the end of a loop iteration, saved for the backward of the loop."""

    back_edge: BackEdge
    registers: Registers
    symbols: dict[Any, Any]


class Activation:
    """The state of one replayed call: its arguments and the values computed so far."""

    def __init__(self, args: Any, kwargs: Any, read: PathReader, sizes: Sizes) -> None:
        self.args, self.kwargs, self.read, self._sizes = args, kwargs, read, sizes
        self.registers: Registers = {}
        self.symbols: dict[Any, Any] = {}  # loop-carried numbers
        self.measured: dict[str, int] = {}  # data-dependent sizes of this call
        self.effects: list[Pending] = []  # to be performed at the end
        self.outcomes: dict[Any, Any] = {}  # the last ones of branches, by subject and kind
        self.all_outcomes: list[Any] = []  # of all branches on the path, in their order
        # The inputs that segments have read, for programs whose calls may be suspended.
        self.sources: dict[Node, Any] | None = None
        # Of loops whose gradient may be asked for, by the loop's token.
        self.iterations: dict[Any, list[IterationState]] = {}
        self.origins: Origins = {
            "access_path": read, "size": lambda expr: expr.value(self.sizes()),
            "element": lambda node: self.registers[node].item(),
            "phi": lambda token: self.symbols[token],
        }
        read.number = lambda formula: compute(formula, self.origins)

    def sizes(self) -> dict[str, int]:
        """The values of the symbolic sizes in this call."""
        return {**self._sizes(self.read), **self.measured}

    def end(self) -> None:
        """Releases all arrays. The functions of `origins` form a reference cycle, which would keep
        the arrays until Python's garbage collector runs."""
        self.registers, self.iterations, self.origins = {}, {}, {}
        self.read.number = no_number

    def segments_of(self, block: Block) -> Sequence[Segment]:
        """The segments that a block runs."""
        return block.segments

    def vjps_of(self, block: BackEdge) -> Mapping[tuple[int, ...], Any]:
        """The vjps of the iteration that ends at a back edge, with their segments, by slots."""
        return block.vjps

    def run(self, segments: Sequence[Segment]) -> None:
        """Runs segments in order and stores their outputs in registers."""
        for segment in segments:
            self.registers.update(zip(segment.outputs, self.outputs(segment)))

    def outputs(self, segment: Segment) -> list[Any]:
        """The outputs of a segment, by its compiled code."""
        sources = segment.gather(self.args, self.kwargs)[0]
        self.note_sources(segment, sources)
        return segment.run(sources, self.registers, self.origins)

    def note_effect(self, element: EffectCall) -> bool:
        """Notes a call to perform at the end. Returns False if it has no trace for its values."""
        effect = element.bound([self.registers[n] for n in element.nodes],
                               [self.value(f) for f in element.formulas])
        if effect is not None:
            self.effects.append(effect)
        return effect is not None

    def note_sources(self, segment: Segment, tensors: Sequence[Any]) -> None:
        """Notes the inputs that a segment has read."""
        if self.sources is not None:
            self.sources.update(zip(segment.inputs.tensors, [t._data for t in tensors]))

    def value(self, formula: ScalarExpr) -> Any:
        """The value of a scalar expression in this call."""
        return compute(formula, self.origins)

    def subject(self, subject: Any) -> Any:
        """The value that a branch tests."""
        return self.value(subject) if isinstance(subject, ScalarExpr) else self.registers[subject]

    def outcome(self, block: Branch) -> Any:
        """The outcome of a branch in this call."""
        outcome = outcome_of(block.kind, block.subject, self.subject(block.subject))
        self.outcomes[block.subject, block.kind] = outcome
        self.all_outcomes.append(outcome)
        return outcome

    def assign(self, phis_of: LoopEntry | Merge, values: Sequence[Any],
               formulas: Sequence[ScalarExpr]) -> None:
        """Copies the next values to the phis of a loop or a merge, in parallel."""
        arrays = [self.registers[v] for v in values]
        numbers = [self.value(f) for f in formulas]
        self.registers.update(zip(phis_of.phis, arrays))
        self.symbols.update(zip((s.args[0] for s in phis_of.symbols), numbers))

    def at_iteration_end(self, state: IterationState) -> Activation:
        """The activation as it was at the end of a loop iteration."""
        inner = type(self)(self.args, self.kwargs, copy.copy(self.read), self._sizes)
        inner.registers, inner.symbols = state.registers, state.symbols
        inner.measured = self.measured
        return inner


class ReferenceCall(Activation):
    """An activation that evaluates segments with NumPy, node by node."""

    def outputs(self, segment: Segment) -> list[Any]:
        sources = segment.gather(self.args, self.kwargs)[0]
        operands = segment.operands(sources, self.registers, self.origins)
        return evaluate(bind_sizes(segment.graph, self.sizes()), operands)


def path_of(root: Block, call: Activation) -> Iterator[Block]:
    """Runs a call and yields the blocks that it passes. The last one is an exit, unless an outcome
    has no trace yet."""
    successors = _Successors(call)
    block: Block | None = root
    while block is not None:
        call.run(call.segments_of(block))
        yield block
        block = successors.visit(block)


class Interpretation(NamedTuple):
    """The end of an interpreted call: its exit, the outputs, and the numbers."""

    trace_exit: TraceExit
    outputs: list[Any]
    numbers: list[Any]


def interpret(root: Block, args: Any, kwargs: Any, sizes: Mapping[str, int] | None = None,
              held: dict[int, Any] | None = None) -> Interpretation | None:
    """What a call computes, by the reference interpreter; None if its path has no trace.

    `sizes` are the symbolic sizes of the call, `held` the roots of access paths other than its
    arguments. The guards of exits are not evaluated: the first exit counts.
    """
    read = PathReader(args, kwargs, None, {} if held is None else held)
    call = ReferenceCall(args, kwargs, read, lambda read: sizes or {})
    *_, block = path_of(root, call)
    for trace_exit in block.exits:
        numbers = [call.value(f) for f in trace_exit.formulas]
        assert trace_exit.segment is not None
        return Interpretation(trace_exit, call.outputs(trace_exit.segment), numbers)
    return None


class _Successors(Visitor[Block | None]):
    """Finds the successor of a block in a call; None behind an exit and an unknown outcome."""

    def __init__(self, call: Activation) -> None:
        self.call = call

    def exit(self, block: Exit) -> None:
        return None

    def end_of_backward(self, block: EndOfBackward) -> None:
        return None

    def branch(self, block: Branch) -> Block | None:
        return block.outcomes.get(self.call.outcome(block))

    def size_definition(self, block: SizeDefinition) -> Block | None:
        element, registers = block.element, self.call.registers
        array = registers[element.node] = array_of_size(self.call.value(element.formula)) \
            if element.formula is not None else \
            run(OPS[element.node.op], *[registers[n] for n in element.node.inputs])
        self.call.measured[element.name] = array.shape[0]
        return block.body

    def host_call(self, block: HostCall) -> Block | None:
        call, element = self.call, block.element
        if isinstance(element, ClockRead):
            call.symbols[element.token] = element.read()
            return block.body
        return block.body if call.note_effect(element) else None

    def loop_header(self, block: LoopHeader) -> Block | None:
        self.call.assign(block.element, block.values, block.formulas)
        self.call.iterations[block.element.token] = []
        return block.body

    def back_edge(self, block: BackEdge) -> Block | None:
        call = self.call
        if block.vjps:
            call.iterations[block.element.token].append(
                IterationState(block, dict(call.registers), dict(call.symbols)))
        call.assign(block.target.element, block.values, block.formulas)
        block.target.iterations += 1
        return block.target.body

    def if_merge(self, block: IfMerge) -> Block | None:
        return block.body

    def yield_values(self, block: Yield) -> Block | None:
        self.call.assign(block.element, block.values, block.formulas)
        block.uses += 1
        return block.target.continuation

    def loop_backward(self, block: LoopBackward) -> Block | None:
        call, element = self.call, block.element
        carried = {i: call.registers[node] for i, node in element.incoming}
        sums = _Sums()
        for state in reversed(call.iterations[element.token]):
            if tuple(sorted(carried)) not in call.vjps_of(state.back_edge):
                return None
            carried = _iteration_backward(call, state, carried, sums)
        results = {("slot", i): carried[i] for i in sorted(carried)} | sums.values
        if results.keys() != set(element.results):
            return None
        call.registers.update(zip(element.phis, [results[key] for key in element.results]))
        return block.body


def _iteration_backward(call: Activation, state: IterationState, carried: dict[int, Any],
                        sums: _Sums) -> dict[int, Any]:
    """The gradients of an iteration's carried inputs.

    Gradients of loop-invariant values are added to `sums`.
    """
    vjp, segments = call.vjps_of(state.back_edge)[tuple(sorted(carried))]
    activation = call.at_iteration_end(state)
    activation.registers.update((vjp.incoming[i], a) for i, a in carried.items())
    activation.run(segments)
    carried_grads = {}
    for key, node in vjp.gradients.items():
        array = activation.registers[node]
        if key[0] == "slot":
            carried_grads[key[1]] = array
        else:
            sums.add(key, array)
    return carried_grads


class _Sums:
    """Sums of arrays by key. Only arrays that it has made itself are written to."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self._own: set[Any] = set()

    def add(self, key: Any, array: Any) -> None:
        """Adds an array to the sum of this key."""
        values = self.values
        if key not in values:
            values[key] = array
        elif key in self._own:
            np.add(values[key], array, out=values[key])
        else:
            values[key] = np.add(values[key], array, out=np.empty_like(array))
            self._own.add(key)
