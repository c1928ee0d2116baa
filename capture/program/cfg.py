"""Defines the control-flow tree of a traced function: blocks, branches, loops, merges and exits.

The graph is a tree with back edges. Each new trace adds its path to the tree, and a replay follows
one path from the root to an exit.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...eager.core.op import OPS
from ...eager.ops.data_dependent import run
from ..control_flow.data_dependent_sizes import DataDependentSize
from ..control_flow.decision import Decision, outcome_of
from ..control_flow.loop_detection import LoopEntry, LoopRepeat
from ..control_flow.loop_gradients import IterationVjp, LoopBackwardEvent
from ..control_flow.merges import Merge, MergedBranch
from ..graph.graph import Node
from ..heap.path_reader import PathReader, no_number
from ..scalars.scalar_expr import Origins, ScalarExpr, compute, elements
from ..segments.segment import Registers, Segment
from .trace_exit import TraceExit

# An element of the path that a run took.
Element = (Decision | LoopEntry | LoopRepeat | LoopBackwardEvent | DataDependentSize | MergedBranch
           | Merge)


class IterationState(NamedTuple):
    """The values at the end of a loop iteration, saved for the backward of the loop."""

    back_edge: BackEdge
    registers: Registers
    symbols: dict[Any, Any]


class Activation:
    """The state of one replayed call: its arguments and the values computed so far."""

    def __init__(self, args: Any, kwargs: Any, read: PathReader, sizes: Any) -> None:
        self.args, self.kwargs, self.read, self._sizes = args, kwargs, read, sizes
        self.registers: Registers = {}
        self.symbols: dict[Any, Any] = {}  # loop-carried numbers
        self.measured: dict[str, int] = {}  # data-dependent sizes of this call
        # Of loops whose gradient may be asked for, by the loop's token.
        self.iterations: dict[Any, list[IterationState]] = {}
        self.origins: Origins = {
            "access_path": read, "size": lambda expr: expr.value(sizes(read) | self.measured),
            "element": lambda node: self.registers[node].item(),
            "phi": lambda token: self.symbols[token],
        }
        read.number = lambda formula: compute(formula, self.origins)

    def end(self) -> None:
        """Releases all arrays. The functions of `origins` form a reference cycle, which would keep
        the arrays until Python's garbage collector runs."""
        self.registers, self.iterations, self.origins = {}, {}, {}
        self.read.number = no_number

    def run(self, segments: Sequence[Segment]) -> None:
        """Runs segments in order and stores their outputs in registers."""
        for segment in segments:
            sources = segment.gather(self.args, self.kwargs)[0]
            arrays = segment.run(sources, self.registers, self.origins)
            self.registers.update(zip(segment.outputs, arrays))

    def value(self, formula: ScalarExpr) -> Any:
        """The value of a scalar expression in this call."""
        return compute(formula, self.origins)

    def at_iteration_end(self, state: IterationState) -> Activation:
        """The activation as it was at the end of a loop iteration."""
        inner = Activation(self.args, self.kwargs, copy.copy(self.read), self._sizes)
        inner.registers, inner.symbols = state.registers, state.symbols
        inner.measured = self.measured
        return inner


class Block:
    """A node of the control-flow tree, with the segments that compute its operands."""

    site = ""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.checks: dict[Node, None] = {}  # nodes computed only for the errors they may raise

    @property
    def operands(self) -> list[Node]:
        """The nodes that the block reads."""
        return []

    @property
    def required(self) -> list[Node]:
        """All nodes that must be computed here: operands and checks."""
        return [*self.operands, *self.checks]

    def children(self) -> list[Block]:
        """The successors below it in the tree; back edges are left out."""
        return []

    def definitions(self, child: Block) -> Sequence[Node]:
        """The nodes that have values on entry to a child without being computed by segments."""
        return ()

    def matches(self, element: Element) -> bool:
        """True if a trace with this element at this point continues in this block."""
        return False

    def successor(self, element: Element) -> Block | None:
        """The successor for an element of a trace; None if there is none yet."""
        raise NotImplementedError

    def set_successor(self, element: Element, block: Block | None) -> None:
        """Sets or removes the successor for an element of a trace."""
        raise NotImplementedError

    def follow(self, call: Activation) -> Block | None:
        """The successor in this call; None if the outcome has no trace yet."""
        raise NotImplementedError


class Branch(Block):
    """A branch on the value of a node or a scalar expression, with a successor per outcome."""

    def __init__(self, decision: Decision) -> None:
        super().__init__()
        self.subject, self.kind, self.site = decision.subject, decision.kind, decision.site
        self.outcomes: dict[Any, Block] = {}

    @property
    def operands(self) -> list[Node]:
        return list(elements([self.subject])) if isinstance(self.subject, ScalarExpr) \
            else [self.subject]

    def children(self) -> list[Block]:
        return list(self.outcomes.values())

    def matches(self, element: Element) -> bool:
        return isinstance(element, Decision) and self.subject == element.subject \
            and self.kind == element.kind

    def successor(self, element: Element) -> Block | None:
        assert isinstance(element, Decision)
        return self.outcomes.get(element.outcome)

    def set_successor(self, element: Element, block: Block | None) -> None:
        assert isinstance(element, Decision)
        if block is None:
            del self.outcomes[element.outcome]
        else:
            self.outcomes[element.outcome] = block

    def follow(self, call: Activation) -> Block | None:
        value = call.value(self.subject) if isinstance(self.subject, ScalarExpr) else \
            call.registers[self.subject]
        return self.outcomes.get(outcome_of(self.kind, self.subject, value))


class SizeDefinition(Block):
    """The definition of a data-dependent size: runs the op whose result has this size."""

    def __init__(self, element: DataDependentSize) -> None:
        super().__init__()
        self.element, self.site = element, element.site
        self.body: Block | None = None

    @property
    def operands(self) -> list[Node]:
        return list(self.element.node.inputs)

    def children(self) -> list[Block]:
        return [] if self.body is None else [self.body]

    def definitions(self, child: Block) -> Sequence[Node]:
        return [self.element.node]

    def matches(self, element: Element) -> bool:
        return isinstance(element, DataDependentSize) and self.element.node is element.node

    def successor(self, element: Element) -> Block | None:
        return self.body

    def set_successor(self, element: Element, block: Block | None) -> None:
        self.body = block

    def follow(self, call: Activation) -> Block | None:
        node = self.element.node
        operand, = node.inputs
        array = call.registers[node] = run(OPS[node.op], call.registers[operand])
        call.measured[self.element.name] = array.shape[0]
        return self.body


class _Carrier(Block):
    """A block that assigns values to the phis of a loop or a merge."""

    def __init__(self, values: Sequence[Node], formulas: Sequence[ScalarExpr], site: str) -> None:
        super().__init__()
        self.values, self.formulas, self.site = values, formulas, site

    @property
    def operands(self) -> list[Node]:
        return [*self.values, *elements(self.formulas)]

    def carry(self, call: Activation, entry: LoopEntry | Merge) -> None:
        """Copies the next values to the phis, in parallel."""
        arrays = [call.registers[v] for v in self.values]
        numbers = [call.value(f) for f in self.formulas]
        call.registers.update(zip(entry.phis, arrays))
        call.symbols.update(zip((s.args[0] for s in entry.symbols), numbers))


class LoopHeader(_Carrier):
    """The header of a loop, which assigns the initial values of its phis."""

    def __init__(self, entry: LoopEntry) -> None:
        super().__init__(entry.values, entry.formulas, entry.site)
        self.entry = entry
        self.body: Block | None = None
        self.iterations = 0  # count over all calls

    def count(self, iterations: int) -> None:
        """Adds the iterations of a call."""
        self.iterations += iterations

    def children(self) -> list[Block]:
        return [] if self.body is None else [self.body]

    def definitions(self, child: Block) -> Sequence[Node]:
        return self.entry.phis

    def matches(self, element: Element) -> bool:
        return self.entry == element

    def successor(self, element: Element) -> Block | None:
        return self.body

    def set_successor(self, element: Element, block: Block | None) -> None:
        self.body = block

    def follow(self, call: Activation) -> Block | None:
        self.carry(call, self.entry)
        call.iterations[self.entry.token] = []
        return self.body


class BackEdge(_Carrier):
    """The back edge at the end of a loop iteration."""

    def __init__(self, repeat: LoopRepeat, loop: LoopHeader) -> None:
        super().__init__(repeat.values, repeat.formulas, repeat.site)
        self.repeat, self.loop = repeat, loop
        self.vjps: dict[tuple[int, ...], tuple[IterationVjp, list[Segment]]] = {}  # by slots

    def matches(self, element: Element) -> bool:
        return self.repeat == element

    def successor(self, element: Element) -> Block | None:
        return self.loop.body

    def set_successor(self, element: Element, block: Block | None) -> None:
        self.loop.body = block

    def follow(self, call: Activation) -> Block | None:
        if self.vjps:
            call.iterations[self.repeat.token].append(IterationState(self, dict(call.registers),
                                                                     dict(call.symbols)))
        self.carry(call, self.loop.entry)
        self.loop.iterations += 1
        return self.loop.body


class LoopBackward(Block):
    """The backward of a loop: runs the vjp of each iteration, the last one first."""

    def __init__(self, element: LoopBackwardEvent) -> None:
        super().__init__()
        self.element, self.site = element, element.site
        self.body: Block | None = None

    @property
    def operands(self) -> list[Node]:
        return [node for _, node in self.element.incoming]

    def children(self) -> list[Block]:
        return [] if self.body is None else [self.body]

    def definitions(self, child: Block) -> Sequence[Node]:
        return self.element.phis

    def matches(self, element: Element) -> bool:
        return self.element == element

    def successor(self, element: Element) -> Block | None:
        return self.body

    def set_successor(self, element: Element, block: Block | None) -> None:
        self.body = block

    def follow(self, call: Activation) -> Block | None:
        carried = {i: call.registers[node] for i, node in self.element.incoming}
        sums: dict[Any, Any] = {}
        for state in reversed(call.iterations[self.element.token]):
            slots = tuple(sorted(carried))
            if slots not in state.back_edge.vjps:
                return None
            carried = self._iteration_backward(call, state, carried, sums)
        results = {("slot", i): carried[i] for i in sorted(carried)} | sums
        if results.keys() != set(self.element.results):
            return None
        phis = zip(self.element.results, self.element.phis)
        call.registers.update((phi, results[key]) for key, phi in phis)
        return self.body

    def _iteration_backward(self, call: Activation, state: IterationState, carried: dict[int, Any],
                            sums: dict[Any, Any]) -> dict[int, Any]:
        """The gradients of an iteration's carried inputs.

        Gradients of loop-invariant values are added to `sums`.
        """
        vjp, segments = state.back_edge.vjps[tuple(sorted(carried))]
        activation = call.at_iteration_end(state)
        activation.registers.update((vjp.incoming[i], a) for i, a in carried.items())
        activation.run(segments)
        carried_grads = {}
        for key, node in vjp.gradients.items():
            array = activation.registers[node]
            if key[0] == "slot":
                carried_grads[key[1]] = array
            else:
                sums[key] = np.asarray(np.add(sums[key], array)) if key in sums else array
        return carried_grads


class Exit(Block):
    """The end of a path, with the trace exits that differ in their other guards."""

    def __init__(self, trace_exit: TraceExit) -> None:
        super().__init__()
        self.exits = [trace_exit]

    @property
    def operands(self) -> list[Node]:
        return list(elements(f for trace_exit in self.exits for f in trace_exit.formulas))

    @property
    def required(self) -> list[Node]:
        outputs = [n for trace_exit in self.exits for n in trace_exit.outputs]
        return [*self.operands, *outputs]


class IfMerge(Block):
    """A branch whose paths merge again, and the continuation after the merge."""

    def __init__(self, element: MergedBranch) -> None:
        super().__init__()
        self.key = element.key
        self.body: Block | None = None
        self.merge: Merge | None = None
        self.continuation: Block | None = None

    @property
    def phis(self) -> tuple[Node, ...]:
        """The phis of tensors behind the merge; empty as long as no path has reached it."""
        return () if self.merge is None else self.merge.phis

    @property
    def symbols(self) -> tuple[ScalarExpr, ...]:
        """The phis of numbers behind the merge."""
        return () if self.merge is None else self.merge.symbols

    def children(self) -> list[Block]:
        return [p for p in (self.body, self.continuation) if p is not None]

    def definitions(self, child: Block) -> Sequence[Node]:
        return self.phis if child is self.continuation else ()

    def matches(self, element: Element) -> bool:
        return isinstance(element, MergedBranch) and element.key == self.key

    def successor(self, element: Element) -> Block | None:
        return self.body

    def set_successor(self, element: Element, block: Block | None) -> None:
        self.body = block

    def follow(self, call: Activation) -> Block | None:
        return self.body

    def always_merges(self) -> bool:
        """True if all paths so far reach the merge, and none of them through a loop."""
        stack = [] if self.body is None else [self.body]
        while stack:
            block = stack.pop()
            if isinstance(block, IfMerge):
                if not block.always_merges():
                    return False
                stack += [] if block.continuation is None else [block.continuation]
            elif isinstance(block, (Branch, SizeDefinition, LoopBackward)):
                stack += block.children()
            elif not (isinstance(block, Yield) and block.if_merge is self):
                return False
        return True


class Yield(_Carrier):
    """The end of one path of an IfMerge, with its values for the phis of the merge."""

    def __init__(self, element: Merge, if_merge: IfMerge) -> None:
        super().__init__(element.values, element.formulas, element.site)
        self.element, self.if_merge = element, if_merge
        self.uses = 0  # calls that took this path
        if_merge.merge = element

    def count(self, uses: int) -> None:
        """Adds the uses by a call."""
        self.uses += uses

    def matches(self, element: Element) -> bool:
        return self.element == element

    def successor(self, element: Element) -> Block | None:
        return self.if_merge.continuation

    def set_successor(self, element: Element, block: Block | None) -> None:
        self.if_merge.continuation = block

    def follow(self, call: Activation) -> Block | None:
        self.carry(call, self.element)
        self.uses += 1
        return self.if_merge.continuation
