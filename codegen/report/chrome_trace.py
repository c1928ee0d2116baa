"""Writes profiles as Chrome trace events, for ui.perfetto.dev and chrome://tracing.

Each thread has two tracks: its calls, nested, and the kernels that ran.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ...capture.runtime.metrics import Costs
from ...capture.runtime.profiling_spans import Span

Event = dict[str, Any]
Steps = Callable[[Span], Iterable[Any]]
_FACTS = ("bytes", "flops", "line", "why")


def write_trace(path: str | os.PathLike[str], calls: Sequence[Span], began: float, steps: Steps
                ) -> None:
    """Writes the calls to a file, with times relative to `began`; `steps` gives the kernels that
    ran in a span."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": list(_events(list(calls), began, steps)),
                   "displayTimeUnit": "ns"}, file)


def _events(calls: Sequence[Span], began: float, steps: Steps) -> Iterator[Event]:
    yield _named("process_name", 0, "fusewire")
    tracks = {thread: 2 * i + 1 for i, thread in enumerate(dict.fromkeys(c.thread for c in calls))}
    for thread, track in tracks.items():
        yield _named("thread_name", track, f"{thread.name}: calls")
        yield _named("thread_name", track + 1, f"{thread.name}: kernels")
    for call in calls:
        yield from _of_span(call, tracks[call.thread], began, steps)


def _named(what: str, track: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": os.getpid(), "tid": track, "args": {"name": name}}


def _of_span(span: Span, track: int, began: float, steps: Steps) -> Iterator[Event]:
    name = span.name if span.kind in (span.name, "call", "kernel") else f"{span.kind}: {span.name}"
    costs = vars(span.about) if isinstance(span.about, Costs) else {}
    args = {"line": span.line} if span.line else {}
    yield _complete(name, span.kind, (span.began, span.ended, began), track, {**args, **costs})
    for step in steps(span):
        facts = {key: step.facts[key] for key in _FACTS if key in step.facts}
        yield _complete(step.facts["name"], "kernel", (step.began, step.ended, began), track + 1,
                        facts)
    for inner in span.inner:
        yield from _of_span(inner, track, began, steps)


def _complete(name: str, kind: str, times: tuple[float, float, float], track: int,
              args: dict[str, Any]) -> Event:
    start, end, zero = times
    ts, until = (round((t - zero) * 1e6, 3) for t in (start, end))
    return {"ph": "X", "name": name, "cat": kind, "ts": ts, "dur": round(until - ts, 3),
            "pid": os.getpid(), "tid": track, "args": args}
