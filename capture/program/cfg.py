"""The tree of a program: decisions, loops, and the ends of ways."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...eager.core.op import OPS
from ...eager.ops.data_dependent import run
from ..control_flow.branch_merging import Merge, Split
from ..control_flow.data_dependent_sizes import DataDependentSize
from ..control_flow.decision import Decision, outcome_of
from ..control_flow.loop_detection import LoopEntry, LoopRepeat
from ..control_flow.loop_gradients import IterationVjp, LoopBackwardEvent
from ..graph.graph import Node
from ..heap.path_reader import PathReader, no_number
from ..scalars.scalar_expr import Origins, ScalarExpr, compute, elements
from ..segments.segment import Registers, Segment
from .trace_exit import TraceExit

# An element of the path that a run took.
Element = (Decision | LoopEntry | LoopRepeat | LoopBackwardEvent | DataDependentSize | Split
           | Merge)


class IterationState(NamedTuple):
    """What is known at the end of a turn, for the way back."""

    back: BackEdge
    registers: Registers
    symbols: dict[Any, Any]


class Activation:
    """One call of a program: what is known of it so far."""

    def __init__(self, args: Any, kwargs: Any, read: PathReader, sizes: Any) -> None:
        self.args, self.kwargs, self.read, self._sizes = args, kwargs, read, sizes
        self.registers: Registers = {}
        self.symbols: dict[Any, Any] = {}  # numbers that loops carry
        self.measured: dict[str, int] = {}  # sizes that this call has found
        self.turns: dict[Any, list[IterationState]] = {}  # of loops whose gradient may be asked for
        self.origins: Origins = {
            "given": read, "size": lambda expr: expr.value(sizes(read) | self.measured),
            "element": lambda node: self.registers[node].item(),
            "phi": lambda token: self.symbols[token],
        }
        read.number = lambda formula: compute(formula, self.origins)

    def end(self) -> None:
        """Lets go of all arrays at once: the functions above refer to each other, and would hold
        them until Python's garbage collector comes by."""
        self.registers, self.turns, self.origins = {}, {}, {}
        self.read.number = no_number

    def run(self, stages: Sequence[Segment]) -> None:
        """Computes what stages want."""
        for stage in stages:
            sources = stage.gather(self.args, self.kwargs)[0]
            arrays = stage.run(sources, self.registers, self.origins)
            self.registers.update(zip(stage.wanted, arrays))

    def value(self, formula: ScalarExpr) -> Any:
        """The value of a formula in this call."""
        return compute(formula, self.origins)

    def inside(self, kept: IterationState) -> Activation:
        """The call as it was at the end of a turn."""
        call = Activation(self.args, self.kwargs, copy.copy(self.read), self._sizes)
        call.registers, call.symbols = kept.registers, kept.symbols
        call.measured = self.measured
        return call


class Block:
    """A place of the tree, with the stages that compute what it asks for."""

    site = ""

    def __init__(self) -> None:
        self.stages: list[Segment] = []
        self.checks: dict[Node, None] = {}  # what is computed here for its errors alone

    @property
    def wanted(self) -> list[Node]:
        """What its stages compute."""
        return []

    @property
    def wants(self) -> list[Node]:
        """All that is computed here."""
        return [*self.wanted, *self.checks]

    def children(self) -> list[Block]:
        """Where it leads to, further down."""
        return []

    def same(self, element: Element) -> bool:
        """Whether a run that comes here with this element goes the same way so far."""
        return False

    def after(self, element: Element) -> Block | None:
        """The place that follows; None where the tree ends."""
        raise NotImplementedError

    def follow(self, call: Activation) -> Block | None:
        """The place that follows in this call; None where none is known."""
        raise NotImplementedError


class Branch(Block):
    """A decision: what is asked, and where each answer leads."""

    def __init__(self, decision: Decision) -> None:
        super().__init__()
        self.subject, self.kind, self.site = decision.subject, decision.kind, decision.site
        self.outcomes: dict[Any, Block] = {}

    @property
    def wanted(self) -> list[Node]:
        return list(elements([self.subject])) if isinstance(self.subject, ScalarExpr) \
            else [self.subject]

    def children(self) -> list[Block]:
        return list(self.outcomes.values())

    def same(self, element: Element) -> bool:
        return isinstance(element, Decision) and self.subject == element.subject \
            and self.kind == element.kind

    def after(self, element: Element) -> Block | None:
        assert isinstance(element, Decision)
        return self.outcomes.get(element.outcome)

    def follow(self, call: Activation) -> Block | None:
        value = call.value(self.subject) if isinstance(self.subject, ScalarExpr) else \
            call.registers[self.subject]
        return self.outcomes.get(outcome_of(self.kind, self.subject, value))


class SizeBinding(Block):
    """Where a size is found: an op whose result has it runs by itself."""

    def __init__(self, element: DataDependentSize) -> None:
        super().__init__()
        self.element, self.site = element, element.site
        self.body: Block | None = None

    @property
    def wanted(self) -> list[Node]:
        return list(self.element.node.inputs)

    def children(self) -> list[Block]:
        return [] if self.body is None else [self.body]

    def same(self, element: Element) -> bool:
        return isinstance(element, DataDependentSize) and self.element.node is element.node

    def after(self, element: Element) -> Block | None:
        return self.body

    def follow(self, call: Activation) -> Block | None:
        node = self.element.node
        given, = node.inputs
        array = call.registers[node] = run(OPS[node.op], call.registers[given])
        call.measured[self.element.name] = array.shape[0]
        return self.body


class _Carrier(Block):
    """A place where what a loop carries gets its values."""

    def __init__(self, values: Sequence[Node], formulas: Sequence[ScalarExpr], site: str) -> None:
        super().__init__()
        self.values, self.formulas, self.site = values, formulas, site

    @property
    def wanted(self) -> list[Node]:
        return [*self.values, *elements(self.formulas)]

    def carry(self, call: Activation, enter: LoopEntry) -> None:
        """Gives the phis their next values, all at once."""
        arrays = [call.registers[v] for v in self.values]
        numbers = [call.value(f) for f in self.formulas]
        call.registers.update(zip(enter.phis, arrays))
        call.symbols.update(zip((s.args[0] for s in enter.symbols), numbers))


class Loop(_Carrier):
    """The head of a loop."""

    def __init__(self, enter: LoopEntry) -> None:
        super().__init__(enter.values, enter.formulas, enter.site)
        self.enter = enter
        self.body: Block | None = None
        self.turns = 0  # made so far, in all calls

    def children(self) -> list[Block]:
        return [] if self.body is None else [self.body]

    def same(self, element: Element) -> bool:
        return self.enter == element

    def after(self, element: Element) -> Block | None:
        return self.body

    def follow(self, call: Activation) -> Block | None:
        self.carry(call, self.enter)
        call.turns[self.enter.token] = []
        return self.body


class BackEdge(_Carrier):
    """The end of a turn: the way back to the head of its loop."""

    def __init__(self, jump: LoopRepeat, loop: Loop) -> None:
        super().__init__(jump.values, jump.formulas, jump.site)
        self.jump, self.loop = jump, loop
        self.ways: dict[tuple[int, ...], tuple[IterationVjp, list[Segment]]] = {}  # back, by slots

    def same(self, element: Element) -> bool:
        return self.jump == element

    def after(self, element: Element) -> Block | None:
        return self.loop.body

    def follow(self, call: Activation) -> Block | None:
        if self.ways:
            call.turns[self.jump.token].append(IterationState(self, dict(call.registers),
                                                              dict(call.symbols)))
        self.carry(call, self.loop.enter)
        self.loop.turns += 1
        return self.loop.body


class LoopBackward(Block):
    """The way back through the turns of a loop."""

    def __init__(self, element: LoopBackwardEvent) -> None:
        super().__init__()
        self.element, self.site = element, element.site
        self.body: Block | None = None

    @property
    def wanted(self) -> list[Node]:
        return [node for _, node in self.element.given]

    def children(self) -> list[Block]:
        return [] if self.body is None else [self.body]

    def same(self, element: Element) -> bool:
        return self.element == element

    def after(self, element: Element) -> Block | None:
        return self.body

    def follow(self, call: Activation) -> Block | None:
        carried = {i: call.registers[node] for i, node in self.element.given}
        sums: dict[Any, Any] = {}
        for kept in reversed(call.turns[self.element.token]):
            slots = tuple(sorted(carried))
            if slots not in kept.back.ways:
                return None
            carried = self._turn(call, kept, carried, sums)
        found = {("slot", i): carried[i] for i in sorted(carried)} | sums
        if found.keys() != set(self.element.results):
            return None
        call.registers.update((p, found[k]) for k, p in zip(self.element.results,
                                                            self.element.phis))
        return self.body

    def _turn(self, call: Activation, kept: IterationState, carried: dict[int, Any],
              sums: dict[Any, Any]) -> dict[int, Any]:
        """The gradients of what a turn began with; those of what it read are added to `sums`."""
        way, stages = kept.back.ways[tuple(sorted(carried))]
        inside = call.inside(kept)
        inside.registers.update((way.given[i], a) for i, a in carried.items())
        inside.run(stages)
        result = {}
        for key, node in way.gradients.items():
            array = inside.registers[node]
            if key[0] == "slot":
                result[key[1]] = array
            else:
                sums[key] = np.asarray(np.add(sums[key], array)) if key in sums else array
        return result


class Exit(Block):
    """Where a way ends: leaves that differ in what else they depend on."""

    def __init__(self, leaf: TraceExit) -> None:
        super().__init__()
        self.leaves = [leaf]

    @property
    def wanted(self) -> list[Node]:
        return list(elements(f for leaf in self.leaves for f in leaf.formulas))

    @property
    def wants(self) -> list[Node]:
        return [*self.wanted, *(n for leaf in self.leaves for n in leaf.outputs)]


class IfMerge(Block):
    """A question all answers to which lead to one place again, and what follows there."""

    def __init__(self, element: Split) -> None:
        super().__init__()
        self.key = element.key
        self.body: Block | None = None
        self.then = _Continuation()
        self.phis: tuple[Node, ...] = ()
        self.symbols: tuple[ScalarExpr, ...] = ()

    def children(self) -> list[Block]:
        return [p for p in (self.body, self.then.body) if p is not None]

    def same(self, element: Element) -> bool:
        return isinstance(element, Split) and element.key == self.key

    def after(self, element: Element) -> Block | None:
        return self.body


class _Continuation:
    """What follows where ways have met."""

    body: Block | None = None


class Yield(_Carrier):
    """The end of a way that meets others, with its values."""

    def __init__(self, element: Merge, fork: IfMerge) -> None:
        super().__init__(element.values, element.formulas, element.site)
        self.element, self.fork = element, fork
        fork.phis, fork.symbols = element.phis, element.symbols

    def same(self, element: Element) -> bool:
        return self.element == element

    def after(self, element: Element) -> Block | None:
        return self.fork.then.body


def grow(root: Block | None, path: Sequence[Element], leaf: TraceExit | None) -> tuple[Block, bool]:
    """The tree with another way in it, and whether that way goes with the tree up to a decision
    that was answered anew; where it does not, the tree is as it was. A way without a leaf ends
    where a loop begins another turn."""
    loops: dict[Any, Loop | IfMerge] = {}
    above: tuple[Block, Element] | None = None
    joint: tuple[Block, Element] | None = None  # where it leaves the tree
    at, first = root, root
    places: list[Block] = []
    for element in path:
        if at is None:
            at = _made(element, loops)
            first = _attach(above, at) or first
            joint = joint or above
        elif not at.same(element):
            _detach(joint)
            return first or at, False
        if isinstance(at, Loop):
            loops[at.enter.token] = at
        if isinstance(at, IfMerge):
            loops[at.key] = at
        places.append(at)
        above, at = (at, element), at.after(element)
    if leaf is None:
        assert first is not None
        return first, True
    if at is not None and not isinstance(at, Exit):
        _detach(joint)
        return first or at, False
    for place, checks in zip(places, leaf.checks):
        place.checks.update(dict.fromkeys(checks))
    if at is None:
        end: Block = Exit(leaf)
        return _attach(above, end) or first or end, True
    at.leaves.insert(0, leaf)
    assert first is not None
    return first, True


def _made(element: Element, loops: dict[Any, Any]) -> Block:
    if isinstance(element, Decision):
        return Branch(element)
    if isinstance(element, Split):
        return IfMerge(element)
    if isinstance(element, Merge):
        return Yield(element, loops[element.key])
    if isinstance(element, LoopEntry):
        return Loop(element)
    if isinstance(element, LoopBackwardEvent):
        return LoopBackward(element)
    if isinstance(element, DataDependentSize):
        return SizeBinding(element)
    return BackEdge(element, loops[element.token])


def _attach(above: tuple[Block, Element] | None, place: Block) -> Block | None:
    """Puts a place under another; itself where it is the first of its tree."""
    if above is None:
        return place
    over, element = above
    if isinstance(over, Branch):
        assert isinstance(element, Decision)
        over.outcomes[element.outcome] = place
    else:
        head = _head(over)
        assert head.body is None
        head.body = place
    return None


def _head(over: Block) -> Loop | LoopBackward | SizeBinding | IfMerge | _Continuation:
    """What holds the place that follows on one which is no decision."""
    if isinstance(over, (BackEdge, Yield)):
        return over.loop if isinstance(over, BackEdge) else over.fork.then
    assert isinstance(over, (Loop, LoopBackward, SizeBinding, IfMerge))
    return over


def _detach(joint: tuple[Block, Element] | None) -> None:
    """Takes away again what was put under a place: nothing has been planned there."""
    if joint is None:
        return
    over, element = joint
    if isinstance(over, Branch):
        assert isinstance(element, Decision)
        del over.outcomes[element.outcome]
    else:
        _head(over).body = None
