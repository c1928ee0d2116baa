"""Parses the text of control-flow graphs that `to_text` prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from ...eager.core.tensor import Tensor
from ...eager.errors import GraphError
from ..autodiff.suspended_backward import (
    BackwardPath,
    GradientReturn,
    ResultGradient,
    SuspendedBackward,
)
from ..control_flow.data_dependent_sizes import DataDependentSize
from ..control_flow.decision import Decision
from ..control_flow.loop_elements import LoopEntry, LoopRepeat
from ..control_flow.loop_gradients import IterationVjp, LoopBackwardEvent
from ..control_flow.merges import Merge, MergedBranch
from ..graph.graph import Node
from ..graph.text import NodeParser
from ..guards.guards import PathCodegen
from ..heap.access_path import Path
from ..heap.object_recipes import BuiltContainer, NumberOf, PassedTensor
from ..scalars.scalar_expr import ScalarConstant, ScalarExpr, of_number
from ..segments.segment import Backend, Inputs, Segment, cone, extract_graph
from ..trace.output_spec import OutputTensor, TraceOutputs
from ..trace.value_table import ValueTable
from .ir import (
    BackEdge,
    Block,
    Branch,
    EndOfBackward,
    Exit,
    IfMerge,
    LoopBackward,
    LoopHeader,
    SizeDefinition,
    Yield,
)
from .trace_exit import TraceExit

_WithBody = TypeVar("_WithBody", SizeDefinition, LoopHeader, IfMerge, LoopBackward)


class Line(NamedTuple):
    """A line of a text, without its comment, and the lines that are indented below it."""

    text: str
    comment: str
    below: list[Line]

    @property
    def whole(self) -> str:
        return f"{self.text}  # {self.comment}"


def _nested(text: str) -> list[Line]:
    """The lines of a text that are not indented, with those below them."""
    top: list[Line] = []
    levels: list[tuple[int, list[Line]]] = [(-1, top)]
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("# "):
            continue
        indent = len(line) - len(line.lstrip())
        while indent <= levels[-1][0]:
            levels.pop()
        head, _, comment = stripped.partition("  # ")
        levels[-1][1].append(new := Line(head, comment, []))
        levels.append((indent, new.below))
    return top


def parse(text: str, names: ValueTable, backend: Backend) -> Block:
    """The root of the control-flow graph that `to_text` printed. Nodes are those of `names`.

    Raises GraphError for any other text.
    """
    return _Parser(names, backend).root(_nested(text))


_DEFINITION = re.compile(r"(\w+) = (\w+)\((.*)\)$")
_TYPE = re.compile(r"(\w+)\[([^\]]*)\]")
_SUCCESSOR = re.compile(r"(.+?) -> (\w+)(?:, |$)")


class _Parser:
    def __init__(self, names: ValueTable, backend: Backend) -> None:
        self.names, self.backend = names, backend
        self.nodes = NodeParser(names.nodes, names.sizes)
        self.formulas: dict[str, ScalarExpr] = {}
        self.targets: dict[str, Any] = {}  # loops and merges by label
        self._links: list[tuple[Any, Any, str]] = []  # block, outcome or attribute, label

    def root(self, lines: Sequence[Line]) -> Block:
        blocks: dict[str, Block] = {}
        for line in lines:
            if line.text.startswith("block"):
                blocks[line.text.rstrip(":")] = self._block(line)
            else:
                self._input(line)
        for block, key, label in self._links:
            if label != "none" and label not in blocks:
                raise GraphError(f"the text has no {label}, to which a block leads")
            child = blocks.get(label)
            if not isinstance(block, Branch):
                setattr(block, key, child)
            elif key in block.outcomes:
                raise GraphError(f"a branch at {block.site} leads twice to {key!r}")
            elif child is not None:
                block.outcomes[key] = child
        if not blocks:
            raise GraphError("the text has no block")
        return next(iter(blocks.values()))

    def _block(self, line: Line) -> Block:
        *body, end = line.below
        segments = self._body([at for at in body if not at.text.startswith("check ")])
        checks = [self.nodes.listed(at.text.removeprefix("check ")) for at in body
                  if at.text.startswith("check ")]
        match = re.match(r"\w+", end.text)
        kind = match[0] if match is not None else ""
        if kind not in _ENDS:
            raise GraphError(f"{line.text} does not end in {', '.join(_ENDS)}: {end.text!r}")
        block = _ENDS[kind](self, end)
        block.segments = segments
        block.checks = dict.fromkeys(node for of in checks for node in of)
        return block

    def _body(self, lines: Iterable[Line]) -> list[Segment]:
        """Parses segments and definitions; returns the segments."""
        segments = []
        for line in lines:
            if line.text.startswith("segment("):
                segments.append(self._segment(line))
            else:
                self._definition(line)
        return segments

    # ---- values
    def _input(self, line: Line) -> None:
        node = self.nodes.line(line.whole)
        self.names.paths[node] = path_of(line.comment.partition("  at ")[2])

    def _definition(self, line: Line) -> None:
        """Parses the definition of a node, or of a scalar expression."""
        if line.comment:
            node = self.nodes.line(line.whole)
            _, is_number, formula = line.comment.partition("  of ")
            if is_number:
                self.names.numbers[node] = self._number(formula)
            return
        name, op, operands = self._matched(_DEFINITION, line.text)
        self.formulas[name] = ScalarExpr(op, self._operands(op, operands))

    def _operands(self, op: str, text: str) -> tuple[Any, ...]:
        if op == "access_path":
            return (path_of(text),)
        if op == "element":
            return tuple(self.nodes.listed(text))
        if op == "size":
            return (self.nodes.value(text).expr,)
        return tuple(map(self._number, text.split(", ")))

    def _number(self, text: str) -> ScalarExpr:
        if re.fullmatch(r"s\d+", text):
            if text not in self.formulas:
                raise GraphError(f"no line before defines {text}")
            return self.formulas[text]
        return of_number(self.nodes.value(text))

    def _segment(self, line: Line) -> Segment:
        inputs, outputs = self._matched(re.compile(r"segment\((.*)\) -> (.*):$"), line.text)
        read, registers = map(self.nodes.listed, f"{inputs};".split(";")[:2])
        for at in line.below:
            self.nodes.line(at.whole)
        tensors = [n for n in read if n not in self.names.numbers]
        numbers = [n for n in read if n in self.names.numbers]
        targets = self.nodes.listed(outputs)
        inner = cone([*targets, *read], registers)
        graph = extract_graph(inner, targets, [*tensors, *numbers, *registers])
        return Segment(self.names, None, targets, Inputs(tensors, numbers, registers), graph,
                       self.backend)

    def _matched(self, pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
        match = pattern.match(text)
        if match is None:
            raise GraphError(f"not a line of a control-flow graph: {text!r}")
        return match.groups()

    # ---- ends of blocks
    def _branch(self, line: Line) -> Branch:
        kind, subject, outcomes = self._matched(re.compile(r"branch (\w+)\((.+?)\): (.*)"),
                                                line.text)
        of: Any = self._number(subject) if re.fullmatch(r"s\d+", subject) \
            else self.nodes.listed(subject)[0]
        block = Branch(Decision(of, kind, None, line.comment))
        for outcome, label in _SUCCESSOR.findall(outcomes):
            self._links.append((block, self._outcome(outcome), label))
        return block

    def _outcome(self, text: str) -> Any:
        if text.startswith("constant("):
            return ScalarConstant(self.nodes.value(text[len("constant("):-1]))
        return ast.literal_eval(text)

    def _size(self, line: Line) -> SizeDefinition:
        number, label = self._matched(re.compile(r"size(?:\((.+)\))? -> (\w+)"), line.text)
        node = self.nodes.line(line.below[0].whole)
        self.names.data_dependent[node] = None
        formula = self._number(number) if number else None
        return self._linked(SizeDefinition(DataDependentSize(node, line.comment, formula)), label)

    def _loop(self, line: Line) -> LoopHeader:
        label, body = self._matched(re.compile(r"loop (\w+) -> (\w+)"), line.text)
        block = LoopHeader(LoopEntry(label, *self._assignments(line.below), line.comment))
        self.targets[label] = block
        return self._linked(block, body)

    def _continue(self, line: Line) -> BackEdge:
        label, = self._matched(re.compile(r"continue (\w+)"), line.text)
        _, values, _, formulas = self._assignments(
            [at for at in line.below if not at.text.startswith("vjp(")])
        repeat = LoopRepeat(label, values, formulas, line.comment)
        block = BackEdge(repeat, self._jumped_to(label))
        for at in line.below:
            if at.text.startswith("vjp("):
                vjp, segments = self._vjp(at)
                slots = tuple(sorted(vjp.incoming))
                block.vjps[slots] = vjp, segments
                self.names.iteration_vjps[repeat, slots] = vjp
        return block

    def _merge(self, line: Line) -> IfMerge:
        label, body, continuation = self._matched(re.compile(r"merge (\w+) -> (\w+), (\w+)"),
                                                  line.text)
        self.targets[label] = block = IfMerge(MergedBranch(label, line.comment))
        self._links.append((block, "continuation", continuation))
        return self._linked(block, body)

    def _yield(self, line: Line) -> Yield:
        label, = self._matched(re.compile(r"yield (\w+)"), line.text)
        return Yield(Merge(label, *self._assignments(line.below), line.comment),
                     self._jumped_to(label))

    def _backward(self, line: Line) -> LoopBackward:
        label, incoming, body = self._matched(re.compile(r"backward (\w+)\((.*)\) -> (\w+)"),
                                              line.text)
        keys, phis = [], []
        for at in line.below:
            name, kind, key = self._matched(_DEFINITION, at.text)
            keys.append(self._key(f"{kind}({key})"))
            phis.append(self._phi(name, at.comment))
        element = LoopBackwardEvent(label, tuple(self._slots(incoming)), tuple(keys), tuple(phis),
                                    line.comment)
        return self._linked(LoopBackward(element), body)

    def _exit(self, line: Line) -> Exit:
        exits, lines = [], list[Line]()
        for at in line.below:
            kind = at.text.partition(" ")[0].partition("(")[0]
            if kind == "return":
                exits.append((lines, at.text.removeprefix("return"), list[Line]()))
                lines = []
            else:
                (exits[-1][2] if kind in ("saves", "resume") else lines).append(at)
        block = Exit(self._trace_exit(*exits[0]))
        block.exits += [self._trace_exit(*parts) for parts in exits[1:]]
        return block

    def _trace_exit(self, body: Sequence[Line], returned: str, resumed: Sequence[Line]
                    ) -> TraceExit:
        segments = self._body(body)
        outputs, _, numbers = returned.strip().partition("; ")
        backward = self._suspended(resumed) if resumed else None
        nodes = self.nodes.listed(outputs)
        nodes = nodes[:len(nodes) - len(backward.saved if backward else ())]
        formulas = [self._number(text) for text in numbers.split(", ") if text]
        recipe = BuiltContainer("tuple", (*map(PassedTensor, range(len(nodes))),
                                          *map(NumberOf, formulas)))
        tensors = [OutputTensor(i, None, Tensor) for i in range(len(nodes))]
        leaving = TraceOutputs(nodes, formulas, tensors, {})
        trace_exit = TraceExit([], [], recipe, leaving, list(self.names.paths), backward)
        for segment in segments:
            trace_exit.set_segment(segment, PathCodegen(None, self.names.held))
        return trace_exit

    def _suspended(self, lines: Sequence[Line]) -> SuspendedBackward:
        """What follows an exit when gradients arrive. The inputs that get gradients have no paths.
        """
        saves, *resumes = lines
        saved = self.nodes.listed(saves.text.removeprefix("saves").strip())
        gradients: dict[int, Node] = {}
        variants = []
        for at in resumes:
            label, = self._matched(re.compile(r"resume\(.*\) -> (\w+)"), at.text)
            given = []
            for inner in at.below:
                name, _, number = self._matched(_DEFINITION, inner.text)
                given.append(int(number))
                gradients[int(number)] = self._phi(name, inner.comment)
            variants.append(BackwardPath(tuple(given), ()))
            self._links.append((variants[-1], "root", label))
        results = [ResultGradient(i, gradients[i], gradients[i], frozenset([i]))
                   for i in sorted(gradients)]
        return SuspendedBackward(variants, results, [], saved, "", {})

    def _gradients(self, line: Line) -> EndOfBackward:
        pairs = [part.split(": ") for part in line.text.removeprefix("gradients").strip()
                 .split(", ") if part]
        values = [value.partition(" if ") for _, value in pairs]
        nodes = tuple([self.nodes.listed(name)[0] for name, _, _ in values])
        formulas = tuple([self._number(present or "1") for _, _, present in values])
        return EndOfBackward(GradientReturn(tuple(int(i) for i, _ in pairs), nodes, formulas,
                                            line.comment))

    def _linked(self, block: _WithBody, label: str) -> _WithBody:
        self._links.append((block, "body", label))
        return block

    def _jumped_to(self, label: str) -> Any:
        if label not in self.targets:
            raise GraphError(f"no line before begins {label}, to which a block jumps")
        return self.targets[label]

    # ---- phis
    def _assignments(self, lines: Iterable[Line]) -> tuple[
            tuple[Node, ...], tuple[Node, ...], tuple[ScalarExpr, ...], tuple[ScalarExpr, ...]]:
        """The phis, their values, the phis of numbers and their formulas."""
        phis, values, symbols, formulas = [], [], [], []
        for line in lines:
            name, _, value = self._matched(_DEFINITION, line.text)
            if line.comment:
                values.append(self.nodes.listed(value)[0])
                phis.append(self._phi(name, line.comment))
            else:
                formulas.append(self._number(value))
                symbols.append(self.formulas.setdefault(name, ScalarExpr("phi", ((name,),))))
        return tuple(phis), tuple(values), tuple(symbols), tuple(formulas)

    def _phi(self, name: str, type: str) -> Node:
        dtype, shape = self._matched(_TYPE, type)
        node = self.nodes.names[name] = self.names.nodes.input(name, self.nodes.type(dtype, shape))
        return node

    def _slots(self, text: str) -> list[tuple[int, Node]]:
        pairs = [part.split(": ") for part in text.split(", ") if part]
        return [(int(slot), self.nodes.listed(name)[0]) for slot, name in pairs]

    def _key(self, text: str) -> Any:
        kind, value = self._matched(re.compile(r"(slot|invariant)\((.*)\)$"), text)
        return ("slot", int(value)) if kind == "slot" else ("from", self.nodes.listed(value)[0])

    def _vjp(self, line: Line) -> tuple[IterationVjp, list[Segment]]:
        incoming, = self._matched(re.compile(r"vjp\((.*)\):"), line.text)
        names = [part.split(": ") for part in incoming.split(", ") if part]
        types = [f"{dtype}[{shape}]" for dtype, shape in _TYPE.findall(line.comment)]
        phis = {int(slot): self._phi(name, type) for (slot, name), type in zip(names, types)}
        *body, end = line.below
        segments = self._body(body)
        pairs = [part.split(": ") for part in end.text.removeprefix("return ").split(", ") if part]
        gradients = {self._key(key): self.nodes.listed(name)[0] for key, name in pairs}
        return IterationVjp(phis, gradients), segments


_ENDS: dict[str, Callable[[_Parser, Line], Block]] = {
    "branch": _Parser._branch, "size": _Parser._size, "loop": _Parser._loop,
    "continue": _Parser._continue, "merge": _Parser._merge, "yield": _Parser._yield,
    "backward": _Parser._backward, "exit": _Parser._exit, "gradients": _Parser._gradients,
}


def path_of(text: str) -> Path:
    """The access path that `path_text` printed."""
    def step(e: ast.expr) -> Path:
        if isinstance(e, ast.Name):
            return Path(e.id.rstrip("_"))
        if isinstance(e, ast.Attribute):
            return step(e.value).attr(e.attr)
        if isinstance(e, ast.Subscript):
            return step(e.value).item(ast.literal_eval(e.slice))
        assert isinstance(e, ast.Call)
        key = ast.literal_eval(e.args[0])
        if isinstance(e.func, ast.Name):
            return Path(e.func.id.rstrip("_"), key)
        assert isinstance(e.func, ast.Attribute)
        return step(e.func.value).cell(key)

    try:
        return step(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, AssertionError) as error:
        raise GraphError(f"not an access path: {text!r}") from error
