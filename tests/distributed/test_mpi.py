"""Ranks that are processes, started by `fusewire launch` with MPI.

More moments of failures: `FUSEWIRE_TEST_RANK_KILLS=50 pytest tests/distributed/test_mpi.py`.
"""

from __future__ import annotations

import os
import random
import re
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fusewire.distributed as dist
from fusewire.distributed import self_test
from fusewire.distributed.launcher import check_launch, launch

KILLS = int(os.environ.get("FUSEWIRE_TEST_RANK_KILLS", "1"))
TIMEOUT = 2.0  # seconds
START = 20.0  # seconds in which ranks start on a busy machine
TESTS = str(Path(__file__).parent.parent)


class Job(NamedTuple):
    """How a job has ended: its status, the ranks that ended it, and what the ranks have written."""

    status: int
    culprits: str
    out: str
    err: str


@pytest.fixture
def start(tmp_path: Path, capfd: Any) -> Callable[..., Job]:
    """A function that runs a script on some ranks."""
    def run(ranks: int, source: str, *arguments: str) -> Job:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(source))
        capfd.readouterr()
        status, culprits = launch(ranks, [str(script), *arguments], variables={
            "PYTHONPATH": TESTS, "FUSEWIRE_DISTRIBUTED_TIMEOUT": "30"})
        return Job(status, "; ".join(culprits), *capfd.readouterr())

    return run


def running(marker: str) -> list[str]:
    """The processes whose command line holds a text, other than this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if marker in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


def test_collectives_of_each_dtype_equal_those_of_the_fake_engine(start: Any) -> None:
    """On 3 ranks; they divide the processors. At the end they ask for different collectives."""
    done = start(3, (Path(__file__).parent / "each_dtype.py").read_text())
    share = max(1, (os.cpu_count() or 1) // 3)
    assert done.out.count(f"tested with {share} threads") == 3, done.err
    assert done.status != 0
    for rank in range(3):
        assert re.search(rf"rank {rank}: collective number \d+, all_reduce\(float32\[{3 + rank}\], "
                         r"reduce=sum, site=script.py:\d+\)", done.err), done.err


def test_a_compiled_training_equals_one_process_and_resumes(start: Any, tmp_path: Path) -> None:
    """Data x tensor parallel, overlapping buckets, and dropout with the masks of the joint batch.
    2 ranks train three steps and save; 4 ranks go on."""
    source = """
        import sys
        import numpy as np
        import fusewire as fw
        import fusewire.distributed as dist
        from fusewire import nn
        from fusewire.distributed import P

        begin, end, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
        dist.init_process_group()
        fw.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4))
        model.to(fw.float64)
        data = dist.get_world_size() // 2 or 1
        mesh = dist.init_device_mesh((data, dist.get_world_size() // data), ("data", "model"))
        layouts = {"0.weight": P("model", None), "3.weight": P(None, "model")}
        if dist.get_world_size() > 1:
            dist.shard(model, layouts, mesh)
        dist.join_batches(model, mesh["data"])
        dist.replicate(model, mesh["data"], bucket_mb=1e-4)
        optimizer = fw.optim.AdamW(model.parameters(), lr=0.01)
        state = {"model": model, "optimizer": optimizer, "random": fw.get_rng_state()}
        if begin:
            fw.set_rng_state(dist.checkpoint.load(state, folder)["random"])

        @fw.compile(fullgraph=True)
        def step(x, y):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return dist.all_reduce(loss.detach(), "mean", mesh["data"])

        rank, share = mesh["data"].rank, 8 // data
        for number in range(begin, end):
            rng = np.random.default_rng(number)
            x, y = rng.standard_normal((8, 6)), rng.standard_normal((8, 4))
            part = slice(rank * share, (rank + 1) * share)
            loss = float(step(fw.tensor(x[part]), fw.tensor(y[part])))
            if dist.get_rank() == 0:
                print("loss", repr(loss))
        dist.checkpoint.save({**state, "random": fw.get_rng_state()}, folder)
        dist.destroy_process_group()
        """

    def losses(ranks: int, begin: int, end: int, folder: str) -> list[float]:
        done = start(ranks, source, str(begin), str(end), str(tmp_path / folder))
        found = [float(line.split()[1]) for line in done.out.splitlines()
                 if line.startswith("loss")]
        assert len(found) == end - begin, done.err
        return found

    several = [*losses(2, 0, 3, "shared"), *losses(4, 3, 6, "shared")]
    assert several == pytest.approx(losses(1, 0, 6, "alone"), abs=1e-13)


FAILING = """
    import os, signal, sys
    import fusewire as fw
    import fusewire.distributed as dist

    dist.init_process_group(timeout={timeout})
    what, moment = sys.argv[1], int(sys.argv[2])
    total = fw.ones(1000)
    for number in range(60):
        total = dist.all_reduce(total, "max")
        if number == moment and dist.get_rank() == 1:
            if what == "raise":
                raise KeyError("lost")
            os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGSTOP)
    """.replace("{timeout}", str(TIMEOUT))


@pytest.mark.parametrize("what", ["kill", "stop", "raise"])
def test_a_lost_rank_ends_the_job(start: Any, tmp_path: Path, what: str) -> None:
    """Its number, the collective and the line are in the message, and no process is left."""
    for seed in range(KILLS):
        moment = random.Random(seed).randrange(58)
        begin = time.monotonic()
        done = start(2, FAILING, what, str(moment))
        assert time.monotonic() - begin < START + TIMEOUT + 2
        assert done.status != 0
        assert f"rank 1, {'which was stopped, ' * (what == 'stop')}last seen at collective " \
            f"number {moment + 1}, all_reduce(" in done.culprits, done
        assert "script.py:10" in done.culprits
        assert what != "stop" or f"rank 1, last seen in collective number {moment + 1}" in done.err
        assert running(str(tmp_path)) == []


def test_the_self_test_of_a_job() -> None:
    report = check_launch(2, sizes_mb=[1])
    assert report["engine"].startswith("mpi") and report["ranks"] == 2 and not report["wrong"]
    assert report["seconds"].keys() == {"1"}


def test_the_self_test_finds_a_wrong_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    case = self_test._CASES["shift"]._replace(run=lambda x: x)
    monkeypatch.setitem(self_test._CASES, "shift", case)
    report = dist.run_fake(2, self_test.report, [1])[0]
    assert report["wrong"] == {0: ["shift"], 1: ["shift"]}
