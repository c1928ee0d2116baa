"""Several processes that need the same code at once compile it once. The threads of this process
have a lock each, as processes have."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from kinds import KINDS

from fusewire.codegen import compile
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.runtime import compile_lock, disk_cache


def compiled_by_threads(monkeypatch: pytest.MonkeyPatch, count: int) -> int:
    """How often a graph was lowered when several threads compile it at the same moment."""
    lower_graph, begin, lowered = compile.lower_graph, threading.Barrier(count), []

    def noting(*args: Any) -> Any:
        lowered.append(args[0])
        return lower_graph(*args)

    monkeypatch.setattr(compile, "lower_graph", noting)
    results: list[Any] = []
    made = [KINDS["softmax"].graph(19, "float32") for _ in range(count)]

    def work() -> None:
        graph, arrays = made.pop()
        begin.wait(10)
        results.append(compile_graph(graph)([*arrays])[0].tobytes())

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == count and len(set(results)) == 1
    return len(lowered)


def test_a_program_is_compiled_once(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled_by_threads(monkeypatch, 4) == 1
    assert not list(disk.glob("*.lock"))


def test_without_a_cache_each_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled_by_threads(monkeypatch, 2) == 2


def test_a_stopped_process_is_not_waited_for(disk: Path) -> None:
    disk.mkdir(exist_ok=True)
    path = disk / f"{disk_cache.digest('entry').hex()}.lock"
    owner = subprocess.Popen([sys.executable, "-c", f"""if True:
        import fcntl, os, signal
        held = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT)
        fcntl.flock(held, fcntl.LOCK_EX)
        os.pwrite(held, str(os.getpid()).encode(), 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        """])
    os.waitpid(owner.pid, os.WUNTRACED)
    begin = time.monotonic()
    with compile_lock.compiling("entry"):
        waited = time.monotonic() - begin
    owner.kill()
    owner.wait()
    assert waited < compile_lock.LONGEST_WAIT / 2


def test_a_lock_of_a_hanging_process_is_only_waited_for_so_long(
        disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.mkdir(exist_ok=True)
    monkeypatch.setattr(compile_lock, "LONGEST_WAIT", 0.05)
    held = os.open(disk / f"{disk_cache.digest('entry').hex()}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    with compile_lock.compiling("entry"):
        reached = True
    os.close(held)
    assert reached
