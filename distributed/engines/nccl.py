"""The NCCL engine: NVIDIA's NCCL by nccl4py moves the arrays of GPUs.

**It has not run on GPUs yet.** A host engine, MPI or gloo, beside it carries what the processors
have to agree on: what the ranks ask for, objects, messages, and arrays of the host.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any

import numpy as np

from ...eager.arrays import devices, dtypes
from ...eager.cuda.namespace import current_stream
from ...eager.errors import DeviceError
from .engine import CollectiveCall, ProcessGroup
from .host_engine import HostEngine
from .transport import as_bytes, carry_out


def _load_nccl() -> Any:
    try:
        return import_module("nccl.core")
    except ImportError as error:
        raise DeviceError(f"the engine 'nccl' needs nccl4py: {error}",
                          'pip install "fusewire[nccl12]", or "fusewire[nccl13]"') from None


class NcclTransport:
    """A communicator of NCCL. Its calls put work into the current stream, and do not wait."""

    adds: Collection[Any] = frozenset({
        dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64,
        dtypes.float32, dtypes.float64})

    def __init__(self, nccl: Any, comm: Any) -> None:
        self._nccl, self._comm = nccl, comm
        self.rank, self.size = comm.rank, comm.nranks

    def empty(self, like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.empty_like(like, dtype, shape=shape)

    @property
    def _stream(self) -> int:
        return current_stream().cuda_stream

    def all_reduce(self, data: Any, out: Any, reduce: str) -> None:
        self._comm.allreduce(data, out, getattr(self._nccl, reduce.upper()), stream=self._stream)

    def reduce_scatter(self, data: Any, out: Any) -> None:
        self._comm.reduce_scatter(data, out, self._nccl.SUM, stream=self._stream)

    def reduce(self, data: Any, out: Any, root: int) -> None:
        self._comm.reduce(data, out, self._nccl.SUM, root=root, stream=self._stream)

    def all_gather(self, data: Any, out: Any) -> None:
        self._comm.allgather(as_bytes(data), as_bytes(out), stream=self._stream)

    def all_to_all(self, data: Any, out: Any) -> None:
        self._comm.alltoall(as_bytes(data), as_bytes(out), stream=self._stream)

    def broadcast(self, data: Any, root: int) -> None:
        self._comm.broadcast(as_bytes(data), as_bytes(data), root, stream=self._stream)

    def exchange(self, data: Any, to: int, out: Any, source: int) -> None:
        with self._nccl.group():  # else each rank would wait for its receiver
            self._comm.send(as_bytes(data), to, stream=self._stream)
            self._comm.recv(as_bytes(out), source, stream=self._stream)

    def close(self) -> None:
        """Ends the communicator."""
        self._comm.destroy()


class NcclEngine:
    """The engine of one process with a GPU, beside the engine of its host. The current GPU is that
    of the rank, as after fw.cuda.set_device(dist.get_local_rank()).

    Collectives of a group happen in the order of the stream: none overlaps with computation yet.
    """

    takes_threads = False

    def __init__(self, beside: HostEngine) -> None:
        self._beside, self._nccl = beside, _load_nccl()
        self.rank, self.size, self.timeout = beside.rank, beside.size, beside.timeout
        self._transports: dict[str, NcclTransport] = {}

    def begin_group(self, group: ProcessGroup) -> None:
        self._beside.begin_group(group)
        own = self._nccl.get_unique_id().as_bytes if group.rank == 0 else None
        shared = self._beside.gather_objects(own, group)[0]
        comm = self._nccl.Communicator.init(group.size, group.rank,
                                            self._nccl.UniqueId.from_bytes(shared))
        self._transports[group.name] = NcclTransport(self._nccl, comm)

    def collective(self, call: CollectiveCall, group: ProcessGroup) -> Any:
        if not devices.is_elsewhere(call.array):
            return self._beside.collective(call, group)
        self._beside.compare(call, group)
        return carry_out(call, self._transports[group.name])

    def send(self, array: Any, to: int, group: ProcessGroup) -> None:
        self._beside.send(devices.host(array), to, group)

    def receive(self, source: int, group: ProcessGroup) -> Any:
        return self._beside.receive(source, group)

    def gather_objects(self, value: Any, group: ProcessGroup, site: str = "") -> list[Any]:
        return self._beside.gather_objects(value, group, site)

    def describe(self) -> str:
        return f"nccl, beside {self._beside.describe()}"

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()
        self._transports.clear()
        self._beside.close()
