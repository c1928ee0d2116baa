"""Ranks that are processes, started by `fusewire launch` with MPI.

More moments of failures: `FUSEWIRE_TEST_RANK_KILLS=50 pytest tests/distributed/test_mpi.py`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

KILLS = int(os.environ.get("FUSEWIRE_TEST_RANK_KILLS", "1"))
TIMEOUT = 2.0  # seconds
START = 20.0  # seconds in which ranks start on a busy machine
TESTS = str(Path(__file__).parent.parent)


def launch(tmp_path: Path, ranks: int, source: str, *arguments: str) -> Any:
    """The finished `fusewire launch` of a script."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(source))
    return subprocess.run(
        [sys.executable, "-m", "fusewire", "launch", "-n", str(ranks), "--timeout", str(TIMEOUT),
         str(script), *arguments], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": TESTS, "FUSEWIRE_DISTRIBUTED_TIMEOUT": "30"})


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


@pytest.mark.parametrize("ranks", [2, 4])
def test_collectives_of_each_dtype_equal_those_of_the_fake_engine(tmp_path: Path, ranks: int
                                                                  ) -> None:
    done = launch(tmp_path, ranks, """
        import numpy as np
        import fusewire as fw
        import fusewire.distributed as dist
        from fusewire.distributed.engines.engine import combined
        from fusewire.eager.arrays.dtypes import COMPUTED, STORED

        dist.init_process_group(timeout=60)
        rank, size = dist.get_rank(), dist.get_world_size()
        reduces = [("all_reduce", dist.all_reduce, {"reduce": "sum"}),
                   ("all_reduce", lambda x: dist.all_reduce(x, "max"), {"reduce": "max"}),
                   ("all_reduce", lambda x: dist.all_reduce(x, "prod"), {"reduce": "prod"}),
                   ("reduce_scatter", lambda x: dist.reduce_scatter(x, 1), {"axis": 1})]
        moves = [("all_gather", lambda x: dist.all_gather(x, 1), {"axis": 1}),
                 ("all_to_all", lambda x: dist.all_to_all(x, 0, 1), {"split": 0, "concat": 1}),
                 ("broadcast", lambda x: dist.broadcast(x, 1), {"root": 1}),
                 ("shift", lambda x: dist.shift(x, 1), {"by": 1})]
        count = 0
        for dtype in (*COMPUTED, *STORED):
            for kind, function, params in (moves if dtype in STORED else reduces + moves):
                reduce = params.get("reduce", "sum" if kind == "reduce_scatter" else "")
                if dtype.kind == "b" and reduce in ("sum", "prod") or \\
                        dtype.kind == "c" and reduce == "max":
                    continue
                for shape in ((4, 8), (0, 4), (4, 0)):
                    arrays = [np.random.default_rng(r).integers(0, 3, shape).astype(dtype)
                              for r in range(size)]
                    found = function(fw.from_numpy(arrays[rank].copy()))._data
                    expected = combined(kind, arrays, rank, params)
                    assert found.dtype == expected.dtype and found.shape == expected.shape, kind
                    assert found.tobytes() == expected.tobytes(), (kind, dtype)
                    count += 1
        assert dist.all_gather_object({"rank": rank}) == [{"rank": r} for r in range(size)]
        nan = fw.tensor([float("nan") if rank == 1 else 1.0])
        assert np.isnan(dist.all_reduce(nan, "max").numpy()).all()
        dist.send(fw.ones((2, 0, 3), dtype=fw.bfloat16), (rank + 1) % size)
        assert dist.receive((rank - 1) % size).shape == (2, 0, 3)
        dist.barrier()
        print("tested", count)
        dist.destroy_process_group()
        """)
    assert done.stdout.count("tested") == ranks, done.stdout + done.stderr


def test_a_compiled_training_equals_one_process(tmp_path: Path) -> None:
    """Data x tensor parallel, and dropout with the masks of the joint batch."""
    source = """
        import sys
        import numpy as np
        import fusewire as fw
        import fusewire.distributed as dist
        from fusewire import nn
        from fusewire.distributed import P

        dist.init_process_group(timeout=60)
        fw.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4))
        model.to(fw.float64)
        data = dist.get_world_size() // 2 or 1
        mesh = dist.init_device_mesh((data, dist.get_world_size() // data), ("data", "model"))
        layouts = {"0.weight": P("model", None), "3.weight": P(None, "model")}
        if dist.get_world_size() > 1:
            dist.shard(model, layouts, mesh)
        dist.join_batches(model, mesh["data"])
        dist.replicate(model, mesh["data"])
        optimizer = fw.optim.AdamW(model.parameters(), lr=0.01)

        @fw.compile(fullgraph=True)
        def step(x, y):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return dist.all_reduce(loss.detach(), "mean", mesh["data"])

        rng, rank, share = np.random.default_rng(0), mesh["data"].rank, 8 // data
        for _ in range(5):
            x, y = rng.standard_normal((8, 6)), rng.standard_normal((8, 4))
            part = slice(rank * share, (rank + 1) * share)
            loss = float(step(fw.tensor(x[part]), fw.tensor(y[part])))
            if dist.get_rank() == 0:
                print("loss", repr(loss))
        dist.destroy_process_group()
        """
    losses = []
    for ranks in (1, 2, 4):
        done = launch(tmp_path, ranks, source)
        losses.append([float(line.split()[1]) for line in done.stdout.splitlines()
                       if line.startswith("loss")])
        assert len(losses[-1]) == 5, done.stderr
    for found in losses[1:]:
        assert found == pytest.approx(losses[0], abs=1e-13)


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
def test_a_lost_rank_ends_the_job(tmp_path: Path, what: str) -> None:
    """Its number, the collective and the line are in the message, and no process is left."""
    for seed in range(KILLS):
        moment = random.Random(seed).randrange(58)
        begin = time.monotonic()
        done = launch(tmp_path, 2, FAILING, what, str(moment))
        assert time.monotonic() - begin < START + TIMEOUT + 2
        assert done.returncode != 0
        assert f"rank 1, last seen {'at' if what != 'stop' else 'in'} collective number " \
            f"{moment + 1}" in done.stderr, done.stderr
        assert "script.py:10" in done.stderr
        assert running(str(tmp_path)) == []


def test_ranks_that_diverge_get_an_error(tmp_path: Path) -> None:
    done = launch(tmp_path, 2, """
        import fusewire as fw
        import fusewire.distributed as dist

        dist.init_process_group(timeout=60)
        dist.all_reduce(fw.ones(3 + dist.get_rank()))
        """)
    assert done.returncode != 0
    for rank in (0, 1):
        assert f"rank {rank}: collective number 1, all_reduce(float32[{3 + rank}], reduce=sum, " \
            "site=script.py:6)" in done.stderr


def test_ranks_divide_the_processors(tmp_path: Path) -> None:
    done = launch(tmp_path, 2, "import fusewire; print('threads', fusewire.get_num_threads())")
    share = max(1, (os.cpu_count() or 1) // 2)
    assert done.stdout.split() == ["threads", str(share)] * 2, done.stderr
