"""Generates Python code for the control-flow tree of a program.

Branches become `if`, loops become `while True`, and segments become calls. The list `arrays` holds
the input arrays. Each computed node has a variable.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...eager.core.op import OPS
from ...eager.ops.data_dependent import run
from ..cfg.ir import (
    BackEdge,
    Block,
    Branch,
    Exit,
    HostCall,
    IfMerge,
    LoopHeader,
    SizeDefinition,
    Yield,
    walk,
)
from ..cfg.trace_exit import TraceExit
from ..cfg.visitor import Visitor
from ..control_flow.data_dependent_sizes import DataDependentSize, array_of_size
from ..control_flow.decision import outcome_of
from ..effects.effect_call import ClockRead
from ..graph.graph import Node
from ..guards.guards import PathCodegen
from ..heap.access_path import Path
from ..scalars.scalar_expr import OPERATORS, ScalarExpr
from ..segments.segment import Segment, operand
from ..sizes.size_expr import SizeExpr
from ..trace.dynamic_inputs import Axis

_MAX_NESTING = 40  # nested blocks: Python limits the nesting of code
_MAX_BLOCKS = 400  # blocks
_MAX_INDEXED_ARRAYS = 4  # arrays that are indexed one by one
# Python's syntax of operators; calls of functions take longer.
_SYNTAX = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "truediv": "{} / {}",
    "floordiv": "{} // {}", "mod": "{} % {}", "neg": "-{}", "lt": "{} < {}", "le": "{} <= {}",
    "eq": "{} == {}", "ne": "{} != {}", "gt": "{} > {}", "ge": "{} >= {}",
}


class NoFastPath(Exception):
    """Raised for a tree that has no Python code."""


class PythonBackend(Visitor[Iterator[str]]):
    """Writes the code of a tree.

    `numbers` holds the indices of tensors in `arrays`, and `sizes` the axis of each dynamic size.
    `source` generates reads of paths and constants. With `checked`, the guards of the exit have
    been evaluated before. `ends` lists the exits in the order of their indices in the code.
    """

    def __init__(self, numbers: dict[Path, int], sizes: Mapping[str, Axis], source: PathCodegen,
                 checked: bool) -> None:
        self.numbers, self.sizes = numbers, sizes
        self.source, self.checked = source, checked
        self.ends: list[TraceExit] = []
        self._variables: dict[Any, str] = {}  # of nodes, formulas, and loop-carried numbers
        self._scopes: list[LoopHeader | IfMerge] = []  # around the current block, innermost last
        self._constants: dict[int, str] = {}
        self._size_definitions: dict[str, DataDependentSize] = {}  # by the name of the size

    def lines(self, root: Block) -> list[str]:
        """The code of a whole tree. It sets `end`, the index of the exit, and `found`, its arrays,
        and adds effect calls to the list `effects`.

        The code returns NOT_TRACED for a path without a trace. Raises NoFastPath for a tree that it
        does not support.
        """
        if sum(1 for _ in walk(root)) > _MAX_BLOCKS:
            raise NoFastPath
        lines = list(self._block(root, 0))
        return ["values = {}", *lines] if any(x.formulas for x in self.ends) else lines

    # ---- blocks

    def _block(self, at: Block | None, depth: int) -> Iterator[str]:
        if at is None:
            yield "return NOT_TRACED"
            return
        if depth > _MAX_NESTING:
            raise NoFastPath
        for segment in at.segments:
            yield from self._segment(segment)
        yield from self.visit(at, depth)

    def other(self, at: Block, depth: int) -> Iterator[str]:
        raise NoFastPath

    def branch(self, at: Branch, depth: int) -> Iterator[str]:
        yield from self._computation(at.subject)
        subject = self._variable(at.subject)
        if at.kind == "bool":
            cases = {f"if {subject}:": at.outcomes.get(True), "else:": at.outcomes.get(False)}
        else:
            index_of_outcome = {outcome: number for number, outcome in enumerate(at.outcomes)}
            outcome_index = f"OUTCOME({at.kind!r}, {self._constant(at.subject)}, {subject})"
            yield f"outcome = {self.source.constant(index_of_outcome)}.get({outcome_index}, -1)"
            cases = {f"{'el' if i else ''}if outcome == {i}:": block
                     for i, block in enumerate(at.outcomes.values())} | {"else:": None}
        for condition, block in cases.items():
            yield condition
            yield from _indented(self._block(block, depth + 1))

    def size_definition(self, at: SizeDefinition, depth: int) -> Iterator[str]:
        node, formula = at.element.node, at.element.formula
        if formula is None:
            operands = ", ".join(map(self._variable, node.inputs))
            yield f"{self._variable(node)} = RUN({self.source.constant(OPS[node.op])}, {operands})"
        else:
            yield from self._computation(formula)
            yield f"{self._variable(node)} = ARRAY_OF_SIZE({self._variable(formula)})"
        self._size_definitions[at.element.name] = at.element
        yield from self._block(at.body, depth)

    def loop_header(self, at: LoopHeader, depth: int) -> Iterator[str]:
        yield from self._carry(at, at)
        self._scopes.append(at)
        yield "while True:"
        yield from _indented(self._block(at.body, depth + 1))
        self._scopes.pop()
        yield from self._after_loop()

    def _after_loop(self) -> Iterator[str]:
        """Lines behind a loop. The code in it has set `to`: the loop or merge where the path
        continues, or None at an exit."""
        outer = self._innermost_loop()
        if outer is None:
            return
        merges = self._scopes[self._scopes.index(outer) + 1:]
        if merges:
            yield f"if to is {self._constant(outer)}: continue"
            names = [self._constant(merge) for merge in merges]
            yield f"if {' and '.join([f'to is not {name}' for name in names])}: break"
        else:
            yield f"if to is not {self._constant(outer)}: break"

    def _innermost_loop(self) -> LoopHeader | None:
        return next((s for s in reversed(self._scopes) if isinstance(s, LoopHeader)), None)

    def back_edge(self, at: BackEdge, depth: int) -> Iterator[str]:
        if at.vjps:
            raise NoFastPath
        yield from self._carry(at, at.target)
        loop = self._constant(at.target)
        yield f"{loop}.iterations += 1"
        yield from ["continue"] if at.target is self._innermost_loop() else \
            [f"to = {loop}", "break"]

    def if_merge(self, at: IfMerge, depth: int) -> Iterator[str]:
        self._scopes.append(at)
        yield from self._block(at.body, depth)
        self._scopes.pop()
        if at.merge is None:  # every path so far has ended before
            return
        if always_merges(at):
            yield from self._block(at.continuation, depth)
        else:
            yield f"if to is {self._constant(at)}:"
            yield from _indented(self._block(at.continuation, depth + 1))

    def yield_values(self, at: Yield, depth: int) -> Iterator[str]:
        yield from self._carry(at, at.target)
        merge = self._constant(at.target)
        yield f"{self._constant(at)}.uses += 1"
        yield f"to = {merge}"
        inside = self._scopes[self._scopes.index(at.target):]
        yield from ["break"] if any(isinstance(s, LoopHeader) for s in inside) else []

    def host_call(self, at: HostCall, depth: int) -> Iterator[str]:
        """Lines that read a clock, or that gather an effect call with its values."""
        element = at.element
        if isinstance(element, ClockRead):
            yield f"{self._variable(element.token)} = {self._constant(element.read)}()"
        else:
            for formula in element.formulas:
                yield from self._computation(formula)
            arrays = map(self._variable, element.nodes)
            numbers = map(self._variable, element.formulas)
            yield f"effect = {self._constant(element.bound, element)}([{', '.join(arrays)}], " \
                f"[{', '.join(numbers)}])"
            yield "if effect is None: return NOT_TRACED"
            yield "effects.append(effect)"
        yield from self._block(at.body, depth)

    def _carry(self, at: LoopHeader | BackEdge | Yield, target: LoopHeader | IfMerge
               ) -> Iterator[str]:
        """Lines that assign the next values of the phis of a target, all at once."""
        values, formulas = at.values, at.formulas
        for formula in formulas:
            yield from self._computation(formula)
        next_values = [self._variable(v) for v in (*values, *formulas)]
        variables = [self._variable(p) for p in target.phis]
        variables += [self._variable(s.args[0]) for s in target.symbols]
        if variables:
            yield f"{', '.join(variables)}, = {', '.join(next_values)},"

    def exit(self, at: Exit, depth: int) -> Iterator[str]:
        for trace_exit in at.exits:
            lines = [*self._exit(trace_exit), *(["to = None"] if self._scopes else []),
                     *(["break"] if self._innermost_loop() is not None else [])]
            if self.checked:
                yield from lines
                return
            keyword = "if" if trace_exit is at.exits[0] else "elif"
            yield f"{keyword} {self._constant(trace_exit.check)}(args, kwargs) < 0:"
            yield from _indented(lines)
        yield "else: return NOT_TRACED"

    def _exit(self, trace_exit: TraceExit) -> Iterator[str]:
        if trace_exit.backward is not None or trace_exit.segment is None:
            raise NoFastPath
        for formula in trace_exit.formulas:
            yield from self._computation(formula)
            yield f"values[{self._constant(formula)}] = {self._variable(formula)}"
        yield from self._operands(trace_exit.segment, last=True)
        arrays = [name for key, name in self._variables.items() if isinstance(key, Node)]
        # The program may overwrite arrays without another reference, so the variables are cleared.
        yield " = ".join(["arrays", *arrays, "None"])
        if trace_exit.effects:
            yield "section.open = False"
        yield f"found, end = {self._code(trace_exit.segment)}(given), {len(self.ends)}"
        self.ends.append(trace_exit)

    # ---- segments

    def _segment(self, segment: Segment) -> Iterator[str]:
        yield from self._operands(segment)
        yield f"{', '.join(map(self._variable, segment.outputs))}, = {self._code(segment)}(given)"

    def _code(self, segment: Segment) -> str:
        if segment.executable is None:
            return f"{self._constant(segment)}.compile()"
        return self._constant(segment.executable.__call__, segment.executable)

    def _operands(self, segment: Segment, last: bool = False) -> Iterator[str]:
        """Lines that set `given`, the operands of a segment."""
        indices = [self.numbers[p] for p in segment.paths]
        array_indices = [number for number in self.numbers.values() if number >= 0]
        if last and indices == sorted(array_indices) \
                and segment.inputs == (segment.inputs.tensors, [], []):
            yield "given = arrays"
            return
        if len(indices) > _MAX_INDEXED_ARRAYS:
            operands = [f"*{self.source.constant(operator.itemgetter(*indices))}(arrays)"]
        else:
            operands = [f"arrays[{i}]" for i in indices]
        for node in segment.inputs.numbers:
            formula = segment.names.numbers[node]
            yield from self._computation(formula)
            operands.append(f"OPERAND({self._variable(formula)}, {self._constant(node)})")
        operands += map(self._variable, segment.inputs.registers)
        yield f"given = [{', '.join(operands)}]"

    # ---- numbers

    def _computation(self, subject: Node | ScalarExpr) -> Iterator[str]:
        """Lines that compute a number. A node has been computed before.

        All parts of a formula are computed again, since earlier code for them may be on another
        path.
        """
        for part in subject.parts if isinstance(subject, ScalarExpr) else ():
            if part.op not in ("constant", "access_path"):
                yield f"{self._variable(part)} = {self._part(part)}"

    def _part(self, part: ScalarExpr) -> str:
        if part.op in _SYNTAX:
            return _SYNTAX[part.op].format(*map(self._variable, part.args))
        if part.op in OPERATORS:
            operands = ", ".join(map(self._variable, part.args))
            return f"{self.source.constant(OPERATORS[part.op])}({operands})"
        origin, = part.args
        if part.op == "element":
            return f"{self._variable(origin)}.item()"
        if part.op == "phi":
            return self._variable(origin)
        if part.op == "size":
            return self._size(origin)
        raise NoFastPath

    def _size(self, expr: SizeExpr) -> str:
        """The text of a size expression, in which each named size is read."""
        names = expr.symbols()
        if all(map(str.isidentifier, names)):
            return re.sub(r"[^\W\d]\w*", lambda match: self._named_size(match[0]), str(expr))
        read = [f"{name!r}: {self._named_size(name)}" for name in sorted(names)]
        return f"{self.source.constant(expr)}.value({{{', '.join(read)}}})"

    def _named_size(self, name: str) -> str:
        defined = self._size_definitions.get(name)
        if defined is not None:
            return f"{self._variable(defined.node)}.shape[0]" if defined.formula is None else \
                self._variable(defined.formula)
        path, axis = self.sizes[name]
        return f"{self.source.read(path)}._data.shape[{axis}]"

    # ---- names

    def _variable(self, key: Any) -> str:
        """The name of a variable, or the text of a number that needs none."""
        if isinstance(key, ScalarExpr) and key.op == "access_path":
            return self.source.read(key.args[0])
        if isinstance(key, ScalarExpr) and key.op == "constant":
            value = key.args[0].value
            return f"({value!r})" if type(value) in (int, bool) else self.source.constant(value)
        return self._variables.setdefault(key, f"r{len(self._variables)}")

    def _constant(self, value: Any, owner: Any = None) -> str:
        """The name of a constant. `owner` is the object of a bound method."""
        key = id(value if owner is None else owner)
        if key not in self._constants:
            self._constants[key] = self.source.constant(value)
        return self._constants[key]


def always_merges(at: IfMerge) -> bool:
    """True if all paths so far reach the merge, and none of them through a loop."""
    return at.body is None or _AlwaysMerges().visit(at.body, at)


class _AlwaysMerges(Visitor[bool]):
    """Tells if all paths so far from a block reach a merge, and none of them through a loop."""

    def other(self, block: Block, merge: IfMerge) -> bool:
        children = block.children()
        return bool(children) and all(self.visit(child, merge) for child in children)

    def loop_header(self, block: LoopHeader, merge: IfMerge) -> bool:
        return False

    def if_merge(self, block: IfMerge, merge: IfMerge) -> bool:
        return always_merges(block) and (
            block.continuation is None or self.visit(block.continuation, merge))

    def yield_values(self, block: Yield, merge: IfMerge) -> bool:
        return block.target is merge


# Names that the code uses.
SCOPE = {"OUTCOME": outcome_of, "OPERAND": operand, "RUN": run, "ARRAY_OF_SIZE": array_of_size}


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
