"""Writes the report of `explain()`: guards, control flow, memory and kernels of each program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..lazy.lazy_interpreter import MAX_EAGER_ELEMENTS
from ..runtime.metrics import Memory
from .flow_data import Data
from .report_data import ReportedFunction, describe
from .report_format import Explanation, ReportSection

_MAX_ITEMS = 12  # items of a list that are shown: conditions, kernels, changes
_SILENT = ("if_merge", "yield_values", "loop_backward")  # blocks that the text leaves out


def explain(function: ReportedFunction) -> Explanation:
    """The report on a compiled function."""
    data = describe(function)
    return Explanation(_parts(data), data)


def _parts(data: Data) -> list[ReportSection]:
    s, programs = data["stats"], data["programs"]
    parts = [ReportSection(f"{data['name']}: {_number(s['recordings'], 'recording')}, "
                           f"{_number(s['replays'], 'replay')}, "
                           f"{_number(s['fallbacks'], 'eager call')}, "
                           f"{s['compile_seconds']:.2f} s compiling",
                           [ReportSection(data["costs_text"])])]
    if data["awaited"]:
        parts.append(ReportSection(f"background compilation, {_number(data['awaited'], 'graph')} "
                                   "left: until then calls run op by op"))
    parts += _titled("graph breaks", [*map(_with_remedy, data["graph_breaks"]),
                                      *_of_subgraphs(data["subgraphs"])])
    parts += _titled("recompiled", list(map(_with_remedy, data["recompiled"])))
    return parts + [
        ReportSection(f"program {program['number']} of {len(programs)}, replayed "
                      f"{_number(program['uses'], 'time')}", _of_program(program))
        for program in programs]


def _with_remedy(row: Data) -> ReportSection:
    return ReportSection(f"{row['why']} ({_number(row['times'], 'time')})",
                         [ReportSection(f"remedy: {row['remedy']}")])


def _of_subgraphs(s: Data) -> list[ReportSection]:
    """The report lines for the subgraphs between the graph breaks, if there are any."""
    if not s["replays"] + s["evaluations"] + s["eager_calls"] + s["eager_ops"]:
        return []
    if not s["replays"] + s["evaluations"]:
        return [ReportSection(f"nothing is compiled: {_number(s['eager_ops'], 'operation')} ran "
                              "one by one; subgraphs pay for arrays of more than "
                              f"{MAX_EAGER_ELEMENTS:,} elements")]
    lines = [f"{_number(s['compiled'], 'subgraph')} compiled, in {s['compile_seconds']:.2f} s",
             f"subgraphs ran {_number(s['replays'], 'time')} as compiled code, "
             f"{_number(s['evaluations'], 'time')} op by op",
             f"they ran {_number(s['compiled_ops'], 'operation')}; "
             f"{_number(s['eager_ops'], 'operation')} ran one by one"]
    if s["eager_calls"]:
        lines.append(f"{_number(s['eager_calls'], 'call')} ran without subgraphs: trials "
                     "compare which takes less time")
    return [*map(ReportSection, lines[:3]),
            *_counted(_reasons(s["uncompiled"]), "not compiled: "),
            *_counted(_reasons(s["boundaries"]), "a subgraph ends: "),
            *map(ReportSection, lines[3:]), *_of_segments(s["segments"], not_compiled=[])]


def _reasons(rows: Sequence[Data]) -> list[tuple[str, int]]:
    return [(row["why"], row["times"]) for row in rows[:_MAX_ITEMS]]


def _counted(rows: Iterable[Sequence[Any]], before: str = "") -> list[ReportSection]:
    return [ReportSection(f"{before}{why} ({_number(n, 'time')})") for why, n in rows]


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _titled(title: str, parts: Sequence[ReportSection]) -> list[ReportSection]:
    return [ReportSection(title, parts)] if parts else []


def _shortened(lines: Sequence[str], what: str) -> list[ReportSection]:
    more = len(lines) - _MAX_ITEMS
    shown = list(map(ReportSection, lines[:_MAX_ITEMS]))
    return [*shown, ReportSection(f"and {more} more {what}")] if more > 0 else shown


def _of_program(program: Data) -> list[ReportSection]:
    parts = [ReportSection("guards", [ReportSection(program["guards"][0]),
                                      *_shortened(program["guards"][1:], "conditions")])]
    parts += _titled("dynamic scalars", list(map(ReportSection, program["scalars"])))
    parts.append(ReportSection("control flow, with replay counts per branch",
                               _of_block(program["flow"][0], program["flow"])))
    if program["native"] is not None:
        parts.append(ReportSection(
            f"control flow runs in Python between native calls: {program['native']}"
            if program["native"] else "the whole program is one native call"))
    if program["hot_paths"]:
        parts.append(ReportSection(f"{_number(program['hot_paths'], 'path')} through merges "
                                   "compiled as a whole, since calls repeat and values are large"))
    return parts + _of_segments(program["segments"], _not_compiled(program["segments"]))


def _not_compiled(segments: Sequence[Data]) -> list[ReportSection]:
    when = "the background thread compiles it" if any(s["awaited"] for s in segments) else \
        "the next call that fits compiles it"
    return [ReportSection(f"not compiled yet: {when}")]


def _of_segments(segments: Sequence[Data], not_compiled: list[ReportSection]
                 ) -> list[ReportSection]:
    memories = [s["memory"] for s in segments if s["memory"] is not None]
    if not memories:
        return not_compiled
    largest = max(memories, key=lambda memory: memory["peak"])
    memory = Memory(largest["inputs"], largest["results"], largest["arena"])
    return [ReportSection(f"memory of one call: {memory}"),
            _kernels([row for s in segments for part in s["parts"] for row in part["kernels"]])]


# ---- the control flow
def _of_block(block: Data, flow: Sequence[Data]) -> list[ReportSection]:
    """The report lines for a block and everything below it."""
    if block["kind"] == "exit":
        return [line for of in block["exits"] for line in _of_exit(of)]
    if block["kind"] == "branch":
        return [ReportSection(block["text"], [
            ReportSection(f"{edge['label']}: {_number(edge['uses'], 'time')}",
                          _of_block(flow[edge["to"]], flow)) for edge in block["edges"]])]
    below = [line for edge in block["edges"] for line in _of_block(flow[edge["to"]], flow)]
    if block["kind"] == "loop_header":
        return [ReportSection(block["text"], below)]
    return below if block["kind"] in _SILENT else [ReportSection(block["text"]), *below]


def _of_exit(of: Data) -> Iterator[ReportSection]:
    yield from _titled("path guards", _shortened(of["guards"], "conditions"))
    values = ", ".join(of["computes"][:_MAX_ITEMS])
    more = ", ..." if len(of["computes"]) > _MAX_ITEMS else ""
    yield ReportSection(f"computes {values}{more}" if values else "computes nothing")
    yield from _titled("changes", _shortened(of["changes"], "changes"))


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
