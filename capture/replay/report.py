"""Writes the report of `explain()`: guards, control flow, memory and kernels of each program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

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
)
from ..cfg.trace_exit import TraceExit
from ..cfg.visitor import Visitor
from ..graph.graph import Node
from ..graph_breaks.runner import GraphBreakRunner
from ..heap.access_path import describe
from ..lazy.lazy_interpreter import MAX_EAGER_ELEMENTS
from ..runtime.compile_queue import Jobs
from ..scalars.scalar_expr import ScalarConstant, ScalarExpr
from .report_format import Explanation, ReportSection
from .trace_tree import TraceTree

_MAX_ITEMS = 12  # items of a list that are shown: conditions, kernels, changes
_MAX_OPERAND_CHARS = 100  # characters of an inner formula
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
          "pow": "**", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">=",
          "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}


class ReportedFunction(Protocol):
    """The attributes of a compiled function that the report reads."""

    __name__: str
    programs: list[TraceTree]
    refusals: dict[str, int]
    misses: list[str]
    stats: Any
    jobs: Jobs
    graph_breaks: GraphBreakRunner


def explain(function: ReportedFunction) -> Explanation:
    """The report on a compiled function."""
    s, programs = function.stats, function.programs
    parts = [ReportSection(f"{function.__name__}: {_number(s.recordings, 'recording')}, "
                           f"{_number(s.replays, 'replay')}, {_number(s.fallbacks, 'eager call')}, "
                           f"{s.compile_seconds:.2f} s compiling", [ReportSection(str(s.costs))])]
    if function.jobs.awaited:
        parts.append(ReportSection("background compilation, "
                                   f"{_number(function.jobs.awaited, 'graph')} left: "
                                   "until then calls run op by op"))
    parts += _titled("graph breaks", [
        *[ReportSection(f"{why} ({_number(n, 'time')})") for why, n in function.refusals.items()],
        *_of_subgraphs(function.graph_breaks)])
    parts += _titled("recompiled", [
        ReportSection(f"{why} ({_number(n, 'time')})")
        for why, n in Counter(function.misses).items()])
    for number, program in enumerate(programs, 1):
        program.collect_uses()
        parts.append(ReportSection(f"program {number} of {len(programs)}, replayed "
                                   f"{_number(program.uses, 'time')}", _of_program(program)))
    return Explanation(parts)


def _of_subgraphs(runner: GraphBreakRunner) -> list[ReportSection]:
    """The report lines for the subgraphs between the graph breaks, if there are any."""
    if not runner.replays + runner.evaluations + runner.eager_calls + runner.eager_ops:
        return []
    if not runner.replays + runner.evaluations:
        return [ReportSection(f"nothing is compiled: {_number(runner.eager_ops, 'operation')} ran "
                              "one by one; subgraphs pay for arrays of more than "
                              f"{MAX_EAGER_ELEMENTS:,} elements")]
    lines = [f"{_number(runner.compiled, 'subgraph')} compiled, in {runner.compile_seconds:.2f} s",
             f"subgraphs ran {_number(runner.replays, 'time')} as compiled code, "
             f"{_number(runner.evaluations, 'time')} op by op",
             f"they ran {_number(runner.compiled_ops, 'operation')}; "
             f"{_number(runner.eager_ops, 'operation')} ran one by one",
             *[f"not compiled: {why} ({_number(n, 'time')})"
               for why, n in runner.uncompiled.most_common(_MAX_ITEMS)],
             *[f"a subgraph ends: {why} ({_number(n, 'time')})"
               for why, n in runner.boundaries.most_common(_MAX_ITEMS)]]
    if runner.eager_calls:
        lines.append(f"{_number(runner.eager_calls, 'call')} ran without subgraphs: trials "
                     "compare which takes less time")
    return [ReportSection(line) for line in lines]


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _titled(title: str, parts: Sequence[ReportSection]) -> list[ReportSection]:
    return [ReportSection(title, parts)] if parts else []


def _shortened(parts: list[ReportSection], what: str) -> list[ReportSection]:
    more = len(parts) - _MAX_ITEMS
    return [*parts[:_MAX_ITEMS], ReportSection(f"and {more} more {what}")] if more > 0 else parts


def _of_program(program: TraceTree) -> list[ReportSection]:
    conditions = [ReportSection(g.message) for g in program.guards]
    conditions.insert(0, ReportSection(f"gradients are {'on' if program.grad_enabled else 'off'}"))
    parts = [ReportSection("guards", _shortened(conditions, "conditions"))]
    parts += _titled("dynamic scalars", [
        ReportSection(describe(p)) for p in sorted(program.varying.numbers, key=describe)])
    parts.append(ReportSection("control flow, with replay counts per branch",
                               _REPORT.visit(program.root)))
    if program.split is not None:
        parts.append(ReportSection(
            f"control flow runs in Python between native calls: {program.split}"
            if program.split else "the whole program is one native call"))
    if program.hot_paths:
        parts.append(ReportSection(f"{_number(program.hot_paths, 'path')} through merges compiled "
                                   "as a whole, since calls repeat and values are large"))
    segments = program.segments()
    executables = [code for s in segments if (code := s.executable)]
    if not executables:
        when = "the background thread compiles it" if any(s.is_awaited for s in segments) else \
            "the next call that fits compiles it"
        return [*parts, ReportSection(f"not compiled yet: {when}")]
    largest = max((m.memory for m in executables), key=lambda m: m.peak)
    return [*parts, ReportSection(f"memory of one call: {largest}"),
            _kernels([row for m in executables for row in m.rows()])]


# ---- the control flow
class _Report(Visitor[list[ReportSection]]):
    """Writes the report lines for a block and everything below it."""

    def other(self, at: Block) -> list[ReportSection]:
        return [part for below in at.children() for part in self.visit(below)]

    def exit(self, at: Exit) -> list[ReportSection]:
        return [part for trace_exit in at.exits for part in _of_trace_exit(trace_exit)]

    def branch(self, at: Branch) -> list[ReportSection]:
        outcomes = [ReportSection(f"{_outcome(at, outcome)}: {_number(_USES.visit(block), 'time')}",
                                  self.visit(block))
                    for outcome, block in at.outcomes.items()]
        return [ReportSection(f"{at.site or 'a line of fusewire'} branches on "
                              f"{_subject(at.subject)}", outcomes)]

    def loop_header(self, at: LoopHeader) -> list[ReportSection]:
        carried = [str(n.type) for n in at.phis] + ["a number"] * len(at.symbols)
        return [ReportSection(f"{at.site} loops, carrying {', '.join(carried) or 'nothing'}: "
                              f"{_number(at.iterations, 'iteration')} so far", self.other(at))]

    def size_definition(self, at: SizeDefinition) -> list[ReportSection]:
        return [ReportSection(f"{at.site} computes the data-dependent size {at.element.name}"),
                *self.other(at)]

    def host_call(self, at: HostCall) -> list[ReportSection]:
        return [ReportSection(str(at.element)), *self.other(at)]

    def back_edge(self, at: BackEdge) -> list[ReportSection]:
        return [ReportSection(f"{at.site} continues with the next iteration")]


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


_REPORT, _USES = _Report(), _Uses()


def _of_trace_exit(trace_exit: TraceExit) -> Iterator[ReportSection]:
    yield from _titled("path guards", _shortened([ReportSection(g.message)
                                                 for g in trace_exit.exit_guards], "conditions"))
    values = ", ".join(str(n.type) for n in trace_exit.outputs[:_MAX_ITEMS])
    more = ", ..." if len(trace_exit.outputs) > _MAX_ITEMS else ""
    yield ReportSection(f"computes {values}{more}" if values else "computes nothing")
    targets = dict.fromkeys(map(str, trace_exit.effects))
    yield from _titled("changes", _shortened(list(map(ReportSection, targets)), "changes"))


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


# ---- the kernels

def _kernels(rows: list[dict[str, Any]]) -> ReportSection:
    """The table of kernels, costliest first, each with its share of the time."""
    total = max(sum(r["seconds"] for r in rows), 1e-12)
    cells = [("kernel", "us", "share", "KB", "GB/s", "limit", "line")]
    for r in sorted(rows, key=lambda r: -r["seconds"])[:_MAX_ITEMS]:
        seconds = max(r["seconds"], 1e-9)
        note = f"  not native: {r['why']}" if "why" in r else ""
        cells.append((r["name"][:40], f"{seconds * 1e6:.1f}", f"{seconds / total:.0%}",
                      f"{r['bytes'] / 1e3:.1f}", f"{r['bytes'] / seconds / 1e9:.1f}",
                      f"{r['limit'] / seconds:.0%}" if r["limit"] else "-",
                      f"{r['line']}{note}"))
    more = len(rows) - len(cells) + 1
    remainder = [ReportSection(f"and {more} more kernels")] if more > 0 else []
    title = f"{_number(len(rows), 'kernel')}, {total * 1e6:.0f} us on synthetic values"
    return ReportSection(title, remainder, cells if rows else ())
