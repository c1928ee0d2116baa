"""Runs workloads: prepares every variant, compares results, and times variants interleaved."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import machine, place
from .peers import arrays_of, installed, warm_up
from .timing import Timing, interleaved
from .workload import Call, Inputs, Maker, Workload, library

OURS = ("fusewire", "fusewire eager")  # the first one present is the reference
LOSSES = 3

Row = dict[str, Any]
UNMEASURED: Row = {  # a fresh process measures it
    "compile_warm": None, "peak_rss": None, "grown_rss": None, "peers_rss": {}, "peers_grown": {},
    "peers_kept": {}, "fusewire_kept": None, "best_kept": None, "ratio_kept": None}


@dataclass
class Prepared:
    """The variants of a workload that can be timed, with notes."""

    calls: dict[str, Call] = field(default_factory=dict)
    cold: dict[str, float] = field(default_factory=dict)
    again: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def measure_all(
    workloads: Sequence[Workload], peers: Iterable[str], rounds: int, kernels: bool = False
) -> Iterator[Row]:
    """A row for each workload. Progress goes to standard error."""
    libraries = ["fusewire", *(p for p in peers if _usable(p))]
    for variant in ("fusewire", "torch.compile", "jax.jit"):
        if library(variant) in libraries:
            try:
                warm_up(variant)
            except Exception as error:  # as it will with every workload
                say(f"{variant} compiles nothing here: {type(error).__name__}: {str(error)[:300]}")
    here = machine.describe()
    for workload in workloads:
        say(f"{workload.name}: {workload.about}")
        place.clear()
        yield measure(workload, libraries, rounds, kernels) | {"machine": here}


def _usable(peer: str) -> bool:
    why = "" if installed(peer) else "is not installed"
    if not why and place.device != place.CPU and not place.has_gpu(peer):
        why = f"does not run on {place.device} here"
    if why:
        say(f"{peer} {why}: left out")
    return not why


def measure(
    workload: Workload, libraries: Sequence[str], rounds: int, kernels: bool = False
) -> Row:
    """The times of all variants of a workload whose results agree."""
    makers = {n: m for n, m in workload.makers.items() if library(n) in libraries}
    ready = prepare(workload, makers)
    for note in ready.notes:
        say(f"  {note}")
    times = interleaved(ready.calls, rounds) if ready.calls else {}
    row = _row(workload, ready, times)
    if kernels and "fusewire" in ready.calls:
        row["kernels"] = ready.calls["fusewire"].func.kernels()
    return row


def prepare(workload: Workload, makers: dict[str, Maker]) -> Prepared:
    """The prepared variants, each called for the first time. Variants that fail or differ are noted
    and left out."""
    ready, reference = Prepared(), None
    inputs, checked = workload.inputs(), workload.checked and workload.checked()
    for name, maker in makers.items():
        try:
            call, ready.cold[name], found = _first_calls(name, maker, inputs, workload)
            if workload.recompiles:
                _, ready.again[name], _ = _first_calls(name, maker, inputs, workload)
            if checked:
                _, _, found = _first_calls(name, maker, checked, workload)
        except Exception as error:  # another library may raise anything; the other rows stay useful
            ready.notes.append(f"{name} failed: {type(error).__name__}: {str(error)[:300]}")
            continue
        reference = found if reference is None else reference
        difference = error_of(found, reference)
        if difference <= workload.tolerance:
            ready.calls[name] = call
        else:
            ready.notes.append(f"{name} differs by {difference:.1e}: not timed")
    return ready


def _first_calls(
    name: str, maker: Maker, inputs: Inputs, workload: Workload
) -> tuple[Call, float, list[np.ndarray]]:
    """The call, the seconds until compiled code had run, and the results to compare."""
    start = time.perf_counter()
    call = maker(inputs)
    results: list[list[np.ndarray]] = []
    for _ in range(cold_calls(workload, name)):
        if not workload.training:
            results.clear()  # as a program would drop them
        results.append(arrays_of(call()))
    cold = time.perf_counter() - start
    if not workload.training:
        return call, cold, results[-1]
    results += [arrays_of(call()) for _ in range(LOSSES - len(results))]
    return call, cold, [array for result in results for array in result]


def cold_calls(workload: Workload, variant: str) -> int:
    """The number of calls after which compiled code of a variant has run."""
    return workload.cold_calls if variant == "fusewire" else 1


def error_of(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """The largest difference, relative to the largest element of its result."""
    if [a.shape for a in found] != [a.shape for a in wanted]:
        return float("inf")
    worst = 0.0
    for a, b in zip(found, wanted):
        scale = float(np.abs(b).max(initial=0.0)) or 1.0
        error = float(np.abs(a.astype(np.float64) - b).max(initial=0.0)) / scale
        worst = max(worst, error if error == error else float("inf"))
    return worst


def _row(workload: Workload, ready: Prepared, times: dict[str, Timing]) -> Row:
    ours = next((name for name in OURS if name in times), None)
    peers = {n: t.median for n, t in times.items() if library(n) != "fusewire"}
    best = min(peers, key=peers.__getitem__, default=None)
    limit = machine.limit(workload.flops, workload.size)
    seconds = times[ours].median if ours else None
    native = _median(times, "fusewire native")
    return {
        "workload": workload.name, "about": workload.about, "fusewire": seconds,
        "fusewire_eager": _median(times, "fusewire eager"), "peers": peers, "best_peer": best,
        "python": seconds - native if seconds and native else None,
        "ratio": peers[best] / seconds if best and seconds else None, "limit": limit or None,
        "of_limit": seconds / limit if limit and seconds else None,
        "recordings": _recordings(ready.calls.get("fusewire")),
        "compile_cold": ready.cold.get("fusewire"),
        "peers_cold": {n: s for n, s in ready.cold.items() if library(n) != "fusewire"},
        "compile_again": ready.again.get("fusewire"),
        "peers_again": {n: s for n, s in ready.again.items() if library(n) != "fusewire"},
        **UNMEASURED,
        "fastest": {n: t.fastest for n, t in times.items()},
        "quiet": {n: f"{t.quiet}/{t.rounds}" for n, t in times.items()}, "notes": ready.notes,
    }


def _recordings(call: Any) -> int | None:
    """The number of recordings of a compiled function; None if it is unknown."""
    stats = getattr(getattr(call, "func", None), "stats", None)
    return getattr(stats, "recordings", None)


def _median(times: dict[str, Timing], name: str) -> float | None:
    return times[name].median if name in times else None


def say(text: str, write: Callable[[str], Any] = sys.stderr.write) -> None:
    """Shows progress on standard error."""
    write(text + "\n")
