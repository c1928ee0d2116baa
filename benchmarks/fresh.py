"""Measures in fresh processes: code from disk, peak memory, and times with another allocator.

The command starts itself. With `--alone` it runs one variant and imports no other library. The
system clears memory for each large result. To see what that costs the other libraries, all variants
run again under settings with which glibc keeps freed memory.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fusewire as fw

from .run import OURS, Row, cold_calls, say
from .timing import SETTLING
from .workload import Workload, library

DISK_MB = 256
MEMORY_PEERS = ("torch", "jax.jit")
KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_ARENA_MAX": "1",
           "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def measured_afresh(workload: Workload, row: Row, peers: Sequence[str], rounds: int) -> Row:
    """The columns of a row that need fresh processes. Failures are noted."""
    say("  in processes of its own")
    found: Row = {"notes": list(row["notes"])}
    for measure in (_from_disk, _others_memory, _kept):
        try:
            found |= measure(workload, row, peers, rounds)
        except subprocess.CalledProcessError as error:
            found["notes"].append(f"{measure.__name__[1:]} failed: {error.stderr[-300:]}")
    return found


def _from_disk(workload: Workload, row: Row, peers: Sequence[str], rounds: int) -> Row:
    """The memory of a process that compiles, and the first call of a process with code on disk."""
    ours = next(name for name in OURS if name in workload.makers)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        first = _command(workload.name, "--alone", ours, folder)
        again = _command(workload.name, "--alone", ours, folder) if ours == OURS[0] else {}
    return {"compile_warm": again.get("cold"), "peak_rss": first["peak"],
            "grown_rss": _grown(first)}


def _others_memory(workload: Workload, row: Row, peers: Sequence[str], rounds: int) -> Row:
    names = [n for n in MEMORY_PEERS if workload.memory and n in row["peers"]]
    found = {name: _command(workload.name, "--alone", name, "") for name in names}
    return {"peers_rss": {name: about["peak"] for name, about in found.items()},
            "peers_grown": {name: _grown(about) for name, about in found.items()}}


def _grown(about: dict[str, Any]) -> int | None:
    return about["peak"] - about["before"] if about["peak"] is not None else None


def _kept(workload: Workload, row: Row, peers: Sequence[str], rounds: int) -> Row:
    """The times of all variants in one process with an allocator that keeps memory."""
    if not (workload.kept and row["peers"] and platform.libc_ver()[0] == "glibc"):
        return {}
    kept, = _command(workload.name, "--peers", ",".join(peers), "--rounds", str(rounds),
                     "--no-fresh", **KEEPING)
    return {"peers_kept": kept["peers"], "fusewire_kept": kept["fusewire"],
            "best_kept": kept["best_peer"], "ratio_kept": kept["ratio"]}


def _command(*arguments: str, **environment: str) -> Any:
    """The JSON that the command writes in a fresh process."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        out = Path(folder) / "out.json"
        command = [sys.executable, "-m", str(__package__), *arguments, "--json", str(out)]
        subprocess.run(command, env=os.environ | environment, check=True, capture_output=True,
                       text=True)
        return json.loads(out.read_text(encoding="utf-8"))


def alone(workload: Workload, variant: str, folder: str) -> dict[str, Any]:
    """The seconds until compiled code has run, and the peak memory of this process.

    `folder`: the folder of fusewire's compiled code; "" for none
    """
    fw.settings.disk_mb, fw.settings.disk_dir = DISK_MB if folder else 0, folder
    importlib.import_module(library(variant))
    inputs, before = workload.inputs(), peak_memory()
    start = time.perf_counter()
    call = workload.makers[variant](inputs)
    for _ in range(cold_calls(workload, variant)):
        call()
    cold = time.perf_counter() - start
    for _ in range(SETTLING):
        call()
    return {"cold": cold, "before": before, "peak": peak_memory()}


def peak_memory() -> int | None:
    """The peak memory of this process in bytes; None if the system does not report it."""
    status = Path("/proc/self/status")
    if status.exists():  # in Linux ru_maxrss begins with the memory of the parent process
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
