"""Decisions and loops of a function's ways as `If` and `Loop`.

A branch holds all that follows its answer, so its results are those of the function. A loop carries
its phis. What leaves it keeps them as they are, so that after the loop they tell the values that
its last turn began with, and that turn's decisions, followed again, where it goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....capture.graph.graph import Node
from ....capture.program.cfg import BackEdge, Block, Branch, Exit, IfMerge, LoopHeader, Yield
from ....capture.program.segment_planner import walk
from ....capture.scalars.scalar_expr import ScalarExpr, elements
from ....capture.sizes.symbolic_dim import Dim
from ....eager.errors import ExportError
from ..writer.graph_writer import Value
from ..writer.pointwise_formulas import BOOL
from .converter import Converter

Phi = Node | ScalarExpr
Over = frozenset[LoopHeader]  # loops that lie behind: nothing leads back to them


class Result(NamedTuple):
    """A value, and its shape; None for a size that depends on the way."""

    value: Value
    shape: tuple[Any, ...]


class Turn(NamedTuple):
    """The turn of a loop that is being written: what it carries, as places among all that the
    loop could, and how its question is answered to go on (None: it asks none at its head)."""

    loop: LoopHeader
    kept: list[int]
    going: bool | None


def wanted_of(at: Block, outputs: Mapping[Exit, Sequence[Node]]) -> list[Node]:
    """The recorded nodes that a place asks for."""
    return list(outputs[at]) if isinstance(at, Exit) else at.operands


class Flow:
    """Writes a tree of ways; `outputs` are the recorded nodes of the results at each end."""

    def __init__(self, converter: Converter, outputs: Mapping[Exit, Sequence[Node]]) -> None:
        self.converter, self.outputs = converter, outputs
        self.writer = converter.writer
        self._read_after: dict[IfMerge, list[int]] = {}  # of what ways have where they meet

    def write(self, at: Block, turn: Turn | None = None, over: Over = frozenset()
              ) -> list[Result]:
        """The results from this place on: of the function, or of a turn, whether there is another
        one first."""
        if turn is not None and not _goes_on(at, turn.loop):
            return self._leave(turn)
        if isinstance(at, Branch):
            return self._branch(at, turn, over)
        if isinstance(at, BackEdge):
            assert turn is not None and at.loop is turn.loop
            return self._next(at, turn)
        if isinstance(at, LoopHeader):
            self._loop(at, over)
            assert at.body is not None
            return self.write(at.body, turn, over | {at})
        if isinstance(at, IfMerge):
            self._fork(at, over)
            assert at.continuation is not None
            return self.write(at.continuation, turn, over)
        if isinstance(at, Yield):
            return self._values(at.values, at.formulas, self._differing(at.if_merge))
        assert isinstance(at, Exit)
        nodes = self._now(self.outputs[at])
        return [Result(v, n.type.shape) for v, n in zip(self.converter.write(nodes), nodes)]

    def _now(self, nodes: Iterable[Node]) -> list[Node]:
        return [self.converter.now[n] for n in nodes]

    # ---- branches
    def _branch(self, at: Branch, turn: Turn | None, over: Over) -> list[Result]:
        open_sides = {a: p for a, p in at.outcomes.items() if not _is_over(p, over)}
        if len(open_sides) == 1:
            return self.write(next(iter(open_sides.values())), turn, over)
        yes, no = (at.outcomes[answer] for answer in (True, False))
        self._write_common(self._surely(yes, turn, over) & self._surely(no, turn, over))
        condition = self._truth(at.subject)
        made = []
        for name, side in (("then", yes), ("else", no)):
            with self.converter.subgraph():
                results = self.write(side, turn, over)
                made.append((results, self._graph(name, results)))
        (first, then), (second, otherwise) = made
        shapes = _merged(at, first, second)
        self.writer.site = at.site
        values = self.writer.ops("If", [condition], [r.value.dtype for r in first],
                                 then_branch=then, else_branch=otherwise)
        self.writer.site = ""
        return list(map(Result, values, shapes))

    # ---- ways that meet
    def _fork(self, at: IfMerge, over: Over) -> None:
        """Writes a decision up to where its ways meet: what they have there are its results."""
        phis, met = _phis(at), _met(at)
        differing = self._differing(at)
        for i in self._asked_after(at):
            if i not in differing:
                self._bind(phis[i], self._values(met[0].values, met[0].formulas, [i])[0].value)
        if differing:
            assert at.body is not None
            for i, result in zip(differing, self.write(at.body, None, over)):
                self._bind(phis[i], result.value)

    def _asked_after(self, at: IfMerge) -> list[int]:
        """Which of its phis are read after ways have met."""
        if at not in self._read_after:
            assert at.continuation is not None
            read = self._phis_of(w for place in walk(at.continuation)
                                 for w in self._reads(place))
            self._read_after[at] = [i for i, phi in enumerate(_phis(at))
                                    if phi in read]
        return self._read_after[at]

    def _differing(self, at: IfMerge) -> list[int]:
        """Those that are not the same on all ways, and known before."""
        assert at.body is not None
        inside = {phi for place in walk(at.body) for phi in _phis(place)}
        return [i for i in self._asked_after(at)
                if len(ways := {_carried(m)[i] for m in _met(at)}) > 1
                or not inside.isdisjoint(self._phis_of(ways))]

    def _reads(self, at: Block) -> list[Phi]:
        """What a place reads."""
        found: list[Phi] = [*wanted_of(at, self.outputs)]
        if isinstance(at, (LoopHeader, BackEdge, Yield)):
            found += at.formulas
        if isinstance(at, Branch) and isinstance(at.subject, ScalarExpr):
            found.append(at.subject)
        return found

    def _truth(self, subject: Node | ScalarExpr) -> Value:
        """What a question amounts to, as a 0-d truth value."""
        if isinstance(subject, ScalarExpr):
            return self.converter.number(subject)
        node = self.converter.now[subject]
        value, = self.converter.write([node])
        if node.type.shape:
            value = self.writer.reshape(value, ())
        k = self.converter.number.k
        return value if value.dtype == BOOL else (k.wrap(value) != 0).value

    def _surely(self, at: Block, turn: Turn | None, over: Over) -> set[Node]:
        """What is computed from this place on, whatever is decided."""
        if isinstance(at, Branch):
            sides = [p for p in at.outcomes.values() if not _is_over(p, over)]
            if turn is not None and not _goes_on(at, turn.loop):
                return set()
            found = [self._surely(p, turn, over) for p in sides]
            both = set.intersection(*found) if found else set()
            return both | (self._cone(self._now(at.operands)) if len(sides) > 1 else set())
        if turn is not None and not _goes_on(at, turn.loop):
            return set()
        if isinstance(at, IfMerge):
            assert at.body is not None and at.continuation is not None
            return self._surely(at.body, None, over) | self._surely(at.continuation, turn,
                                                                    over)
        if isinstance(at, Yield):
            values = [at.values[i] for i in self._differing(at.if_merge) if i < len(at.values)]
            return self._cone(self._now(values))
        if isinstance(at, BackEdge):
            assert turn is not None
            values = [at.repeat.values[i] for i in turn.kept if i < len(at.repeat.values)]
            return self._cone(self._now(values))
        return self._cone(self._now(wanted_of(at, self.outputs)))

    def _cone(self, roots: Iterable[Node]) -> set[Node]:
        """What has to be written for these."""
        found: set[Node] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node not in found and not self.converter.is_there(node):
                found.add(node)
                stack += self.converter.reads(node)
        return found

    def _write_common(self, nodes: set[Node]) -> None:
        """Writes what both sides of a branch compute, as far as it is known before."""
        known: set[Node] = set()
        for node in self.converter.nodes:
            if node in nodes and self._is_known(node) and all(
                    n in known or self.converter.is_there(n) for n in self.converter.reads(node)):
                known.add(node)
        ends = [n for n in self.converter.nodes if n in known
                and not known.issuperset(self.converter.users[n])]
        self.converter.write(ends)

    def _is_known(self, node: Node) -> bool:
        """Whether it is not itself carried by a loop that has not begun."""
        formula = self.converter.numbers.get(node)
        return node.op != "input" if formula is None else self.converter.number.is_known(formula)

    # ---- loops
    def _loop(self, at: LoopHeader, over: Over) -> None:
        """Writes a loop; after it, its phis are what its last turn began with."""
        going = _asked_first(at)
        kept = self._kept(at, going, over)
        if not kept:
            return  # nobody reads what it does
        turn = Turn(at, kept, going)
        first = self._values(at.entry.values, at.entry.formulas, kept)
        go = self.writer.const(np.array(True)) if going is None else \
            self._answer(_last(at.entry.values, at.entry.formulas, at), going)
        phis = [_phis(at)[i] for i in kept]
        with self.converter.subgraph():
            inputs = [Result(Value(self.writer.unique("carried"), r.value.dtype), r.shape)
                      for r in first]
            for phi, given in zip(phis, inputs):
                self._bind(phi, given.value)
            body = at.body if going is None else _sides(at)[going]
            assert body is not None
            results = self.write(body, turn, over)
            graph = self._graph("body", results, inputs)
        for one, other in zip(first, results[1:]):
            if one.value.dtype != other.value.dtype:
                raise _at(at, f"a number that the loop carries is of {one.value.dtype.name} at "
                              f"first and of {other.value.dtype.name} in the next turn",
                          "begin with the type that it has later: 0.0 in place of 0")
        self.writer.site = at.site
        values = self.writer.ops("Loop", [None, go, *(r.value for r in first)],
                                 [r.value.dtype for r in first], body=graph)
        self.writer.site = ""
        for phi, value in zip(phis, values):
            self._bind(phi, value)

    def _bind(self, phi: Phi, value: Value) -> None:
        self.converter.bind(phi if isinstance(phi, ScalarExpr) else self.converter.now[phi], value)

    def _values(self, nodes: Sequence[Node], formulas: Sequence[ScalarExpr], kept: list[int]
                ) -> list[Result]:
        """Those of nodes and numbers that are carried."""
        found = []
        for i in kept:
            if i < len(nodes):
                node = self.converter.now[nodes[i]]
                found.append(Result(self.converter.write([node])[0], node.type.shape))
            else:
                found.append(Result(self.converter.number(formulas[i - len(nodes)]), ()))
        return found

    def _answer(self, subject: Phi, going: bool) -> Value:
        """Whether a question is answered so that the loop goes on."""
        value = self._truth(subject)
        return value if going else self.writer.op("Not", [value], BOOL)

    def _next(self, at: BackEdge, turn: Turn) -> list[Result]:
        """Whether there is another turn, and what it begins with."""
        jump = at.repeat
        go = self.writer.const(np.array(True)) if turn.going is None else \
            self._answer(_last(jump.values, jump.formulas, turn.loop), turn.going)
        return [Result(go, ()), *self._values(jump.values, jump.formulas, turn.kept)]

    def _leave(self, turn: Turn) -> list[Result]:
        """No other turn, and all that is carried as it was."""
        enter = turn.loop.entry
        same = self._values(enter.phis, enter.symbols, turn.kept)
        return [Result(self.writer.const(np.array(False)), ()), *same]

    def _kept(self, at: LoopHeader, going: bool | None, over: Over) -> list[int]:
        """Which of the values that a loop could carry are read by anything."""
        backs = [p for p in walk(at) if isinstance(p, BackEdge) and p.loop is at]
        phis = _phis(at)
        wanted: list[Phi] = []
        for place in walk(at):
            if place is at or place in backs:
                continue
            simple = going is not None and place is at.body and \
                _is_over(_sides(at)[going], over | {at})
            wanted += [] if simple else self._reads(place)
        if going is not None:
            wanted += [_last(b.repeat.values, b.repeat.formulas, at) for b in backs]
        kept: set[int] = set()
        while True:
            read = self._phis_of(wanted)
            new = {i for i, phi in enumerate(phis) if phi in read} - kept
            if not new:
                return sorted(kept)
            kept |= new
            wanted = [_carried(b)[i] for b in backs for i in new]

    def _phis_of(self, wanted: Iterable[Phi]) -> set[Phi]:
        """What of all that loops carry these are computed from."""
        converter = self.converter
        found: set[Phi] = set()
        seen: set[Node] = set()
        back = {converter.now[n]: n for n in converter.now if n.op == "input"}

        def look(formula: ScalarExpr) -> Iterator[Node]:
            found.update(part for part in formula.parts if part.op == "phi")
            return iter(self._now(elements([formula])))

        stack: list[Node] = []
        for one in wanted:
            stack += look(one) if isinstance(one, ScalarExpr) else [converter.now[one]]
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                if node in back:
                    found.add(back[node])
                stack += look(converter.numbers[node]) if node in converter.numbers \
                    else node.inputs
        return found

    # ---- graphs
    def _graph(self, name: str, results: Sequence[Result], inputs: Sequence[Result] = ()) -> Any:
        """What was written as a graph of its own; that of a loop begins with two inputs more."""
        from onnx import TensorProto, helper

        made = {out for node in self.writer.nodes for out in node.output}
        outputs = []
        for result in results:
            value = result.value
            if value.name not in made or value.name in outputs:
                value = self.writer.op("Identity", [value], value.dtype)
            outputs.append(value.name)
        given = [] if name != "body" else [
            helper.make_tensor_value_info(self.writer.unique("turn"), TensorProto.INT64, []),
            helper.make_tensor_value_info(self.writer.unique("go"), TensorProto.BOOL, [])]
        return helper.make_graph(
            self.writer.nodes, name, [*given, *(described(r.value.name, r) for r in inputs)],
            [described(out, r) for out, r in zip(outputs, results)])


def described(name: str, result: Result) -> Any:
    """A value as graphs declare those that go in and out."""
    from onnx import helper

    shape = [str(n) if type(n) is Dim else None if n is None else int(n) for n in result.shape]
    kind = helper.np_dtype_to_tensor_dtype(result.value.dtype)
    return helper.make_tensor_value_info(name, kind, shape)


def _phis(at: Block) -> list[Phi]:
    """What a loop carries, or ways have where they meet."""
    if isinstance(at, LoopHeader):
        return [*at.entry.phis, *at.entry.symbols]
    return [*at.phis, *at.symbols] if isinstance(at, IfMerge) else []


def _carried(at: BackEdge | Yield) -> list[Phi]:
    return [*at.values, *at.formulas]


def _met(at: IfMerge) -> list[Yield]:
    """The ends of the ways that meet."""
    assert at.body is not None
    return [p for p in walk(at.body) if isinstance(p, Yield) and p.if_merge is at]


def _last(values: Sequence[Node], formulas: Sequence[ScalarExpr], at: LoopHeader) -> Phi:
    """What the loop asks about at its head, among what it carries."""
    assert isinstance(at.body, Branch)
    return formulas[-1] if isinstance(at.body.subject, ScalarExpr) else values[-1]


def _sides(at: LoopHeader) -> dict[Any, Block]:
    assert isinstance(at.body, Branch)
    return at.body.outcomes


def _asked_first(at: LoopHeader) -> bool | None:
    """The answer that lets a loop go on, where it begins with its question."""
    body = at.body
    if not isinstance(body, Branch) or body.subject not in (
            *at.entry.phis[-1:], *at.entry.symbols[-1:]):
        return None
    going = [answer for answer, side in body.outcomes.items() if _goes_on(side, at)]
    return going[0] if len(going) == 1 else None


def _goes_on(at: Block, loop: LoopHeader) -> bool:
    """Whether a way from here leads into the next turn of the loop."""
    return any(isinstance(p, BackEdge) and p.loop is loop for p in walk(at))


def _is_over(at: Block, over: Over) -> bool:
    """Whether all ways from here lead back to loops that lie behind."""
    if not over:
        return False
    places = set(walk(at))
    ends = [p for p in places if isinstance(p, Exit)
            or (isinstance(p, BackEdge) and p.loop not in places)
            or (isinstance(p, Yield) and p.if_merge not in places)]
    return all(isinstance(p, BackEdge) and p.loop in over for p in ends)


def _merged(at: Branch, first: Sequence[Result], second: Sequence[Result]
            ) -> list[tuple[Any, ...]]:
    """The shapes of both sides as one. ExportError where they are of different kinds."""
    shapes = []
    for a, b in zip(first, second, strict=True):
        if a.value.dtype != b.value.dtype or len(a.shape) != len(b.shape):
            raise _at(at, "the ways from here give results of different kinds: "
                          f"{_kind(a)} where this is True, {_kind(b)} where it is False",
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
