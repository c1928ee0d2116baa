"""Lists the control flow of a program as plain data: blocks by number, with counts per path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

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
from ..cfg.visitor import METHODS, Visitor
from ..graph.graph import Node
from ..heap.access_path import describe
from ..scalars.scalar_expr import ScalarConstant, ScalarExpr
from ..segments.segment import Segment

_MAX_OPERAND_CHARS = 100  # characters of an inner formula
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
          "pow": "**", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">=",
          "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}
Data = dict[str, Any]


def flow_of(root: Block, segments: Mapping[Segment, int]) -> list[Data]:
    """The blocks of a control-flow graph as plain data, the root first.

    Each has `kind`, `text`, `site`, `uses` (calls that ended below it), `segments` (numbers, by
    `segments`), `edges` (`label`, `uses` and `to`, the number of a block), `jump` (the block to
    which a back edge or a merging path jumps, or -1), and `exits`.
    """
    numbers = {block: number for number, block in enumerate(walk(root))}
    return [{"kind": METHODS[type(block)], "text": _TEXT.visit(block), "site": block.site,
             "uses": _USES.visit(block),
             "segments": [segments[s] for s in block.segments if s in segments],
             "edges": [{"label": label, "uses": _USES.visit(child), "to": numbers[child]}
                       for label, child in _EDGES.visit(block)],
             "jump": -1 if block.target is None else numbers.get(block.target, -1),
             "exits": [_exit_data(trace_exit) for trace_exit in block.exits]}
            for block in numbers]


class _Uses(Visitor[int]):
    """Counts the calls that ended below a block, at an exit or a merge."""

    def other(self, at: Block) -> int:
        return sum(map(self.visit, at.children()))

    def exit(self, at: Exit) -> int:
        return sum(trace_exit.uses for trace_exit in at.exits)

    def yield_values(self, at: Yield) -> int:
        return at.uses

    def if_merge(self, at: IfMerge) -> int:
        # Calls that merge are counted on their paths.
        return 0 if at.body is None else self.visit(at.body)


class _Edges(Visitor[list[tuple[str, Block]]]):
    """Lists the successors of a block in the tree, with the condition of each."""

    def other(self, at: Block) -> list[tuple[str, Block]]:
        return [("", child) for child in at.children()]

    def branch(self, at: Branch) -> list[tuple[str, Block]]:
        return [(_outcome(at, outcome), block) for outcome, block in at.outcomes.items()]

    def if_merge(self, at: IfMerge) -> list[tuple[str, Block]]:
        named = (("paths", at.body), ("after the merge", at.continuation))
        return [(name, child) for name, child in named if child is not None]


class _Text(Visitor[str]):
    """Describes a block in one line."""

    def other(self, at: Block) -> str:
        return {"if_merge": "a branch whose paths merge", "yield_values": "merges",
                "loop_backward": "runs the backward of each iteration"}.get(METHODS[type(at)], "")

    def branch(self, at: Branch) -> str:
        return f"{at.site or 'a line of fusewire'} branches on {_subject(at.subject)}"

    def loop_header(self, at: LoopHeader) -> str:
        carried = [str(n.type) for n in at.phis] + ["a number"] * len(at.symbols)
        return (f"{at.site} loops, carrying {', '.join(carried) or 'nothing'}: "
                f"{at.iterations} iteration{'' if at.iterations == 1 else 's'} so far")

    def size_definition(self, at: SizeDefinition) -> str:
        return f"{at.site} computes the data-dependent size {at.element.name}"

    def host_call(self, at: HostCall) -> str:
        return str(at.element)

    def back_edge(self, at: BackEdge) -> str:
        return f"{at.site} continues with the next iteration"


_TEXT, _USES, _EDGES = _Text(), _Uses(), _Edges()


def _exit_data(trace_exit: TraceExit) -> Data:
    return {"uses": trace_exit.uses, "guards": [g.message for g in trace_exit.exit_guards],
            "computes": [str(n.type) for n in trace_exit.outputs],
            "changes": list(dict.fromkeys(map(str, trace_exit.effects)))}


def _subject(subject: Node | ScalarExpr) -> str:
    """The value that a branch tests, as Python would write it."""
    if isinstance(subject, ScalarExpr):
        return formula_text(subject)
    if subject.op == "input":
        return f"the {subject.type} of an argument"
    where = f" of {subject.site}" if subject.site else ""
    return f"the {subject.type} of {subject.op}{where}"


_ORIGINS: dict[str, Callable[[Any], str]] = {  # the text for each origin of a number
    "constant": lambda constant: repr(constant.value),
    "access_path": describe,
    "size": str,
    "element": lambda node: f"{node.op}.item()",
    "phi": lambda token: "a loop variable",
}


def formula_text(formula: ScalarExpr) -> str:
    """A scalar expression with Python's operators; long operands are shown as (...)."""
    texts: dict[ScalarExpr, str] = {}
    for part in formula.parts:
        if part.op in _ORIGINS:
            texts[part] = _ORIGINS[part.op](part.args[0])
            continue
        inner = [texts[a] if len(texts[a]) <= _MAX_OPERAND_CHARS else "(...)" for a in part.args]
        signed = part.op in _SIGNS and len(inner) == 2
        texts[part] = f"({inner[0]} {_SIGNS[part.op]} {inner[1]})" if signed else \
            f"{part.op}({', '.join(inner)})"
    return texts[formula]


def _outcome(at: Branch, outcome: Any) -> str:
    if isinstance(outcome, ScalarConstant):
        return repr(outcome.value)
    if isinstance(outcome, bytes) and isinstance(at.subject, Node):
        kind = at.subject.type
        return f"{np.frombuffer(outcome, kind.dtype).reshape(kind.shape).tolist()}"
    return repr(outcome)
