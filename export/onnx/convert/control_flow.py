"""Writes the branches and loops of a control-flow tree as `If` and `Loop`.

The subgraph of an outcome contains everything up to the exit, so its results are those of the
function. A loop carries its phis. The iteration that leaves a loop passes them on unchanged, so the
outputs of the loop are the values at the start of that iteration. Its decisions are evaluated again
after the loop, which tells where to continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....capture.cfg.ir import (
    BackEdge,
    Block,
    Branch,
    Exit,
    IfMerge,
    LoopHeader,
    Yield,
    ends_of,
    walk,
)
from ....capture.cfg.visitor import Visitor
from ....capture.graph.graph import Node
from ....capture.scalars.scalar_expr import ScalarExpr, elements
from ....capture.sizes.symbolic_dim import Dim
from ....eager.errors import ExportError
from ..writer.graph_writer import OnnxValue
from ..writer.pointwise_formulas import BOOL
from .converter import Converter

Phi = Node | ScalarExpr
Finished = frozenset[LoopHeader]  # loops that have ended: no path continues in them


class Result(NamedTuple):
    """A value and its shape, with None for a size that depends on the path."""

    value: OnnxValue
    shape: tuple[Any, ...]


class LoopContext(NamedTuple):
    """The loop iteration being written: its carried values, as positions among the loop's phis.

    `continues`: the outcome of the decision at the loop's head that starts an iteration; None if
    the loop does not begin with a decision.
    """

    loop: LoopHeader
    carried: list[int]
    continues: bool | None


def operands_of(at: Block, outputs: Mapping[Exit, Sequence[Node]]) -> list[Node]:
    """The traced nodes that a block reads; those of the results for an exit."""
    return list(outputs[at]) if isinstance(at, Exit) else at.operands


class _Formulas(Visitor[Sequence[ScalarExpr]]):
    """Lists the scalar expressions that a block reads."""

    def other(self, at: Block) -> Sequence[ScalarExpr]:
        return ()

    def branch(self, at: Branch) -> Sequence[ScalarExpr]:
        return [at.subject] if isinstance(at.subject, ScalarExpr) else ()

    def loop_header(self, at: LoopHeader) -> Sequence[ScalarExpr]:
        return at.formulas

    def back_edge(self, at: BackEdge) -> Sequence[ScalarExpr]:
        return at.formulas

    def yield_values(self, at: Yield) -> Sequence[ScalarExpr]:
        return at.formulas


_FORMULAS = _Formulas()


class ControlFlowWriter(Visitor[list[Result]]):
    """Writes a control-flow tree; `outputs` are the traced nodes of the results at each exit."""

    def __init__(self, converter: Converter, outputs: Mapping[Exit, Sequence[Node]]) -> None:
        self.converter, self.outputs = converter, outputs
        self.writer = converter.writer
        self._read_after: dict[IfMerge, list[int]] = {}  # phis of a merge that are read later

    def write(self, at: Block, iteration: LoopContext | None = None,
              finished: Finished = frozenset()) -> list[Result]:
        """The results of the paths from this block on: those of the function, or of an iteration.

        The first result of an iteration tells if there is another one.
        """
        if iteration is not None and not _repeats(at, iteration.loop):
            return self._leave(iteration)
        return self.visit(at, iteration, finished)

    def other(self, at: Block, iteration: LoopContext | None, finished: Finished) -> list[Result]:
        raise _at(at, "the model would need a size or a gradient that depends on values",
                  "compute it outside of the model")

    def exit(self, at: Exit, iteration: LoopContext | None, finished: Finished) -> list[Result]:
        nodes = self.now(self.outputs[at])
        return [Result(v, n.type.shape) for v, n in zip(self.converter.write(nodes), nodes)]

    def now(self, nodes: Iterable[Node]) -> list[Node]:
        return [self.converter.now[n] for n in nodes]

    # ---- branches
    def branch(self, at: Branch, iteration: LoopContext | None, finished: Finished
               ) -> list[Result]:
        live = [block for block in at.outcomes.values() if not _is_finished(block, finished)]
        if len(live) == 1:
            return self.write(live[0], iteration, finished)
        yes, no = (at.outcomes[outcome] for outcome in (True, False))
        always_computed = _AlwaysComputed(self)
        self._write_common(always_computed.visit(yes, iteration, finished)
                           & always_computed.visit(no, iteration, finished))
        condition = self._truth(at.subject)
        sides = []
        for name, side in (("then", yes), ("else", no)):
            with self.converter.subgraph():
                results = self.write(side, iteration, finished)
                sides.append((results, self._graph(name, results)))
        (first, then), (second, otherwise) = sides
        shapes = _merged(at, first, second)
        self.writer.site = at.site
        values = self.writer.ops("If", [condition], [r.value.dtype for r in first],
                                 then_branch=then, else_branch=otherwise)
        self.writer.site = ""
        return list(map(Result, values, shapes))

    # ---- paths that merge
    def if_merge(self, at: IfMerge, iteration: LoopContext | None, finished: Finished
                 ) -> list[Result]:
        self._merge(at, finished)
        assert at.continuation is not None
        return self.write(at.continuation, iteration, finished)

    def yield_values(self, at: Yield, iteration: LoopContext | None, finished: Finished
                     ) -> list[Result]:
        return self._values(at.values, at.formulas, self.differing(at.target))

    def _merge(self, at: IfMerge, finished: Finished) -> None:
        """Writes a branch up to its merge; the values of the merge's phis are its results."""
        phis, yields = _phis(at), _jumps_to(at, at.body)
        differing = self.differing(at)
        for i in self._live_phis(at):
            if i not in differing:
                value = self._values(yields[0].values, yields[0].formulas, [i])[0].value
                self._bind(phis[i], value)
        if differing:
            assert at.body is not None
            for i, result in zip(differing, self.write(at.body, None, finished)):
                self._bind(phis[i], result.value)

    def _live_phis(self, at: IfMerge) -> list[int]:
        """The positions of the phis that are read after the merge."""
        if at not in self._read_after:
            assert at.continuation is not None
            read = self._phis_of(operand for block in walk(at.continuation)
                                 for operand in self._reads(block))
            self._read_after[at] = [i for i, phi in enumerate(_phis(at))
                                    if phi in read]
        return self._read_after[at]

    def differing(self, at: IfMerge) -> list[int]:
        """The positions of the live phis that differ by path, or are computed inside the branch."""
        assert at.body is not None
        inside = {phi for block in walk(at.body) for phi in _phis(block)}
        return [i for i in self._live_phis(at)
                if len(values := {_carried(y)[i] for y in _jumps_to(at, at.body)}) > 1
                or not inside.isdisjoint(self._phis_of(values))]

    def _reads(self, at: Block) -> list[Phi]:
        """The nodes and scalar expressions that a block reads."""
        operands: list[Phi] = [*operands_of(at, self.outputs)]
        return [*operands, *_FORMULAS.visit(at)]

    def _truth(self, subject: Node | ScalarExpr) -> OnnxValue:
        """The subject of a decision as a 0-d boolean."""
        if isinstance(subject, ScalarExpr):
            return self.converter.number(subject)
        node = self.converter.now[subject]
        value, = self.converter.write([node])
        if node.type.shape:
            value = self.writer.reshape(value, ())
        k = self.converter.number.k
        return value if value.dtype == BOOL else (k.wrap(value) != 0).value

    def cone(self, roots: Iterable[Node]) -> set[Node]:
        """The nodes that `roots` depend on and that are not written yet."""
        cone: set[Node] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node not in cone and not self.converter.is_there(node):
                cone.add(node)
                stack += self.converter.reads(node)
        return cone

    def _write_common(self, nodes: set[Node]) -> None:
        """Writes nodes that both sides of a branch compute, if their inputs are available."""
        available: set[Node] = set()
        for node in self.converter.nodes:
            if node in nodes and self._is_available(node) and all(
                    n in available or self.converter.is_there(n)
                    for n in self.converter.reads(node)):
                available.add(node)
        ends = [n for n in self.converter.nodes if n in available
                and not available.issuperset(self.converter.users[n])]
        self.converter.write(ends)

    def _is_available(self, node: Node) -> bool:
        """False for a loop-carried value whose loop has not begun."""
        formula = self.converter.numbers.get(node)
        if formula is None:
            return node.op != "input"
        return self.converter.number.is_computable(formula)

    # ---- loops
    def loop_header(self, at: LoopHeader, iteration: LoopContext | None, finished: Finished
                    ) -> list[Result]:
        self._loop(at, finished)
        assert at.body is not None
        return self.write(at.body, iteration, finished | {at})

    def _loop(self, at: LoopHeader, finished: Finished) -> None:
        """Writes a loop and binds its phis to the values at the start of its last iteration."""
        continues = _head_outcome(at)
        carried = self._live_carried(at, continues, finished)
        if not carried:
            return  # no result of the loop is read
        iteration = LoopContext(at, carried, continues)
        first = self._values(at.values, at.formulas, carried)
        go = self._continues(at, at, continues)
        phis = [_phis(at)[i] for i in carried]
        with self.converter.subgraph():
            inputs = [Result(OnnxValue(self.writer.unique("carried"), r.value.dtype), r.shape)
                      for r in first]
            for phi, value_in in zip(phis, inputs):
                self._bind(phi, value_in.value)
            body = at.body if continues is None else _sides(at)[continues]
            assert body is not None
            results = self.write(body, iteration, finished)
            graph = self._graph("body", results, inputs)
        for one, other in zip(first, results[1:]):
            if one.value.dtype != other.value.dtype:
                raise _at(at, f"a loop-carried number is {one.value.dtype.name} before the loop "
                              f"and {other.value.dtype.name} after an iteration",
                          "begin with the type that it has later: 0.0 instead of 0")
        self.writer.site = at.site
        values = self.writer.ops("Loop", [None, go, *(r.value for r in first)],
                                 [r.value.dtype for r in first], body=graph)
        self.writer.site = ""
        for phi, value in zip(phis, values):
            self._bind(phi, value)

    def _bind(self, phi: Phi, value: OnnxValue) -> None:
        self.converter.bind(phi if isinstance(phi, ScalarExpr) else self.converter.now[phi], value)

    def _values(self, nodes: Sequence[Node], formulas: Sequence[ScalarExpr], carried: list[int]
                ) -> list[Result]:
        """The values at the positions `carried` of nodes and, after them, formulas."""
        values = []
        for i in carried:
            if i < len(nodes):
                node = self.converter.now[nodes[i]]
                values.append(Result(self.converter.write([node])[0], node.type.shape))
            else:
                values.append(Result(self.converter.number(formulas[i - len(nodes)]), ()))
        return values

    def _condition(self, subject: Phi, continues: bool) -> OnnxValue:
        """True in the model if the decision on `subject` continues the loop."""
        value = self._truth(subject)
        return value if continues else self.writer.op("Not", [value], BOOL)

    def _continues(self, at: LoopHeader | BackEdge, loop: LoopHeader, continues: bool | None
                   ) -> OnnxValue:
        """True in the model if the values that a block carries begin an iteration."""
        return self.writer.const(np.array(True)) if continues is None else \
            self._condition(_last(at, loop), continues)

    def back_edge(self, at: BackEdge, iteration: LoopContext | None, finished: Finished
                  ) -> list[Result]:
        """The condition of the next iteration, and its initial values."""
        assert iteration is not None and at.target is iteration.loop
        go = self._continues(at, iteration.loop, iteration.continues)
        return [Result(go, ()), *self._values(at.values, at.formulas, iteration.carried)]

    def _leave(self, iteration: LoopContext) -> list[Result]:
        """The condition False, and the carried values unchanged."""
        same = self._values(iteration.loop.phis, iteration.loop.symbols, iteration.carried)
        return [Result(self.writer.const(np.array(False)), ()), *same]

    def _live_carried(self, at: LoopHeader, continues: bool | None, finished: Finished
                      ) -> list[int]:
        """The positions of the loop's phis that are read in or after the loop."""
        backs = _jumps_to(at, at)
        phis = _phis(at)
        reads: list[Phi] = []
        for block in walk(at):
            if block is at or block in backs:
                continue
            simple = continues is not None and block is at.body and \
                _is_finished(_sides(at)[continues], finished | {at})
            reads += [] if simple else self._reads(block)
        if continues is not None:
            reads += [_last(b, at) for b in backs]
        live: set[int] = set()
        while True:
            read = self._phis_of(reads)
            new = {i for i, phi in enumerate(phis) if phi in read} - live
            if not new:
                return sorted(live)
            live |= new
            reads = [_carried(b)[i] for b in backs for i in new]

    def _phis_of(self, roots: Iterable[Phi]) -> set[Phi]:
        """The phis that `roots` depend on."""
        converter = self.converter
        phis: set[Phi] = set()
        seen: set[Node] = set()
        traced = {converter.now[n]: n for n in converter.now if n.op == "input"}

        def operands(formula: ScalarExpr) -> Iterator[Node]:
            phis.update(part for part in formula.parts if part.op == "phi")
            return iter(self.now(elements([formula])))

        stack: list[Node] = []
        for root in roots:
            stack += operands(root) if isinstance(root, ScalarExpr) else [converter.now[root]]
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                if node in traced:
                    phis.add(traced[node])
                stack += operands(converter.numbers[node]) if node in converter.numbers \
                    else node.inputs
        return phis

    # ---- graphs
    def _graph(self, name: str, results: Sequence[Result], inputs: Sequence[Result] = ()) -> Any:
        """A subgraph of the nodes written last; a loop body gets an iteration and a condition."""
        from onnx import TensorProto, helper

        computed = {out for node in self.writer.nodes for out in node.output}
        outputs = []
        for result in results:
            value = result.value
            if value.name not in computed or value.name in outputs:
                value = self.writer.op("Identity", [value], value.dtype)
            outputs.append(value.name)
        loop_inputs = [] if name != "body" else [
            helper.make_tensor_value_info(self.writer.unique("iteration"), TensorProto.INT64, []),
            helper.make_tensor_value_info(self.writer.unique("go"), TensorProto.BOOL, [])]
        return helper.make_graph(
            self.writer.nodes, name, [*loop_inputs, *(described(r.value.name, r) for r in inputs)],
            [described(out, r) for out, r in zip(outputs, results)])


class _AlwaysComputed(Visitor[set[Node]]):
    """Finds the nodes that all paths from a block compute and that are not written yet."""

    def __init__(self, writer: ControlFlowWriter) -> None:
        self.writer = writer

    def visit(self, at: Block, *context: Any) -> set[Node]:
        iteration, _ = context
        if iteration is not None and not _repeats(at, iteration.loop):
            return set()
        return super().visit(at, *context)

    def other(self, at: Block, iteration: LoopContext | None, finished: Finished) -> set[Node]:
        return self._cone(operands_of(at, self.writer.outputs))

    def branch(self, at: Branch, iteration: LoopContext | None, finished: Finished) -> set[Node]:
        sides = [p for p in at.outcomes.values() if not _is_finished(p, finished)]
        computed = [self.visit(p, iteration, finished) for p in sides]
        both = set.intersection(*computed) if computed else set()
        return both | (self._cone(at.operands) if len(sides) > 1 else set())

    def if_merge(self, at: IfMerge, iteration: LoopContext | None, finished: Finished
                 ) -> set[Node]:
        assert at.body is not None and at.continuation is not None
        return self.visit(at.body, None, finished) \
            | self.visit(at.continuation, iteration, finished)

    def yield_values(self, at: Yield, iteration: LoopContext | None, finished: Finished
                     ) -> set[Node]:
        return self._cone(at.values[i] for i in self.writer.differing(at.target)
                          if i < len(at.values))

    def back_edge(self, at: BackEdge, iteration: LoopContext | None, finished: Finished
                  ) -> set[Node]:
        assert iteration is not None
        return self._cone(at.values[i] for i in iteration.carried if i < len(at.values))

    def _cone(self, nodes: Iterable[Node]) -> set[Node]:
        return self.writer.cone(self.writer.now(nodes))


def described(name: str, result: Result) -> Any:
    """The value info of a graph's input or output."""
    from onnx import helper

    shape = [str(n) if type(n) is Dim else None if n is None else int(n) for n in result.shape]
    kind = helper.np_dtype_to_tensor_dtype(result.value.dtype)
    return helper.make_tensor_value_info(name, kind, shape)


def _phis(at: Block) -> list[Phi]:
    """The phis of a loop or of a merge; no other block has any."""
    return [*at.phis, *at.symbols] if isinstance(at, (LoopHeader, IfMerge)) else []


def _jumps_to(target: LoopHeader | IfMerge, root: Block | None) -> list[Any]:
    """The back edges or yields below a block that jump to `target`."""
    assert root is not None
    return [p for p in walk(root) if p.target is target]


def _carried(at: LoopHeader | BackEdge | Yield) -> list[Phi]:
    return [*at.values, *at.formulas]


def _last(at: LoopHeader | BackEdge, loop: LoopHeader) -> Phi:
    """The subject of the decision at the loop's head, which is the last carried value."""
    assert isinstance(loop.body, Branch)
    return at.formulas[-1] if isinstance(loop.body.subject, ScalarExpr) else at.values[-1]


def _sides(at: LoopHeader) -> dict[Any, Block]:
    assert isinstance(at.body, Branch)
    return at.body.outcomes


def _head_outcome(at: LoopHeader) -> bool | None:
    """The outcome that starts an iteration, if the loop begins with its decision, else None."""
    body = at.body
    if not isinstance(body, Branch) or body.subject not in (
            *at.phis[-1:], *at.symbols[-1:]):
        return None
    outcomes = [outcome for outcome, side in body.outcomes.items() if _repeats(side, at)]
    return outcomes[0] if len(outcomes) == 1 else None


def _repeats(at: Block, loop: LoopHeader) -> bool:
    """True if a path from here leads into the next iteration of the loop."""
    return bool(_jumps_to(loop, at))


def _is_finished(at: Block, finished: Finished) -> bool:
    """True if all paths from here lead back to loops that have ended."""
    return bool(finished) and all(end.target in finished for end in ends_of(at))


def _merged(at: Branch, first: Sequence[Result], second: Sequence[Result]
            ) -> list[tuple[Any, ...]]:
    """The common shapes of both sides. Raises ExportError if dtypes or numbers of axes differ."""
    shapes = []
    for a, b in zip(first, second, strict=True):
        if a.value.dtype != b.value.dtype or len(a.shape) != len(b.shape):
            raise _at(at, "the paths of this branch return results of different types: "
                          f"{_kind(a)} if it is True, {_kind(b)} if it is False",
                      "give both the same dtype and number of axes")
        shapes.append(tuple(n if n is not None and m is not None and n == m else None
                            for n, m in zip(a.shape, b.shape)))
    return shapes


def _kind(result: Result) -> str:
    return f"{result.value.dtype.name}[{', '.join(str(n or '?') for n in result.shape)}]"


def _at(at: Block, message: str, help: str) -> ExportError:
    error = ExportError(message, help)
    error.line = at.site
    return error
