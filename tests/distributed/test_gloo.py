"""Ranks that are processes with PyTorch's gloo, placed by environment variables."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import fusewire.distributed as dist
from fusewire.eager.errors import ArgumentError, DeviceError

EACH_DTYPE = Path(__file__).parent / "each_dtype.py"


def places(ranks: int) -> list[Mapping[str, str]]:
    """The variables of each rank of a job on this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [{"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(port)} for rank in range(ranks)]


def run(script: Path, ranks: int) -> list[tuple[int, str]]:
    """The status of each rank, and what it has written."""
    started = [subprocess.Popen(
        [sys.executable, str(script)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **place, "FUSEWIRE_DISTRIBUTED_TIMEOUT": "60"})
        for place in places(ranks)]
    outputs = [job.communicate(timeout=120)[0] for job in started]
    return [(job.returncode, output) for job, output in zip(started, outputs)]


def test_collectives_of_each_dtype_equal_those_of_the_fake_engine() -> None:
    """At the end the ranks ask for different collectives."""
    pytest.importorskip("torch")
    for rank, (status, output) in enumerate(run(EACH_DTYPE, 3)):
        assert "tested with" in output and status != 0, output
        assert re.search(rf"rank {rank}: collective number \d+, all_reduce\(float32\[{3 + rank}\], "
                         r"reduce=sum", output), output


LATE = """
import os, time
import fusewire as fw
import fusewire.distributed as dist

dist.init_process_group(timeout=2)
other = dist.new_group([1, 0])
for group in (None, other):
    dist.all_reduce(fw.ones(3), group=group)
if dist.get_rank() == 1:
    time.sleep(4)
    os._exit(0)
for group in (None, other):
    try:
        dist.all_reduce(fw.ones(3), group=group)
    except fw.CollectiveError as error:
        print(error, flush=True)
        time.sleep(4)  # the other rank ends
"""


def test_a_rank_that_does_not_come_is_named(tmp_path: Path) -> None:
    """It is late for the collective of one group, and has ended before that of another."""
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(LATE)
    _, output = run(script, 2)[0]
    assert re.search(r"rank 0 waited 2\.\d s in collective number 2, all_reduce\(float32\[3\].*for "
                     "rank 1, last seen in collective number 1", output), output
    assert re.search("rank 0 lost another rank of group 'ranks 1 0' in collective number 2",
                     output), output


def test_ranks_without_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ArgumentError, match="needs the variables WORLD_SIZE, MASTER_ADDR"):
        dist.init_process_group("gloo")


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in places(1)[0].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError, match="needs PyTorch"):
        dist.init_process_group()
