"""The MPI engine: non-blocking collectives of mpi4py that are polled until a timeout.

mpi4py is imported when the engine starts.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any

import numpy as np

from ...eager.arrays import dtypes
from ...eager.errors import DeviceError
from .engine import ProcessGroup
from .host_engine import HostEngine, host_empty
from .transport import Late, as_bytes

_STARTED_BY = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")
_SPINS = 1000  # tests of a request before the rank pauses between them
_NAP = 5e-5  # seconds
_ROLL_CALL = 0.5  # seconds in which ranks that wait answer each other
_ROLL_TAG, _MAIL_TAG, _SHIFT_TAG = 7001, 7002, 7003


def _nap() -> None:
    time.sleep(_NAP)


_yield: Callable[[], None] = getattr(os, "sched_yield", _nap)  # to those that want the processor


def is_started_by_mpi() -> bool:
    """True if mpiexec or srun has started this process as a rank."""
    return any(name in os.environ for name in _STARTED_BY)


def load_mpi() -> Any:
    """The module MPI of mpi4py. DeviceError if it is not installed or finds no MPI library."""
    try:
        return import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise DeviceError(f"the engine 'mpi' needs mpi4py and an MPI library: {error}",
                          'pip install "fusewire[mpi]", or mpi4py and the MPI of your cluster'
                          ) from None


class MpiTransport:
    """A communicator of MPI."""

    adds: Collection[Any] = frozenset(dtypes.COMPUTED) - {
        dtypes.bool, dtypes.bfloat16, dtypes.float16}
    empty = staticmethod(host_empty)

    def __init__(self, mpi: Any, comm: Any, timeout: float) -> None:
        self._mpi, self._comm, self._timeout = mpi, comm, timeout
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._reductions = {"sum": mpi.SUM, "prod": mpi.PROD, "max": mpi.MAX, "min": mpi.MIN}
        self._sent: list[tuple[Any, Any]] = []  # requests and their buffers

    def _wait(self, request: Any, pause: Callable[[], None] = _yield) -> None:
        """Waits for a request, with pauses between tests; raises Late after the timeout.

        Most MPI libraries move data in tests only. So a rank that waits for data goes on testing
        unless others want the processor. One that waits for other ranks takes naps.
        """
        for _ in range(_SPINS):
            if request.Test():
                return
        start = time.monotonic()
        while not request.Test():
            waited = time.monotonic() - start
            if waited > self._timeout:
                raise Late(waited)
            pause()

    def all_reduce(self, data: Any, out: Any, reduce: str) -> None:
        self._wait(self._comm.Iallreduce(data, out, self._reductions[reduce]))

    def reduce_scatter(self, data: Any, out: Any) -> None:
        self._wait(self._comm.Ireduce_scatter_block(data, out, self._mpi.SUM))

    def reduce(self, data: Any, out: Any, root: int) -> None:
        self._wait(self._comm.Ireduce(data, out, self._mpi.SUM, root))

    def all_gather(self, data: Any, out: Any) -> None:
        self._wait(self._comm.Iallgather(as_bytes(data), as_bytes(out)))

    def all_to_all(self, data: Any, out: Any) -> None:
        self._wait(self._comm.Ialltoall(as_bytes(data), as_bytes(out)))

    def broadcast(self, data: Any, root: int) -> None:
        self._wait(self._comm.Ibcast(as_bytes(data), root))

    def exchange(self, data: Any, to: int, out: Any, source: int) -> None:
        receiving = self._comm.Irecv(as_bytes(out), source, _SHIFT_TAG)
        sending = self._comm.Isend(as_bytes(data), to, _SHIFT_TAG)
        self._wait(receiving)
        self._wait(sending)

    def meet(self, own: Any, everybody: Any) -> None:
        self._wait(self._comm.Iallgather(as_bytes(own), as_bytes(everybody)), _nap)

    def send(self, data: Any, to: int) -> None:
        self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
        self._sent.append((self._comm.Isend(data, to, _MAIL_TAG), data))

    def receive(self, out: Any, source: int) -> None:
        self._wait(self._comm.Irecv(out, source, _MAIL_TAG), _nap)

    def roll_call(self, number: int) -> Collection[int]:
        """All ranks that wait tell each other so when their time is over."""
        own = np.array([number], np.int64)
        others = [r for r in range(self.size) if r != self.rank]
        self._sent += [(self._comm.Isend(own, r, _ROLL_TAG), own) for r in others]
        requests = {r: self._comm.Irecv(np.zeros(1, np.int64), r, _ROLL_TAG) for r in others}
        end = time.monotonic() + _ROLL_CALL
        while requests and time.monotonic() < end:
            requests = {r: request for r, request in requests.items() if not request.Test()}
            time.sleep(_NAP)
        for request in requests.values():
            request.Cancel()
        return [r for r in others if r not in requests]

    def close(self) -> None:
        self._comm.Free()


class MpiEngine(HostEngine):
    """The engine of one process that MPI has started."""

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._mpi, self.timeout = load_mpi(), timeout
        self._world = self._mpi.COMM_WORLD
        self.takes_threads = self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()

    def _transport(self, group: ProcessGroup) -> MpiTransport:
        everybody = self._world.Get_group()
        tag = int(hashlib.sha256(group.name.encode()).hexdigest()[:4], 16) % 30000
        comm = self._world.Create_group(everybody.Incl(group.ranks), tag)
        return MpiTransport(self._mpi, comm, self.timeout)

    def describe(self) -> str:
        library = self._mpi.Get_library_version().strip("\0\n ").splitlines()[0]
        return f"mpi, {' '.join(library.split())}"
