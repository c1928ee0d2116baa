"""Implements `fusewire doctor`, which shows the installation and tests it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import fusewire as fw

from ..codegen.backend import device_report
from ..distributed.launcher import check_launch, hosts_of
from ..eager.arrays import devices
from ..eager.settings import KNOBS, settings
from ..export.report.environment import environment
from .support.command import Command, Failed, Result
from .support.screen import GREEN, Screen, painted


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--distributed", action="store_true",
                        help="also start ranks, test collectives and time them")
    parser.add_argument("-n", "--ranks", type=int, default=2,
                        help="number of ranks that are started; default 2")
    parser.add_argument("--hosts", default="", help="machines, separated by commas; default: here")


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    rows = environment() | device_report()
    screen.table(rows)
    problem = "; ".join(filter(None, map(_self_test, devices.names())))
    result: Result = {"environment": rows, "self_test": problem or "passed",
                      "settings": {name: getattr(settings, name) for name in KNOBS}}
    if not problem:
        width = max(map(len, rows))
        where = f" on {', '.join(devices.names())}"
        screen.table({"self-test".ljust(width): painted("passed", GREEN) + where})
    if options.distributed and not problem:
        result["distributed"] = report = check_launch(options.ranks, hosts_of(options.hosts))
        screen.table(_distributed_rows(report))
        problem = report.get("problem", "")
    screen.say(f"\n{settings!r}")
    if problem:
        raise Failed(f"self-test: {problem}", result=result)
    return result


def _distributed_rows(report: Mapping[str, Any]) -> dict[str, str]:
    """The report of `check_launch` as lines of a table."""
    if "problem" in report:
        return {}
    rows = {"engine": report["engine"],
            "ranks": f"{report['ranks']} on {len(report['machines'])} machine(s), "
                     f"{report['threads']} of {report['processors']} threads each",
            "start": f"{report['start']:.1f} s",
            "collectives": painted("passed", GREEN) + f": {', '.join(report['checked'])}",
            "copy in memory": f"{report['copy_bandwidth'] / (1 << 30):.1f} GB/s",
            "all-reduce of 1 KB": f"{report['latency'] * 1e6:.0f} us"}
    for mb, seconds in report["seconds"].items():
        rows[f"all-reduce of {mb} MB"] = f"{seconds * 1e3:.2f} ms, " \
            f"{int(mb) / 1024 / seconds:.2f} GB/s"
    return rows


def _self_test(device: str) -> str:
    """A problem with compiling a small function for a device, or ""."""
    def function(x: fw.Tensor) -> fw.Tensor:
        return (fw.exp(-x * x) + 1).sum()

    compiled = fw.compile(function)
    for scale in (1.0, 2.0):  # the first call traces, the second runs native code
        x = fw.arange(1000, dtype=fw.float32) * (scale / 1000)
        try:
            compiled_value, eager_value = float(compiled(x.to(device))), float(function(x))
        except Exception as error:  # any library below may be broken
            return f"{device}: {type(error).__name__}: {error}"
        if abs(compiled_value - eager_value) > 1e-5 * abs(eager_value):
            return f"compiled code on {device} gives {compiled_value!r}, eager {eager_value!r}"
    if not compiled.stats.replays:
        return f"no native code ran on {device}; {compiled.explain()}"
    return ""


COMMAND = Command(
    "show this installation and test it",
    "Shows versions, processor, threads, GPUs with the packages they need, and settings; then "
    "compiles a small function for each device and compares its results with those of plain "
    "Python. It fails if they differ or no native code runs. With --distributed it starts ranks, "
    "compares a collective of each kind with its value, and times all-reduces.",
    {"doctor": "output to attach to a bug report",
     "doctor --json": "the same as JSON: environment, self_test, settings",
     "doctor --distributed -n 4": "also tests collectives of 4 ranks"},
    _add_arguments, _run)
