"""The tree of a program as lines of Python: what a call does between its guards and its end.

Decisions become `if`, loops `while True`, stages calls. Arrays from outside are in the list
`arrays`; whatever is computed is in variables, one for each node.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..control_flow.decision import outcome_of
from ..graph.graph import Node
from ..guards.guards import PathCodegen
from ..heap.access_path import Path
from ..program.cfg import BackEdge, Block, Branch, Exit, LoopHeader
from ..program.stage_planner import walk
from ..program.trace_exit import TraceExit
from ..scalars.scalar_expr import OPERATORS, ScalarExpr
from ..segments.segment import Segment, operand
from ..sizes.size_expr import SizeExpr
from ..trace.dynamic_inputs import Axis

_DEEPEST = 40  # decisions below each other: Python has a limit
_LARGEST = 200  # places
_FEW = 4  # arrays that are taken out of the list one by one


class NoFastPath(Exception):
    """A tree has something that is not done in straight lines."""


class PythonBackend:
    """Writes the lines. `numbers` are the places of tensors among `arrays`, `sizes` the axes that
    have them; `source` reads paths and takes constants; `checked`: what a leaf depends on has been
    looked at. `ends` are the leaves, by the numbers that they have in the lines."""

    def __init__(self, numbers: dict[Path, int], sizes: Mapping[str, Axis], source: PathCodegen,
                 checked: bool) -> None:
        self.numbers, self.sizes = numbers, sizes
        self.source, self.checked = source, checked
        self.ends: list[TraceExit] = []
        self._variables: dict[Any, str] = {}  # of nodes, formulas, and numbers that loops carry
        self._loops: list[LoopHeader] = []  # around the present place, the innermost last
        self._constants: dict[int, str] = {}

    def lines(self, root: Block) -> list[str]:
        """The lines for a whole tree; NoFastPath where there are none. They set `end`, the number
        of a leaf, and `found`, its arrays, or return UNSEEN."""
        if sum(1 for _ in walk(root)) > _LARGEST:
            raise NoFastPath
        lines = list(self._place(root, 0))
        return ["values = {}", *lines] if any(leaf.formulas for leaf in self.ends) else lines

    # ---- places

    def _place(self, at: Block | None, depth: int) -> Iterator[str]:
        if at is None:
            yield "return UNSEEN"
            return
        if depth > _DEEPEST:
            raise NoFastPath
        for stage in at.segments:
            yield from self._stage(stage)
        if isinstance(at, Exit):
            yield from self._ends(at)
        elif isinstance(at, Branch):
            yield from self._branch(at, depth)
        elif isinstance(at, LoopHeader):
            yield from self._loop(at, depth)
        elif isinstance(at, BackEdge) and not at.vjps:
            yield from self._back(at)
        else:
            raise NoFastPath

    def _branch(self, at: Branch, depth: int) -> Iterator[str]:
        yield from self._computed(at.subject)
        answer = self._variable(at.subject)
        if at.kind == "bool":
            answers = {f"if {answer}:": at.outcomes.get(True), "else:": at.outcomes.get(False)}
        else:
            known = {outcome: number for number, outcome in enumerate(at.outcomes)}
            asked = f"OUTCOME({at.kind!r}, {self._constant(at.subject)}, {answer})"
            yield f"way = {self.source.constant(known)}.get({asked}, -1)"
            answers = {f"{'el' if i else ''}if way == {i}:": place
                       for i, place in enumerate(at.outcomes.values())} | {"else:": None}
        for condition, place in answers.items():
            yield condition
            yield from _indented(self._place(place, depth + 1))

    def _loop(self, at: LoopHeader, depth: int) -> Iterator[str]:
        yield from self._carry(at.values, at.formulas, at)
        self._loops.append(at)
        yield "while True:"
        yield from _indented(self._place(at.body, depth + 1))
        self._loops.pop()
        if self._loops:  # what left it goes on with the loop around it, or has come to an end
            yield f"if to is not {self._constant(self._loops[-1])}: break"

    def _back(self, at: BackEdge) -> Iterator[str]:
        yield from self._carry(at.values, at.formulas, at.loop)
        loop = self._constant(at.loop)
        yield f"{loop}.iterations += 1"
        yield from ["continue"] if at.loop is self._loops[-1] else [f"to = {loop}", "break"]

    def _carry(self, values: Sequence[Node], formulas: Sequence[ScalarExpr], loop: LoopHeader
               ) -> Iterator[str]:
        """What a loop carries gets its next values, all at once."""
        for formula in formulas:
            yield from self._computed(formula)
        given = [self._variable(v) for v in (*values, *formulas)]
        taken = [self._variable(p) for p in loop.entry.phis]
        taken += [self._variable(s.args[0]) for s in loop.entry.symbols]
        if taken:
            yield f"{', '.join(taken)}, = {', '.join(given)},"

    def _ends(self, at: Exit) -> Iterator[str]:
        for leaf in at.exits:
            lines = [*self._leaf(leaf), *(["to = None", "break"] if self._loops else [])]
            if self.checked:
                yield from lines
                return
            yield f"{'if' if leaf is at.exits[0] else 'elif'} {self._constant(leaf)}.check(" \
                  "args, kwargs) < 0:"
            yield from _indented(lines)
        yield "else: return UNSEEN"

    def _leaf(self, leaf: TraceExit) -> Iterator[str]:
        if leaf.backward is not None or leaf.segment is None:
            raise NoFastPath
        for formula in leaf.formulas:
            yield from self._computed(formula)
            yield f"values[{self._constant(formula)}] = {self._variable(formula)}"
        yield from self._given(leaf.segment, last=True)
        arrays = [name for key, name in self._variables.items() if isinstance(key, Node)]
        yield " = ".join(["arrays", *arrays, "None"])  # what nobody else holds is overwritten
        if leaf.effects:
            yield "section.open = False"
        yield f"found, end = {self._code(leaf.segment)}(given), {len(self.ends)}"
        self.ends.append(leaf)

    # ---- stages

    def _stage(self, stage: Segment) -> Iterator[str]:
        yield from self._given(stage)
        yield f"{', '.join(map(self._variable, stage.outputs))}, = {self._code(stage)}(given)"

    def _code(self, stage: Segment) -> str:
        if stage.executable is None:
            return f"{self._constant(stage)}.compile()"
        return self._constant(stage.executable.__call__, stage.executable)

    def _given(self, stage: Segment, last: bool = False) -> Iterator[str]:
        """`given`: what a stage is called with."""
        places = [self.numbers[p] for p in stage.paths]
        every = [number for number in self.numbers.values() if number >= 0]
        if last and places == sorted(every) and stage.inputs == (stage.inputs.tensors, [], []):
            yield "given = arrays"
            return
        if len(places) > _FEW:
            parts = [f"*{self.source.constant(operator.itemgetter(*places))}(arrays)"]
        else:
            parts = [f"arrays[{i}]" for i in places]
        for node in stage.inputs.numbers:
            formula = stage.names.numbers[node]
            yield from self._computed(formula)
            parts.append(f"OPERAND({self._variable(formula)}, {self._constant(node)})")
        parts += map(self._variable, stage.inputs.registers)
        yield f"given = [{', '.join(parts)}]"

    # ---- numbers

    def _computed(self, subject: Node | ScalarExpr) -> Iterator[str]:
        """Lines that compute a number; a node is computed already. Its parts are computed anew each
        time: where they were before may be on another way."""
        for part in subject.parts if isinstance(subject, ScalarExpr) else ():
            yield f"{self._variable(part)} = {self._part(part)}"

    def _part(self, part: ScalarExpr) -> str:
        if part.op in OPERATORS:
            given = ", ".join(map(self._variable, part.args))
            return f"{self.source.constant(OPERATORS[part.op])}({given})"
        origin, = part.args
        if part.op == "constant":
            return self.source.constant(origin.value)
        if part.op == "element":
            return f"{self._variable(origin)}.item()"
        if part.op == "phi":
            return self._variable(origin)
        if part.op == "given":
            return self.source.read(origin)
        if part.op == "size":
            return self._size(origin)
        raise NoFastPath

    def _size(self, expr: SizeExpr) -> str:
        names = sorted(expr.symbols())
        if not self.sizes.keys() >= {*names}:  # one that is found while a call runs
            raise NoFastPath
        places = [(name, *self.sizes[name]) for name in names]
        read = [f"{name!r}: {self.source.read(path)}._data.shape[{axis}]"
                for name, path, axis in places]
        return f"{self.source.constant(expr)}.value({{{', '.join(read)}}})"

    # ---- names

    def _variable(self, key: Any) -> str:
        return self._variables.setdefault(key, f"r{len(self._variables)}")

    def _constant(self, value: Any, owner: Any = None) -> str:
        """The name of an object; of a method of it, where there is an `owner`."""
        key = id(value if owner is None else owner)
        if key not in self._constants:
            self._constants[key] = self.source.constant(value)
        return self._constants[key]


SCOPE = {"OUTCOME": outcome_of, "OPERAND": operand}  # what the lines use


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
