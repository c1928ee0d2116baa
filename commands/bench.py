"""Implements `fusewire bench`, which compares the speed of a few jobs with other libraries."""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..capture.replay.report_format import aligned
from .support.command import Command, Failed, Result
from .support.jobs import JOBS, LIBRARIES, OURS, BenchJob
from .support.screen import Screen, time_text

_ROUNDS = 7


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="*", type=_job, metavar="JOB",
                        help=f"jobs to run (default: all): {', '.join(JOBS)}")
    parser.add_argument("--seconds", type=float, default=0.3, metavar="S",
                        help="seconds to measure each job (default: %(default)s)")


def _job(name: str) -> str:
    if name not in JOBS:
        raise argparse.ArgumentTypeError(f"no job {name!r}; the jobs are {', '.join(JOBS)}")
    return name


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    libraries = [name for name in LIBRARIES if importlib.util.find_spec(name) is not None]
    chosen = {name: JOBS[name] for name in options.jobs or JOBS}
    seconds = {name: _measured(job, libraries, options.seconds)
               for name, job in screen.bar(list(chosen.items()), "jobs")}
    rows = [["job", *libraries]]
    rows += [[chosen[name].about, *(time_text(times[lib]) if lib in times else "-"
                                    for lib in libraries)] for name, times in seconds.items()]
    for line in aligned(rows):
        screen.say(line)
    screen.say("\nmedian times of a call, with each library's default number of threads; results "
               "agree.\n`python -m benchmarks` in a checkout measures more jobs, and longer.")
    return {"unit": "seconds", "jobs": seconds}


def _measured(job: BenchJob, libraries: list[str], seconds: float) -> Mapping[str, float]:
    """The median seconds of a call, by library. Failed if results differ."""
    arrays = job.arrays(np.random.default_rng(0))
    calls = {name: job.calls[name](*arrays) for name in libraries if name in job.calls}
    results = {name: np.asarray(call()) for name, call in calls.items()}
    for name, result in results.items():
        if not np.allclose(result, results[OURS], rtol=1e-3, atol=1e-4):
            raise Failed(f"{job.about}: the result of {name} differs from that of {OURS}",
                         "`fusewire doctor` tests the installation; please report the difference")
    return _seconds(calls, seconds)


def _seconds(calls: Mapping[str, Callable[[], Any]], budget: float) -> dict[str, float]:
    """The median seconds of each call, over rounds that time all calls one after the other."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    once = {name: max(min(_timed(call, 1) for _ in range(3)), 1e-7) for name, call in calls.items()}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            times[name].append(_timed(call, max(int(budget / _ROUNDS / once[name]), 1)))
    return {name: statistics.median(samples) for name, samples in times.items()}


def _timed(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


COMMAND = Command(
    "compare the speed of a few jobs with other libraries",
    "Runs a few jobs in compiled code and in NumPy, and in PyTorch and ONNX Runtime if they are "
    "installed, compares their results and shows the time of a call. It takes seconds and gives "
    "only a first impression.",
    {"bench": "all jobs",
     "bench softmax gelu --seconds 2": "two jobs, measured for longer",
     "bench --json": "seconds by job and library as JSON"},
    _add_arguments, _run)
