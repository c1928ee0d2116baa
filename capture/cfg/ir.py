"""Defines the control-flow graph: a tree of blocks, with back edges and merges.

Each new trace adds its path to the tree, and a replay follows one path from the root to an exit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..autodiff.suspended_backward import GradientReturn, SuspendedBackward
from ..control_flow.data_dependent_sizes import DataDependentSize
from ..control_flow.decision import Decision
from ..control_flow.loop_elements import LoopEntry, LoopRepeat
from ..control_flow.loop_gradients import IterationVjp, LoopBackwardEvent
from ..control_flow.merges import Merge, MergedBranch
from ..effects.effect_call import ClockRead, EffectCall
from ..graph.graph import Node
from ..scalars.scalar_expr import ScalarExpr, elements
from ..segments.segment import Segment
from .trace_exit import TraceExit

# An element of the path that a run took.
Element = (Decision | LoopEntry | LoopRepeat | LoopBackwardEvent | DataDependentSize | MergedBranch
           | Merge | EffectCall | ClockRead | GradientReturn)


class Block:
    """A node of the control-flow graph, with the segments that compute its operands.

    `target` is the enclosing loop or merge to which a back edge or a yield jumps.
    """

    site = ""
    exits: Sequence[TraceExit] = ()
    target: LoopHeader | IfMerge | None = None

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
        """The successors below it in the tree; the targets of jumps are left out."""
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

    def element_to(self, successor: Block) -> Element:
        """The element of a trace that goes from this block to a successor."""
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

    def element_to(self, successor: Block) -> Element:
        outcome = next(o for o, block in self.outcomes.items() if block is successor)
        return Decision(self.subject, self.kind, outcome, self.site)


class _Straight(Block):
    """A block with one successor, made for one element of a trace."""

    element: Any

    def __init__(self, element: Any) -> None:
        super().__init__()
        self.element, self.site = element, element.site

    def matches(self, element: Element) -> bool:
        return bool(self.element == element)

    def element_to(self, successor: Block) -> Element:
        return self.element  # type: ignore[no-any-return]


class _WithBody(_Straight):
    """A block whose successor is below it in the tree."""

    def __init__(self, element: Any) -> None:
        super().__init__(element)
        self.body: Block | None = None

    def children(self) -> list[Block]:
        return [] if self.body is None else [self.body]

    def successor(self, element: Element) -> Block | None:
        return self.body

    def set_successor(self, element: Element, block: Block | None) -> None:
        self.body = block


class _Carrier(_Straight):
    """A block that assigns values to the phis of a loop or a merge."""

    element: LoopEntry | LoopRepeat | Merge

    @property
    def values(self) -> tuple[Node, ...]:
        return self.element.values

    @property
    def formulas(self) -> tuple[ScalarExpr, ...]:
        return self.element.formulas

    @property
    def operands(self) -> list[Node]:
        return [*self.values, *elements(self.formulas)]


class SizeDefinition(_WithBody):
    """The definition of a data-dependent size: runs the op whose result has this size, or computes
    the number that is this size."""

    element: DataDependentSize

    @property
    def operands(self) -> list[Node]:
        formula = self.element.formula
        return list(self.element.node.inputs) if formula is None else list(elements([formula]))

    def definitions(self, child: Block) -> Sequence[Node]:
        return [self.element.node]

    def matches(self, element: Element) -> bool:
        return isinstance(element, DataDependentSize) and self.element.node is element.node


class HostCall(_WithBody):
    """A call of a Python function on the path: an effect, or a read of a clock."""

    element: EffectCall | ClockRead

    @property
    def operands(self) -> list[Node]:
        return [*self.element.nodes, *elements(self.element.formulas)]

    @property
    def symbols(self) -> tuple[ScalarExpr, ...]:
        """The numbers that the call defines."""
        return self.element.symbols

    def matches(self, element: Element) -> bool:
        return self.element.same(element)


class LoopHeader(_WithBody, _Carrier):
    """The header of a loop, which assigns the initial values of its phis."""

    element: LoopEntry
    iterations = 0  # count over all calls

    @property
    def phis(self) -> tuple[Node, ...]:
        return self.element.phis

    @property
    def symbols(self) -> tuple[ScalarExpr, ...]:
        """The phis of numbers."""
        return self.element.symbols

    def count(self, iterations: int) -> None:
        """Adds the iterations of a call."""
        self.iterations += iterations

    def definitions(self, child: Block) -> Sequence[Node]:
        return self.phis


class BackEdge(_Carrier):
    """The back edge at the end of a loop iteration."""

    element: LoopRepeat

    def __init__(self, element: LoopRepeat, loop: LoopHeader) -> None:
        super().__init__(element)
        self.target: LoopHeader = loop
        self.vjps: dict[tuple[int, ...], tuple[IterationVjp, list[Segment]]] = {}  # by slots

    def successor(self, element: Element) -> Block | None:
        return self.target.body

    def set_successor(self, element: Element, block: Block | None) -> None:
        self.target.body = block


class LoopBackward(_WithBody):
    """The backward of a loop: runs the vjp of each iteration, the last one first."""

    element: LoopBackwardEvent

    @property
    def operands(self) -> list[Node]:
        return [node for _, node in self.element.incoming]

    def definitions(self, child: Block) -> Sequence[Node]:
        return self.element.phis


class Exit(Block):
    """The end of a path, with the trace exits that differ in their other guards.

    Its children are the backward blocks of trace exits whose results depend on control flow.
    """

    def __init__(self, trace_exit: TraceExit) -> None:
        super().__init__()
        self.exits: list[TraceExit] = [trace_exit]

    @property
    def operands(self) -> list[Node]:
        return list(elements(f for trace_exit in self.exits for f in trace_exit.formulas))

    @property
    def required(self) -> list[Node]:
        outputs = [n for trace_exit in self.exits for n in trace_exit.outputs]
        return [*self.operands, *outputs]

    def _backwards(self) -> list[SuspendedBackward]:
        return [e.backward for e in self.exits if isinstance(e.backward, SuspendedBackward)]

    def children(self) -> list[Block]:
        return [v.root for b in self._backwards() for v in b.variants if v.root is not None]

    def definitions(self, child: Block) -> Sequence[Node]:
        backward, variant = next(
            (b, v) for b in self._backwards() for v in b.variants if v.root is child)
        return [*backward.incoming(variant), *backward.saved]


class EndOfBackward(_Straight):
    """The end of the backward behind an exit: returns gradients of inputs."""

    element: GradientReturn

    @property
    def formulas(self) -> tuple[ScalarExpr, ...]:
        return self.element.formulas

    @property
    def operands(self) -> list[Node]:
        return [*self.element.nodes, *elements(self.formulas)]

    def successor(self, element: Element) -> None:
        return None


class IfMerge(_WithBody):
    """A branch whose paths merge again, and the continuation after the merge."""

    element: MergedBranch

    def __init__(self, element: MergedBranch) -> None:
        super().__init__(element)
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
        return isinstance(element, MergedBranch) and element.key == self.element.key


class Yield(_Carrier):
    """The end of one path of an IfMerge, with its values for the phis of the merge."""

    element: Merge
    uses = 0  # calls that took this path

    def __init__(self, element: Merge, if_merge: IfMerge) -> None:
        super().__init__(element)
        self.target: IfMerge = if_merge
        if_merge.merge = element

    def count(self, uses: int) -> None:
        """Adds the uses by a call."""
        self.uses += uses

    def successor(self, element: Element) -> Block | None:
        return self.target.continuation

    def set_successor(self, element: Element, block: Block | None) -> None:
        self.target.continuation = block


def walk(root: Block) -> Iterator[Block]:
    """Every block of a tree, parents before children."""
    stack = [root]
    while stack:
        at = stack.pop()
        yield at
        stack.extend(at.children())


def ends_of(root: Block) -> list[Block]:
    """The blocks at which the paths below a block leave its tree: exits, and jumps out of it."""
    inside = set(walk(root))
    return [at for at in inside if not at.children() and at.target not in inside]
