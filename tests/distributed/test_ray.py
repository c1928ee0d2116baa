"""The program of docs/how_to/train/ray.md trains on a cluster, and goes on when a machine is lost.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fusewire.distributed as dist
from house.repo import ROOT

ray = pytest.importorskip("ray")
pytest.importorskip("torch")  # has gloo, by which the workers communicate

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
PAGE = (ROOT / "docs" / "how_to" / "train" / "ray.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def lose_machine() -> Iterator[Callable[[], None]]:
    """A cluster of two machines with one processor each, which run here, and a function that ends
    the second one with all of its processes."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_USAGE_STATS_ENABLED", "RAY_TRAIN_METRICS_ENABLED"):
            patch.setenv(name, "0")
        patch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.1")  # so long a report takes
        # Ray waits so long for machines, also for one that it does not know to be lost.
        patch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "10")
        machine = {"num_cpus": 1, "object_store_memory": 100 << 20}
        cluster = Cluster(initialize_head=True,
                          head_node_args={**machine, "include_dashboard": False})
        ray.init(address=cluster.address, log_to_driver=False)
        second = cluster.add_node(**machine)

        def lose() -> None:
            import psutil

            raylet = psutil.Process(second.all_processes["raylet"][0].process.pid)
            for process in (*raylet.children(recursive=True), raylet):
                process.kill()

        yield lose
        ray.shutdown()
        cluster.shutdown()


def alone(work: Callable[[Any], None], epochs: int) -> float:
    """The last loss of the program's function on one process, without Ray."""
    losses = []
    names = {"load": lambda state: state,
             "report": lambda metrics, state: losses.append(metrics["loss"])}
    before = {name: work.__globals__[name] for name in names}
    work.__globals__.update(names)
    try:
        dist.run_fake(1, work, {"epochs": epochs})
    finally:
        work.__globals__.update(before)
    return losses[-1]


def test_the_program_goes_on_when_a_machine_is_lost(lose_machine: Any, tmp_path: Path) -> None:
    def lose_after_a_checkpoint() -> None:
        while not list(tmp_path.glob("circle/checkpoint_*/index.json")):
            time.sleep(0.05)
        lose_machine()

    scope: dict[str, Any] = {"__name__": "__main__"}
    waiting = threading.Thread(target=lose_after_a_checkpoint, daemon=True)
    waiting.start()
    exec(compile(PROGRAM.replace("/tmp/runs", str(tmp_path)), "train.py", "exec"), scope)
    assert not waiting.is_alive()
    found = scope["result"].metrics
    assert found["ranks"] == 1
    assert found["loss"] == pytest.approx(alone(scope["work"], 20), abs=1e-4)  # float32
