"""`fw.profile`: measures the time of compiled functions, call by call and kernel by kernel."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...capture.replay.report_format import Explanation, ReportSection
from ...capture.runtime import profiling_spans
from ...capture.runtime.metrics import Costs, Memory
from ...capture.runtime.profiling_spans import Span
from ...eager import interpreter
from ...eager.errors import ArgumentError, CaptureError
from ..program.executable import Executable
from .chrome_trace import write_trace

Table = list[tuple[str, ...]]
_MAX_KERNELS_SHOWN = 20


def profile() -> Profile:
    """A profile, which notes every call of a compiled function while it is open, in all threads.

    Printed, it tells by function where the time went, and by kernel, longest first, what it moved
    and computed, how near it came to what this machine can do (`limit`), and the user's line.
    `save` writes a trace that https://ui.perfetto.dev opens. The values are those of other calls,
    by the same code; programs run step by step, which costs about a microsecond a kernel. Eager
    ops beside compiled calls are not shown. Profiles may be nested.

    >>> import fusewire as fw
    >>> f = fw.compile(lambda x: (x * 2).sum())
    >>> with fw.profile() as p:
    ...     for _ in range(3):
    ...         y = f(fw.ones(4))
    >>> [(row["name"], row["calls"]) for row in p.calls()]
    [('<lambda>', 3)]
    """
    return Profile()


@dataclass(frozen=True)
class ProfileStep:
    """One run of a kernel: its times, and the row of its facts."""

    began: float
    ended: float
    facts: dict[str, Any]


class Profile:
    """The calls of compiled functions while it was open; `profile()` makes one."""

    def __init__(self) -> None:
        self.spans: list[Span] = []  # of calls, in the order in which they ended
        self.began = self.seconds = 0.0
        self._entered_at: float | None = None

    def __enter__(self) -> Profile:
        if interpreter.STATE.active is not None:
            raise CaptureError("fw.profile() is opened inside of a compiled function, which a "
                               "replay would not repeat", "open it around the call")
        if self._entered_at is not None:
            raise ArgumentError("this profile is open already", "make another by fw.profile()")
        self._entered_at = time.perf_counter()
        self.began = self.began or self._entered_at
        profiling_spans.watch(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        profiling_spans.unwatch(self._note)
        if self._entered_at is not None:
            self.seconds += time.perf_counter() - self._entered_at
        self._entered_at = None

    def _note(self, span: Span) -> None:
        self.spans.append(span)

    # ---- the results

    def calls(self) -> list[dict[str, Any]]:
        """A row per function, longest first: name, line, calls, and the seconds of all of them, of
        Python, kernels, recording and compiling; recordings; programs compiled and from disk."""
        rows: dict[Any, dict[str, Any]] = {}
        for span in list(self.spans):
            row = rows.setdefault((span.name, span.line), _empty_row(span))
            row["calls"] += 1
            _add_call(row, span)
        for row in rows.values():
            row["python"] = row["seconds"] - sum(row[k] for k in set(_COLUMNS.values()))
        return sorted(rows.values(), key=lambda row: -row["seconds"])

    def kernels(self) -> list[dict[str, Any]]:
        """A row per kernel, longest first: name, line, calls, the seconds of all of them, and of
        each call the median, bytes, flops, and `limit`, the seconds below which it cannot go on
        this machine; 0 where that is not known."""
        facts: dict[int, dict[str, Any]] = {}
        times: dict[int, list[float]] = defaultdict(list)
        for step in self._steps():
            facts[id(step.facts)] = step.facts
            times[id(step.facts)].append(step.ended - step.began)
        rows = [{**facts[key], "calls": len(durations), "seconds": sum(durations),
                 "median": float(np.median(durations))} for key, durations in times.items()]
        return sorted(rows, key=lambda row: -row["seconds"])

    def memory(self) -> Memory:
        """The peak memory of a call of one native program."""
        programs = [span.about.memory for span in _programs(self.spans)]
        return max(programs, key=lambda m: m.peak, default=Memory(0, 0, 0))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file of trace events, which ui.perfetto.dev opens."""
        write_trace(path, self.spans, self.began, steps_of)

    def _steps(self) -> Iterator[ProfileStep]:
        for span in list(self.spans):
            for part in within(span):
                yield from steps_of(part)

    # ---- as text

    def __str__(self) -> str:
        return str(self._explanation())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._explanation()._repr_html_()

    def _explanation(self) -> Explanation:
        calls, kernels = self.calls(), self.kernels()
        if not calls:
            return Explanation([ReportSection("no compiled function was called")])
        count = sum(row["calls"] for row in calls)
        seconds = sum(row["seconds"] for row in calls)
        parts = [ReportSection(f"{_number(count, 'call')} of compiled functions took "
                               f"{seconds * 1e3:.2f} ms of {self.seconds * 1e3:.2f} ms"),
                 ReportSection("by function, in ms", rows=_call_table(calls))]
        if kernels:
            more = len(kernels) - _MAX_KERNELS_SHOWN
            omitted = [ReportSection(f"and {more} more kernels")] if more > 0 else []
            table = _kernel_table(kernels[:_MAX_KERNELS_SHOWN], sum(row["seconds"]
                                                                    for row in kernels))
            parts += [ReportSection("by kernel, the median call", omitted, table),
                      ReportSection(f"memory of the largest program: {self.memory()}")]
        return Explanation(parts)


_COLUMNS = {"program": "kernels", "kernel": "kernels", "recording": "recording",
            "compiling": "compiling"}  # which part of a call's time a span in it is


def _empty_row(span: Span) -> dict[str, Any]:
    times = dict.fromkeys(("seconds", "python", "kernels", "recording", "compiling"), 0.0)
    counts = dict.fromkeys(("calls", "recordings", "compiled", "from_disk"), 0)
    return {"name": span.name, "line": span.line, **times, **counts}


def _add_call(row: dict[str, Any], call: Span) -> None:
    row["seconds"] += call.seconds
    for part in within(call):
        row[_COLUMNS[part.kind]] += part.seconds
        row["recordings"] += part.kind == "recording"
        if isinstance(part.about, Costs):
            row["compiled"] += part.about.compiled
            row["from_disk"] += part.about.from_disk


def within(call: Span) -> Iterator[Span]:
    """The spans of a call, in order, without those inside recording and compiling."""
    for span in call.inner:
        if span.kind in _COLUMNS:
            yield span
        else:
            yield from within(span)


def steps_of(span: Span) -> Iterator[ProfileStep]:
    """The kernels that ran in a span of a program or of a library call."""
    if isinstance(span.about, Executable):
        for (began, ended), facts in zip(span.parts, span.about.facts):
            yield ProfileStep(began, ended, facts)
    elif span.kind == "kernel":
        yield ProfileStep(span.began, span.ended, span.about)


def _programs(calls: Iterable[Span]) -> Iterator[Span]:
    for call in list(calls):
        yield from (s for s in within(call) if isinstance(s.about, Executable))


# ---- tables

def _number(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _call_table(rows: Iterable[dict[str, Any]]) -> Table:
    cells: Table = [("function", "calls", "all", "Python", "kernels", "recording", "compiling",
                     "compiled", "from disk", "line")]
    for r in rows:
        times = (f"{r[k] * 1e3:.2f}" for k in
                 ("seconds", "python", "kernels", "recording", "compiling"))
        cells.append((r["name"], str(r["calls"]), *times, str(r["compiled"]), str(r["from_disk"]),
                      r["line"]))
    return cells


def _kernel_table(rows: Iterable[dict[str, Any]], total: float) -> Table:
    cells: Table = [("kernel", "calls", "us", "share", "KB", "GB/s", "GFLOP/s", "limit", "line")]
    for r in rows:
        median = max(r["median"], 1e-9)
        cells.append((r["name"][:40], str(r["calls"]), f"{median * 1e6:.1f}",
                      f"{r['seconds'] / max(total, 1e-12):.0%}", f"{r['bytes'] / 1e3:.1f}",
                      f"{r['bytes'] / median / 1e9:.1f}", f"{r['flops'] / median / 1e9:.1f}",
                      f"{r['limit'] / median:.0%}" if r["limit"] else "-", r["line"]))
    return cells
