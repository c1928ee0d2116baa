"""Prints the control-flow graph as text; `text_parser` parses it.

    x0 = input()  # float32[2]  at args[0]
    block0:
      segment(x0) -> v1:
        v1 = sum(x0)  # float32[]
      branch bool(v1): True -> block1, False -> block2  # file.py:3
    block1:
      exit:
        segment(x0) -> v2:
          v2 = multiply(x0, 2.0)  # float32[2]
        return v2

A segment lists its tensors and numbers, and after a semicolon the values that earlier segments or
phis have put in registers. The text holds blocks, values and segments. The guards and side effects
of exits are comments, which the parser ignores. A `call` of a Python function, such as `print`,
cannot be parsed: the text only names the function.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..autodiff.suspended_backward import SuspendedBackward
from ..control_flow.loop_gradients import IterationVjp
from ..graph.graph import Node
from ..graph.text import NodePrinter
from ..heap.access_path import Path, steps
from ..scalars.scalar_expr import ScalarConstant, ScalarExpr, of_number
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
)
from .trace_exit import TraceExit
from .visitor import Visitor

_INDENT = "  "


def to_text(root: Block, names: ValueTable) -> str:
    """The control-flow graph as text."""
    return "\n".join(Printer(names).lines(root))


class Printer(Visitor[Iterator[str]]):
    """Prints blocks. The methods for kinds of blocks print how a block ends."""

    def __init__(self, names: ValueTable) -> None:
        self.values, self.nodes = names, NodePrinter()
        self.inputs: dict[Node, str] = {}  # the lines of tensors from outside
        self.labels: dict[Any, str] = {}  # of blocks, loops and merges
        self._counts: Counter[str] = Counter()  # labels of each kind
        self.formulas: dict[ScalarExpr, str] = {}
        self._numbers = 0  # named scalar expressions
        self._defined: set[Any] = set()  # nodes and formulas that are defined on the current path

    def lines(self, root: Block) -> list[str]:
        """The lines of a whole graph."""
        body: list[str] = []
        for block in _ordered(root):
            self._label(block)
        defined: dict[Block, frozenset[Any]] = {root: frozenset()}  # on entry
        for block in _ordered(root):
            self._defined = set(defined[block])
            body.append(f"{self._label(block)}:")
            body += _indented(self._block(block))
            after = frozenset(self._defined)
            for child in block.children():
                defined[child] = after.union(block.definitions(child))
        return [*self.inputs.values(), *body]

    def _block(self, block: Block) -> Iterator[str]:
        for segment in block.segments:
            yield from self._segment(segment)
        yield from self._define(block.required if not block.exits else block.operands)
        if block.checks:
            yield f"check {self.nodes.listed(block.checks)}"
        yield from self.visit(block)

    def shown(self, value: Any) -> str:
        """The name of a node or a scalar expression, for messages."""
        name = self.formulas.get(value) if isinstance(value, ScalarExpr) else \
            self.nodes.names.get(value)
        return name or repr(value)

    def _label(self, block: Block | None) -> str:
        if block is None:
            return "none"
        return self._label_of(block, "block")

    def _label_of(self, key: Any, kind: str) -> str:
        if key not in self.labels:
            self.labels[key] = f"{kind}{self._counts[kind]}"
            self._counts[kind] += 1
        return self.labels[key]

    # ---- values
    def _segment(self, segment: Segment) -> Iterator[str]:
        tensors, numbers, registers = segment.inputs
        inputs = [*tensors, *numbers, *registers]
        yield from self._define(inputs)
        read = self.nodes.listed([*tensors, *numbers])
        kept = f"; {self.nodes.listed(registers)}" if registers else ""
        inner = [n for n in cone(segment.outputs, inputs) if n not in inputs]
        for node in inner:
            if node.op != "const" or node.type.shape:
                self.nodes.name(node)
        yield f"segment({read}{kept}) -> {self._named(segment.outputs)}:"
        yield from _indented(self.nodes.lines(inner))
        self._defined.update(segment.outputs)

    def _named(self, nodes: Iterable[Node]) -> str:
        return ", ".join(map(self.nodes.name, nodes))

    def _define(self, nodes: Iterable[Node]) -> Iterator[str]:
        """The lines that define nodes which the path so far has not defined."""
        for node in cone(list(nodes), self._defined):
            if node in self._defined:
                self.nodes.name(node)
            elif node in self.values.paths:
                self._input(node)
            elif node in self.values.numbers:
                yield from self._number(node)
            else:
                yield from self.nodes.lines([node])
            self._defined.add(node)

    def _number(self, node: Node) -> Iterator[str]:
        """The lines that define a Python number as an operand."""
        formula = self.values.numbers[node]
        yield from self._formula([formula])
        line, = self.nodes.lines([node])
        yield f"{line}  of {self.formulas[formula]}"

    def _input(self, node: Node) -> None:
        if node not in self.inputs:
            line, = self.nodes.lines([node])
            self.inputs[node] = f"{line}  at {path_text(self.values.paths[node])}"

    def _formula(self, formulas: Iterable[Any]) -> Iterator[str]:
        """The lines that define scalar expressions."""
        for formula in formulas:
            for part in formula.parts if isinstance(formula, ScalarExpr) else ():
                if part.op == "constant":
                    self.formulas[part] = repr(part.args[0].value)
                elif part.op == "phi":
                    self._symbol(part)
                elif part not in self._defined:
                    yield from self._define(part.args if part.op == "element" else ())
                    yield f"{self._symbol(part)} = {part.op}({self._operands(part)})"
                    self._defined.add(part)

    def _operands(self, part: ScalarExpr) -> str:
        operand, *others = part.args
        if part.op == "access_path":
            return path_text(operand)
        if part.op == "element":
            return self.nodes.names[operand]
        return str(operand) if part.op == "size" else \
            ", ".join(self.formulas[a] for a in (operand, *others))

    def _symbol(self, part: ScalarExpr) -> str:
        if part not in self.formulas:
            self.formulas[part] = f"s{self._numbers}"
            self._numbers += 1
        return self.formulas[part]

    # ---- ends of blocks
    def branch(self, block: Branch) -> Iterator[str]:
        yield from self._formula([block.subject])
        subject = self.formulas[block.subject] if isinstance(block.subject, ScalarExpr) else \
            self.nodes.names[block.subject]
        outcomes = [f"{_outcome(o)} -> {self._label(b)}" for o, b in block.outcomes.items()]
        yield f"branch {block.kind}({subject}): {', '.join(outcomes)}{_at(block)}"

    def size_definition(self, block: SizeDefinition) -> Iterator[str]:
        formula = block.element.formula
        yield from self._formula([formula])
        number = "" if formula is None else f"({self.formulas[formula]})"
        yield f"size{number} -> {self._label(block.body)}{_at(block)}"
        yield from _indented(self.nodes.lines([block.element.node]))

    def host_call(self, block: HostCall) -> Iterator[str]:
        yield from self._formula(block.element.formulas)
        numbers = [self.formulas[f] for f in block.element.formulas]
        operands = [self.nodes.listed(block.element.nodes), *numbers]
        defined = "".join(f"{self._symbol(s)} = " for s in block.symbols)
        yield f"{defined}call({', '.join(filter(None, operands))}) -> " \
              f"{self._label(block.body)}  # {block.element}"

    def loop_header(self, block: LoopHeader) -> Iterator[str]:
        label = self._label_of(block.element.token, "loop")
        yield from self._assignments(
            f"loop {label} -> {self._label(block.body)}{_at(block)}", block, block)

    def back_edge(self, block: BackEdge) -> Iterator[str]:
        yield from self._assignments(f"continue {self._target(block.element.token)}{_at(block)}",
                                     block, block.target)
        for vjp, segments in block.vjps.values():
            yield from _indented(self._vjp(vjp, segments))

    def if_merge(self, block: IfMerge) -> Iterator[str]:
        label = self._label_of(block.element.key, "merge")
        yield f"merge {label} -> {self._label(block.body)}, " \
              f"{self._label(block.continuation)}{_at(block)}"

    def yield_values(self, block: Yield) -> Iterator[str]:
        yield from self._assignments(f"yield {self._target(block.element.key)}{_at(block)}", block,
                                     block.element)

    def loop_backward(self, block: LoopBackward) -> Iterator[str]:
        element = block.element
        incoming = ", ".join(f"{i}: {self.nodes.names[n]}" for i, n in element.incoming)
        yield f"backward {self._target(element.token)}({incoming}) -> " \
              f"{self._label(block.body)}{_at(block)}"
        for key, phi in zip(element.results, element.phis):
            yield f"{_INDENT}{self.nodes.name(phi)} = {self._key(key)}  # {phi.type}"

    def exit(self, block: Exit) -> Iterator[str]:
        before = frozenset(self._defined)
        yield "exit:"
        for trace_exit in block.exits:
            self._defined = set(before)
            yield from _indented(self._exit(trace_exit))

    def _exit(self, trace_exit: TraceExit) -> Iterator[str]:
        yield from (f"# if {guard.message}" for guard in trace_exit.exit_guards)
        yield from self._formula(trace_exit.formulas)
        if trace_exit.segment is not None:
            yield from self._segment(trace_exit.segment)
        yield from self._define(trace_exit.outputs)
        yield from (f"# changes {effect}" for effect in trace_exit.effects)
        numbers = ", ".join(self.formulas[f] for f in trace_exit.formulas)
        outputs = self.nodes.listed(trace_exit.outputs)
        yield f"return {outputs}{'; ' if numbers else ''}{numbers}".rstrip()
        if isinstance(trace_exit.backward, SuspendedBackward):
            yield from self._resumptions(trace_exit.backward)

    def _resumptions(self, backward: SuspendedBackward) -> Iterator[str]:
        """The lines for what follows when gradients arrive."""
        yield f"saves {self._named(backward.saved)}".rstrip()
        self._defined.update(backward.saved)
        for variant in backward.variants:
            incoming = backward.incoming(variant)
            self._defined.update(incoming)
            yield f"resume({self._named(incoming)}) -> {self._label(variant.root)}"
            for number, node in zip(variant.given, incoming):
                yield f"{_INDENT}{self.nodes.name(node)} = gradient({number})  # {node.type}"

    def end_of_backward(self, block: EndOfBackward) -> Iterator[str]:
        yield from self._formula(block.formulas)
        names = map(self.nodes.listed, ([n] for n in block.element.nodes))
        pairs = ", ".join(
            f"{i}: {name}" + ("" if present == of_number(1) else f" if {self.formulas[present]}")
            for i, name, present in zip(block.element.inputs, names, block.formulas))
        yield f"gradients {pairs}".rstrip() + _at(block)

    def _target(self, key: Any) -> str:
        """The label of a loop or merge, or a text that no block has."""
        return self.labels.get(key, "missing")

    def _key(self, key: Any) -> str:
        kind, value = key
        return f"slot({value})" if kind == "slot" else f"invariant({self.nodes.names[value]})"

    def _assignments(self, head: str, block: Any, target: Any) -> Iterator[str]:
        """The lines of a block that assigns phis."""
        yield from self._formula(block.formulas)
        yield head
        for phi, value in zip(target.phis, block.values):
            name = self.nodes.name(phi)
            yield f"{_INDENT}{name} = phi({self.nodes.names[value]})  # {phi.type}"
        for symbol, formula in zip(target.symbols, block.formulas):
            yield f"{_INDENT}{self._symbol(symbol)} = phi({self.formulas[formula]})"

    def _vjp(self, vjp: IterationVjp, segments: Sequence[Segment]) -> Iterator[str]:
        before, self._defined = self._defined, self._defined | set(vjp.incoming.values())
        incoming = ", ".join(f"{i}: {self.nodes.name(n)}" for i, n in vjp.incoming.items())
        types = ", ".join(str(n.type) for n in vjp.incoming.values())
        yield f"vjp({incoming}):  # {types}"
        lines = [line for segment in segments for line in self._segment(segment)]
        yield from _indented([*lines, *self._define(vjp.gradients.values())])
        gradients = ", ".join(f"{self._key(k)}: {self.nodes.names[n]}"
                              for k, n in vjp.gradients.items())
        yield f"{_INDENT}return {gradients}"
        self._defined = before


def _ordered(root: Block) -> list[Block]:
    """All blocks: each before those below it, which are in the order of its successors. A block
    that two blocks lead to, in a graph that is not well formed, occurs once."""
    ordered: dict[Block, None] = {}
    stack = [root]
    while stack:
        block = stack.pop()
        if block not in ordered:
            ordered[block] = None
            stack += reversed(block.children())
    return list(ordered)


def _at(block: Block) -> str:
    return f"  # {block.site}" if block.site else ""


def _outcome(value: Any) -> str:
    return f"constant({value.value!r})" if isinstance(value, ScalarConstant) else repr(value)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def path_text(path: Path) -> str:
    """An access path as an expression, which `parse` reads. A key that is no plain value, such as a
    class or an object of this process, is a string."""
    root, *rest = steps(path)
    text = root.kind + ("_" if keyword.iskeyword(root.kind) else "")
    text += "" if root.key is None else f"({_key_text(root.key)})"
    for step in rest:
        text += f".{step.key}" if step.kind == "attr" else \
            f"[{_key_text(step.key.value)}]" if step.kind == "item" else f".cell({step.key})"
    return text


def _key_text(key: Any) -> str:
    is_plain = isinstance(key, (str, int, float, bytes, type(None)))
    return repr(key) if is_plain else repr(f"<{type(key).__name__} {id(key)}>")
