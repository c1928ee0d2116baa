"""Verifies that a control-flow graph is well formed, whenever a path has been added to it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...eager.errors import GraphError
from ..graph.graph import Node
from ..scalars.scalar_expr import ScalarExpr, elements
from ..segments.segment import Segment, cone
from ..trace.value_table import ValueTable
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
    walk,
)
from .text import Printer
from .twins import Twins
from .visitor import Visitor


class Problem(NamedTuple):
    """A rule that a block breaks. `values` are the nodes and scalar expressions for the places {}
    of the text."""

    text: str
    values: tuple[Any, ...] = ()


class _Scope(NamedTuple):
    """What holds on entry to a block: the values defined on the path, and the loops and merges
    around it."""

    defined: frozenset[Any] = frozenset()
    around: tuple[LoopHeader | IfMerge, ...] = ()

    def with_values(self, *values: Iterable[Any]) -> _Scope:
        return self._replace(defined=self.defined.union(*values))

    def within(self, block: LoopHeader | IfMerge) -> _Scope:
        return self._replace(around=(*self.around, block))


Inside = list[tuple[Block | None, _Scope]]  # blocks below, each with its scope


def verify(root: Block, names: ValueTable, after: str, planned: bool = True,
           inputs: Container[Node] = ()) -> Block:
    """The root itself. Raises GraphError with the block and the value if a rule is broken.

    With `planned`, segments must compute all values that blocks read. `inputs` are inputs that have
    no access path.
    """
    found = next(_Verifier(names, planned, inputs).problems(root), None)
    if found is not None:
        block, problem = found
        printer = Printer(names)
        text = "\n".join(printer.lines(root))
        values = [printer.shown(v) for v in problem.values]
        raise GraphError(f"after {after}: {printer.labels.get(block, 'a block')}"
                         f"{f' at {block.site}' if block.site else ''}: "
                         f"{problem.text.format(*values)}\n{text}")
    return root


class _Verifier(Visitor[Iterator[Problem]]):
    """Finds broken rules. The methods for kinds of blocks verify how a block ends, and set the
    scopes of the blocks below it."""

    def __init__(self, names: ValueTable, planned: bool, inputs: Container[Node]) -> None:
        self.names, self.planned, self.inputs = names, planned, inputs
        self._below: Inside = []
        self._reached: set[Block | None] = set()  # the targets of jumps

    def problems(self, root: Block) -> Iterator[tuple[Block, Problem]]:
        blocks: set[Block] = set()
        for block in walk(root):
            if block in blocks:
                yield block, Problem("two blocks lead to it, and neither jumps")
                return
            blocks.add(block)
        self._reached = {block.target for block in blocks}
        twins = Twins(root)
        stack: list[tuple[Block, _Scope]] = [(root, _Scope())]
        while stack:
            block, scope = stack.pop()
            scope = scope.with_values(twins.available(block, frozenset()))
            self._below = []
            for problem in self._block(block, scope):
                yield block, problem
            for child, inside in self._below:
                if child is None:
                    yield block, Problem("no block follows it")
                else:
                    stack.append((child, inside))

    def _block(self, block: Block, scope: _Scope) -> Iterator[Problem]:
        for segment in block.segments:
            yield from self._segment(segment, scope)
            scope = scope.with_values(segment.outputs)
        yield from self._values(block.operands if block.exits else block.required, scope)
        yield from self.visit(block, scope)

    # ---- values
    def _values(self, nodes: Iterable[Node], scope: _Scope) -> Iterator[Problem]:
        """Problems with nodes that are read here: in a planned graph they are in registers, before
        they can be computed from values that are defined."""
        nodes = list(nodes)
        if self.planned:
            for node in nodes:
                if node not in scope.defined:
                    yield Problem("it reads {}, which no segment before it computes", (node,))
            return
        for node in cone(nodes, scope.defined):
            if node in scope.defined or node in self.names.paths or node in self.inputs:
                continue
            if node in self.names.numbers:
                yield from self._formulas([self.names.numbers[node]], scope)
            elif node.op == "input" or node in self.names.data_dependent:
                yield Problem("it reads {}, which no block before it defines", (node,))

    def _formulas(self, formulas: Iterable[Any], scope: _Scope) -> Iterator[Problem]:
        """Problems with scalar expressions that are read here."""
        formulas = [f for f in formulas if isinstance(f, ScalarExpr)]
        for formula in formulas:
            for part in formula.parts:
                if part.op == "phi" and part not in scope.defined:
                    yield Problem("it reads {}, which no block before it defines", (part,))
        yield from self._values(elements(formulas), scope)

    def _segment(self, segment: Segment, scope: _Scope) -> Iterator[Problem]:
        tensors, numbers, registers = segment.inputs
        for node in registers:
            if node not in scope.defined:
                yield Problem("a segment reads {}, which no segment before it computes", (node,))
        for node in tensors:
            if node not in self.names.paths:
                yield Problem("a segment reads {}, which is no tensor of the call", (node,))
        for node in numbers:
            if node not in self.names.numbers:
                yield Problem("a segment reads {}, which is no number", (node,))
            else:
                yield from self._formulas([self.names.numbers[node]], scope)
        graph = segment.graph
        pairs = [*zip((*tensors, *numbers, *registers), graph.inputs),
                 *zip(segment.outputs, graph.outputs)]
        if len(pairs) != len(graph.inputs) + len(graph.outputs):
            yield Problem("a segment has other numbers of values than its graph")
        for node, inner in pairs:
            if node.type != inner.type:
                yield Problem(f"{{}} is {node.type}, and {inner.type} in its segment", (node,))

    def _assignments(self, block: Any, target: Any, scope: _Scope) -> Iterator[Problem]:
        """Problems with the values that a block gives to the phis of a loop or a merge."""
        yield from self._formulas(block.formulas, scope)
        if len(block.values) != len(target.phis) or len(block.formulas) != len(target.symbols):
            yield Problem(f"it has {len(block.values)} tensors and {len(block.formulas)} numbers "
                          f"for {len(target.phis)} and {len(target.symbols)} phis")
        for phi, value in zip(target.phis, block.values):
            if phi.type != value.type:
                yield Problem(f"{{}} is {value.type}, and the phi {{}} is {phi.type}",
                              (value, phi))

    def _new_phis(self, block: Any, scope: _Scope) -> Iterator[Problem]:
        """Problems with the phis that a block defines."""
        phis = [*block.phis, *getattr(block, "symbols", ())]
        for i, phi in enumerate(phis):
            if phi in scope.defined or phi in phis[:i]:
                yield Problem("it defines {}, which is defined already", (phi,))

    # ---- ends of blocks
    def branch(self, block: Branch, scope: _Scope) -> Iterator[Problem]:
        yield from self._formulas([block.subject], scope)
        if not block.outcomes:
            yield Problem("it has no outcome")
        if block.kind == "bool" and any(type(o) is not bool for o in block.outcomes):
            yield Problem(f"its outcomes are {', '.join(map(repr, block.outcomes))} for a bool")
        if len({type(o) for o in block.outcomes}) > 1 and block.kind == "value":
            yield Problem("its outcomes are of different types")
        self._below = [(child, scope) for child in block.outcomes.values()]

    def size_definition(self, block: SizeDefinition, scope: _Scope) -> Iterator[Problem]:
        node = block.element.node
        if node not in self.names.data_dependent:
            yield Problem("{} has no data-dependent size", (node,))
        if node in scope.defined:
            yield Problem("it defines {}, which is defined already", (node,))
        yield from self._formulas([block.element.formula], scope)
        self._below = [(block.body, scope.with_values([node]))]

    def host_call(self, block: HostCall, scope: _Scope) -> Iterator[Problem]:
        yield from self._formulas(block.element.formulas, scope)
        self._below = [(block.body, scope.with_values(block.symbols))]

    def loop_header(self, block: LoopHeader, scope: _Scope) -> Iterator[Problem]:
        yield from self._assignments(block, block, scope)
        yield from self._new_phis(block, scope)
        self._below = [(block.body, scope.with_values(block.phis, block.symbols).within(block))]

    def back_edge(self, block: BackEdge, scope: _Scope) -> Iterator[Problem]:
        if block.target not in scope.around:
            yield Problem("it continues a loop that it is not in")
        yield from self._assignments(block, block.target, scope)
        for vjp, segments in block.vjps.values():
            inside = scope.with_values(vjp.incoming.values())
            for slot, node in vjp.incoming.items():
                yield from self._slot(block.target, slot, node)
            for segment in segments:
                yield from self._segment(segment, inside)
                inside = inside.with_values(segment.outputs)
            yield from self._values(vjp.gradients.values(), inside)
            for (kind, key), node in vjp.gradients.items():
                if kind == "slot":
                    yield from self._slot(block.target, key, node)

    def _slot(self, loop: LoopHeader, slot: int, gradient: Node) -> Iterator[Problem]:
        """Problems with the gradient of a carried tensor."""
        if slot >= len(loop.phis):
            yield Problem(f"{{}} is the gradient of phi {slot} of {len(loop.phis)}", (gradient,))
        elif loop.phis[slot].type != gradient.type:
            yield Problem(f"{{}} is {gradient.type}, and the phi {{}} is {loop.phis[slot].type}",
                          (gradient, loop.phis[slot]))

    def loop_backward(self, block: LoopBackward, scope: _Scope) -> Iterator[Problem]:
        element = block.element
        loops = [at for at in scope.around
                 if isinstance(at, LoopHeader) and at.element.token == element.token]
        if not loops:
            yield Problem("it is the backward of a loop that no block before it begins")
        if len(element.results) != len(element.phis):
            yield Problem(f"it has {len(element.phis)} phis for {len(element.results)} results")
        of_slots = [(key[1], phi) for key, phi in zip(element.results, element.phis)
                    if key[0] == "slot"]
        for loop in loops:
            for slot, node in (*element.incoming, *of_slots):
                yield from self._slot(loop, slot, node)
        self._below = [(block.body, scope.with_values(element.phis))]

    def if_merge(self, block: IfMerge, scope: _Scope) -> Iterator[Problem]:
        is_reached = block in self._reached
        if block.continuation is not None and not is_reached:
            yield Problem("no path reaches its merge, which has a continuation")
        yield from self._new_phis(block, scope)
        self._below = [(block.body, scope.within(block))]
        if block.continuation is not None or (self.planned and is_reached):
            self._below.append((block.continuation,
                                scope.with_values(block.phis, block.symbols)))

    def yield_values(self, block: Yield, scope: _Scope) -> Iterator[Problem]:
        if block.target not in scope.around:
            yield Problem("it leads to a merge that it is not in")
        if (block.element.phis, block.element.symbols) != (block.target.phis, block.target.symbols):
            yield Problem("it assigns other phis than those of its merge")
        yield from self._assignments(block, block.target, scope)

    def exit(self, block: Exit, scope: _Scope) -> Iterator[Problem]:
        for trace_exit in block.exits:
            yield from self._formulas(trace_exit.formulas, scope)
            inside = scope
            if trace_exit.segment is not None:
                yield from self._segment(trace_exit.segment, scope)
                inside = scope.with_values(trace_exit.segment.outputs)
            yield from self._values(trace_exit.outputs, inside)
            yield from _indices(trace_exit.outputs, [t.value for t in trace_exit.tensors])
        self._below = [(child, scope.with_values(block.definitions(child)))
                       for child in block.children()]

    def end_of_backward(self, block: EndOfBackward, scope: _Scope) -> Iterator[Problem]:
        inputs, nodes, formulas, _ = block.element
        if not len(inputs) == len(nodes) == len(formulas):
            yield Problem(f"it has {len(nodes)} gradients and {len(formulas)} numbers for "
                          f"{len(inputs)} inputs")


def _indices(outputs: Sequence[Node], used: Sequence[int]) -> Iterator[Problem]:
    """Problems with the outputs that become tensors."""
    for i in used:
        if i >= len(outputs):
            yield Problem(f"its result uses output {i} of {len(outputs)}")
