"""Describes a compiled function as plain data: programs, control flow, kernels, memory, code.

`explain()` shows these data as text, and `explain(html=...)` as a page.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..graph.text import to_text
from ..graph_breaks.remedies import recording_remedy_of, remedy_of
from ..graph_breaks.runner import GraphBreakRunner
from ..graph_breaks.subgraph import SubgraphCode
from ..heap.access_path import describe as path_text
from ..runtime.compile_queue import Jobs
from ..runtime.metrics import Memory
from ..segments.segment import Segment
from .flow_data import Data, flow_of
from .trace_tree import TraceTree

VERSION = 2  # of the form of the data
_CONTEXT_LINES = 4  # lines of the user's code before and after each that is named
_VALUE = re.compile(r" (==|is|has) .*")
_SITE = re.compile(r"([^\s,:/\\]+):(\d+)")


class ReportedFunction:
    """The attributes of a compiled function that the report reads."""

    __name__: str
    original: Any
    programs: list[TraceTree]
    refusals: dict[str, int]
    misses: list[str]
    stats: Any
    jobs: Jobs
    graph_breaks: GraphBreakRunner


def describe(function: ReportedFunction) -> Data:
    """The function as dictionaries, lists, texts and numbers, which JSON can hold.

    `version`, `name`, `stats`, `costs` and `costs_text`, `awaited` (graphs that are not compiled
    yet), `graph_breaks` (`line`, `why`, `times`, `remedy`), `subgraphs`, with their `segments`,
    `recompiled` (the causes of new recordings, with the same keys), `programs`, and `sources`,
    lines of the user's files.
    """
    stats = function.stats
    data: Data = {
        "version": VERSION, "name": function.__name__,
        "stats": {name: getattr(stats, name) for name in (
            "recordings", "replays", "fallbacks", "compile_seconds", "peak_bytes")},
        "costs": dict(vars(stats.costs)), "costs_text": str(stats.costs),
        "awaited": function.jobs.awaited,
        "graph_breaks": [_graph_break(why, times) for why, times in function.refusals.items()],
        "subgraphs": _subgraphs(function.graph_breaks),
        "recompiled": _recordings(function.misses),
        "programs": [_program(number, program)
                     for number, program in enumerate(function.programs, 1)],
    }
    data["sources"] = _sources(_sites(data), getattr(function.original, "__code__", None))
    return data


def _graph_break(why: str, times: int) -> Data:
    site = _SITE.match(why)
    return {"line": site[0] if site else "", "why": why, "times": times, "remedy": remedy_of(why)}


def _recordings(misses: Iterable[str]) -> list[Data]:
    """The causes of recordings, in the order of their first one. Reasons that differ in the value
    alone are one cause."""
    rows: dict[str, Data] = {}
    for why in misses:
        site = _SITE.search(why)
        row = rows.setdefault(_VALUE.sub("", why), {
            "line": site[0] if site else "", "why": why, "times": 0,
            "remedy": recording_remedy_of(why)})
        row["times"] += 1
    return list(rows.values())


def _subgraphs(runner: GraphBreakRunner) -> Data:
    return {"compiled": runner.compiled, "compile_seconds": runner.compile_seconds,
            "replays": runner.replays, "evaluations": runner.evaluations,
            "compiled_ops": runner.compiled_ops, "eager_ops": runner.eager_ops,
            "eager_calls": runner.eager_calls, "uncompiled": _counts(runner.uncompiled),
            "boundaries": _counts(runner.boundaries),
            "segments": [_subgraph(code) for code in runner.codes()]}


def _subgraph(code: SubgraphCode) -> Data:
    """A subgraph as `_segment` describes segments."""
    return {"graph": to_text(code.graph, sites=True), "awaited": False,
            "memory": _memory(code.program.memory), "parts": code.program.listings()}


def _counts(counter: Counter[str]) -> list[Data]:
    return [_graph_break(why, times) for why, times in counter.most_common()]


def _program(number: int, program: TraceTree) -> Data:
    """A program: `number`, `uses`, `guards`, `scalars` (those that may change), `native` (why it is
    not one native call, "" if it is one, None if no call was fast yet), `hot_paths`, `flow`, and
    `segments`."""
    program.collect_uses()
    segments = program.segments()
    numbers = {segment: i for i, segment in enumerate(segments)}
    return {"number": number, "uses": program.uses,
            "guards": [f"gradients are {'on' if program.grad_enabled else 'off'}",
                       *[g.message for g in program.guards]],
            "scalars": [path_text(p) for p in sorted(program.varying.numbers, key=path_text)],
            "native": program.split, "hot_paths": program.hot_paths,
            "flow": flow_of(program.root, numbers), "segments": list(map(_segment, segments))}


def _segment(segment: Segment) -> Data:
    """A segment: `graph` as text, `awaited`, `memory` of a call or None before it is compiled, and
    `parts`, its native programs and library calls (`codegen/program/listing.py`)."""
    executable = segment.executable
    return {"graph": to_text(segment.graph, sites=True), "awaited": segment.is_awaited,
            "memory": None if executable is None else _memory(executable.memory),
            "parts": [] if executable is None else executable.listings()}


def _memory(memory: Memory) -> Data:
    return {**memory._asdict(), "peak": memory.peak}


def _sites(data: Data) -> Iterable[str]:
    """All texts of the data that may name lines."""
    yield from (row["why"] for rows in (data["graph_breaks"], data["subgraphs"]["boundaries"])
                for row in rows)
    yield from (row["why"] for row in data["recompiled"])
    for program in data["programs"]:
        yield from (block["text"] for block in program["flow"])
    yield from (row["line"] for segment in segments_of(data) for part in segment["parts"]
                for row in part["kernels"])


def segments_of(data: Mapping[str, Any]) -> list[Data]:
    """The segments of all programs and the subgraphs."""
    return [segment for of in (*data["programs"], data["subgraphs"]) for segment in of["segments"]]


def _sources(texts: Iterable[str], code: Any) -> dict[str, dict[str, str]]:
    """The lines around those that the texts name, by file and number."""
    named: dict[str, set[int]] = {}
    for text in texts:
        for file, line in _SITE.findall(text):
            named.setdefault(file, set()).add(int(line))
    paths = _paths(named, code)
    return {file: _lines(paths[file], lines) for file, lines in named.items() if file in paths}


def _lines(path: str, lines: set[int]) -> dict[str, str]:
    shown = sorted({n for line in lines
                    for n in range(line - _CONTEXT_LINES, line + _CONTEXT_LINES + 1) if n > 0})
    texts = {n: linecache.getline(path, n) for n in shown}
    return {str(n): text.rstrip("\n") for n, text in texts.items() if text}


def _paths(names: Iterable[str], code: Any) -> dict[str, str]:
    """The path of each file name: the function's own file, or the only file of that name which a
    module was loaded from. Names of several files are left out, so that no wrong line is shown."""
    files: dict[str, set[str]] = {}
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    for path in (*linecache.cache, *filter(None, loaded)):
        files.setdefault(Path(str(path)).name, set()).add(str(path))
    own = {} if code is None else {Path(code.co_filename).name: code.co_filename}
    unique = {name: next(iter(paths)) for name, paths in files.items() if len(paths) == 1}
    return {name: own.get(name) or unique[name] for name in names if name in own or name in unique}
