"""Times several functions against each other on a busy machine.

Each round has one sample of every function, in rotating order, so that a slow spell affects all.
A sample is the mean of as many calls as fill 10 ms, after one call that is not timed. Before a
sample, the threads of the previous library have to sleep: some spin for a tenth of a second and
would share a processor with the next library. Linux counts how long threads waited for a processor.
Samples that waited for more than 3 % of their time are left out.

On a GPU the calls of a sample queue up, and the sample ends when the last one is done. The clock is
that of the CPU: libraries use separate streams, and an event of one stream does not time another.
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
SETTLING = 5  # calls after which no library compiles or prepares anything
PAUSE_SECONDS = 0.003   # seconds between two checks that all other threads sleep
PAUSES = 100            # checks before a thread counts as one that never sleeps
DISTURBED = 0.03        # samples with a larger share of waiting for a processor are left out
ENOUGH = 5              # quiet samples; with fewer, the least disturbed quarter is taken
_TASKS = "/proc/self/task"

Call = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median of the samples that count and the fastest of them."""

    median: float
    fastest: float
    rounds: int
    quiet: int  # the number of undisturbed samples


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
    """The number of calls that fill a sample, after warm-up calls."""
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
    """Seconds per call, and the share of them in which threads waited for a processor."""
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
    """Waits until no other thread of this process runs. Without a list of threads: a short time."""
    for _ in range(PAUSES):
        time.sleep(PAUSE_SECONDS)
        if _running() <= 1:
            break


def _running() -> int:
    """The number of threads of this process that run or are runnable; 0 if unknown."""
    return sum(state.rpartition(")")[2].split()[0] == "R" for state in _of_threads("stat"))


def waited() -> float:
    """The seconds in which runnable threads of this process had no processor; 0 if unknown."""
    return sum(int(counts.split()[1]) for counts in _of_threads("schedstat")) * 1e-9


def _of_threads(name: str) -> list[str]:
    """Linux's file `name` of each thread of this process; empty on other systems."""
    try:
        return [Path(_TASKS, thread, name).read_text() for thread in os.listdir(_TASKS)]
    except OSError:  # another system, or the thread has just ended
        return []


@contextmanager
def _no_collection() -> Iterator[None]:
    """A context without garbage collection, after a collection."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
