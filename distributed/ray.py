"""Trains on a cluster by Ray Train, which places workers, restarts them and shares out data.

Import it by its name: it imports Ray.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
import ray.train
from ray.train import Checkpoint
from ray.train.backend import Backend, BackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from . import checkpoint
from .collectives import all_gather_object
from .groups import destroy_process_group, get_local_rank, init_process_group


class _Places(Backend):
    """Tells each worker its rank, and where rank 0 is."""

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        address, port = worker_group.execute_single(0, _free_address)
        worker_group.execute(_place, address, port)


def _free_address() -> tuple[str, int]:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return ray.util.get_node_ip_address(), probe.getsockname()[1]


def _place(address: str, port: int) -> None:
    context = ray.train.get_context()
    os.environ.update({
        "RANK": str(context.get_world_rank()), "WORLD_SIZE": str(context.get_world_size()),
        "LOCAL_RANK": str(context.get_local_rank()), "MASTER_ADDR": address,
        "MASTER_PORT": str(port)})


@dataclass
class FusewireConfig(BackendConfig):
    """How workers join the process group: `backend` and `timeout` of `init_process_group`."""

    backend: str | None = "gloo"
    timeout: float | None = None

    @property
    def backend_cls(self) -> type[Backend]:
        """The class that prepares the workers."""
        return _Places

    @property
    def train_func_context(self) -> Callable[[], Any]:
        """A context in which a worker is a rank of the process group."""
        @contextmanager
        def joined() -> Iterator[None]:
            init_process_group(self.backend, self.timeout)
            yield
            destroy_process_group()  # after an error others may wait: the process ends anyway

        return joined


class FusewireTrainer(DataParallelTrainer):
    """A trainer of Ray Train, whose workers are the ranks of a process group.

    Ray replaces workers that fail, up to `FailureConfig(max_failures=...)` times, and calls the
    function again on all of them. A range of workers, as in `ScalingConfig(num_workers=(2, 8))`,
    goes on with those that there are. `load` in the function reads the last checkpoint on any
    number of workers.

    Args:
        train_loop_per_worker: called on each worker, with `train_loop_config` if it takes one
            argument. Collectives work in it.
        config: how workers join.
        options: all other arguments of Ray's DataParallelTrainer, such as scaling_config,
            run_config and datasets.
    """

    def __init__(self, train_loop_per_worker: Callable[..., Any], *,
                 config: FusewireConfig | None = None, **options: Any) -> None:
        super().__init__(train_loop_per_worker, backend_config=config or FusewireConfig(),
                         **options)


def report(metrics: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> None:
    """Reports numbers to Ray, and a checkpoint of `state`. All workers call it.

    Args:
        metrics: numbers by name; Ray keeps those of the first worker.
        state: what `dist.checkpoint.save` takes; None reports no checkpoint.
    """
    if state is None:
        ray.train.report(dict(metrics))
        return
    # All workers of a machine write to one folder, and Ray joins those of all machines.
    own = os.path.join(tempfile.gettempdir(), f"fusewire-{uuid.uuid4()}")
    folder, is_first_here = all_gather_object(own)[0], get_local_rank() == 0
    try:
        checkpoint.save(state, folder)
        ray.train.report(dict(metrics), Checkpoint(folder) if is_first_here else None)
    finally:
        if is_first_here:
            shutil.rmtree(folder, ignore_errors=True)


def load(state: dict[str, Any]) -> dict[str, Any]:
    """`state` from the last checkpoint that was reported, as by `dist.checkpoint.load`; without
    one, `state` as it is. All workers call it."""
    found = ray.train.get_checkpoint()
    if found is None:
        return state
    with found.as_directory() as folder:
        return checkpoint.load(state, folder)
