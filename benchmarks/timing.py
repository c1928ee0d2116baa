"""Timing several functions against each other on a machine that does other things as well.

Rounds are interleaved: in each, every function gives one sample, in rotating order, so that a slow
spell meets all of them. A sample is the mean of as many calls as fill 10 ms, after one that is not
timed. Before it, the threads of the library before go to sleep: some look for work for a tenth of
a second, and would share a processor with whoever is next. Linux counts how long our threads waited
for a processor that somebody else had: samples with more than 3 % of that are left out.

On a GPU the calls of a sample queue up, and the sample ends when the last one is done. The clock is
the CPU's: libraries use streams of their own, and an event of one says nothing of another's.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import place

SAMPLE_SECONDS = 0.01
SETTLING = 5  # calls after which nobody compiles or prepares anything
PAUSE_SECONDS = 0.003   # between two looks at whether all other threads sleep
PAUSES = 100            # looks, before a thread counts as one that never sleeps
DISTURBED = 0.03        # waiting for a processor, as a share of a sample, from which it is left out
ENOUGH = 5              # quiet samples; with fewer, the least disturbed quarter is taken
_TASKS = "/proc/self/task"

Call = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median of the samples that count and the fastest of them."""

    median: float
    fastest: float
    rounds: int
    quiet: int  # how many samples nobody disturbed


def interleaved(calls: dict[str, Call], rounds: int, budget: float = 8.0) -> dict[str, Timing]:
    """The time of each call, from at most `rounds` rounds and about `budget` seconds."""
    repeats = {name: _repeats(call) for name, call in calls.items()}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    names, began = list(calls), time.perf_counter()
    with _no_collection():
        for turn in range(rounds):
            if turn > ENOUGH and time.perf_counter() - began > budget:
                break
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                samples[name].append(_sample(calls[name], repeats[name]))
    return {name: _timing(found) for name, found in samples.items()}


def _repeats(call: Call) -> int:
    """How many calls fill a sample, once the first ones have settled what is to be settled."""
    _seconds(call, SETTLING)
    count = 1
    while True:
        seconds = _seconds(call, count)
        if seconds > SAMPLE_SECONDS / 4:
            return max(1, round(count * SAMPLE_SECONDS / seconds))
        count *= 4


def _seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    place.finish()
    return time.perf_counter() - start


def _sample(call: Call, repeats: int) -> tuple[float, float]:
    """Seconds per call, and the share of them that our threads waited for a processor."""
    if place.device == place.CPU:
        _let_others_sleep()
    call()
    place.finish()
    before = waited()
    seconds = _seconds(call, repeats)
    return seconds / repeats, (waited() - before) / seconds


def _timing(samples: list[tuple[float, float]]) -> Timing:
    quiet = [seconds for seconds, wait in samples if wait < DISTURBED]
    counted = quiet
    if len(quiet) < ENOUGH:
        by_wait = sorted(samples, key=lambda sample: sample[1])
        counted = [seconds for seconds, _ in by_wait[:max(3, len(samples) // 4)]]
    return Timing(statistics.median(counted), min(counted), len(samples), len(quiet))


def _let_others_sleep() -> None:
    """Waits until no other thread of this process runs; a moment where threads can't be seen."""
    for _ in range(PAUSES):
        time.sleep(PAUSE_SECONDS)
        if _running() <= 1:
            break


def _running() -> int:
    """How many threads of this process run or could; 0 where unknown."""
    return sum(state.rpartition(")")[2].split()[0] == "R" for state in _of_threads("stat"))


def waited() -> float:
    """Seconds for which threads of this process could run and had no processor; 0 where unknown."""
    return sum(int(counts.split()[1]) for counts in _of_threads("schedstat")) * 1e-9


def _of_threads(name: str) -> list[str]:
    """What Linux says of each thread of this process under `name`; nothing elsewhere."""
    try:
        return [Path(_TASKS, thread, name).read_text() for thread in os.listdir(_TASKS)]
    except OSError:  # another system, or a thread that has just ended
        return []


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python's garbage is collected before and not meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
