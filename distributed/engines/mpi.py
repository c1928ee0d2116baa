"""The MPI engine: non-blocking collectives of mpi4py that are polled until a timeout.

Before a collective the ranks compare what they ask for, so ranks that diverge get an error instead
of wrong numbers. mpi4py is imported when the engine starts.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ...eager.arrays.dtypes import DTYPES
from ...eager.errors import CollectiveError, DeviceError
from .engine import CollectiveCall, ProcessGroup, is_half, mismatch, missing, part, reduced

_STARTED_BY = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")
_DIGEST_BYTES = 16
_SPINS = 1000  # tests of a request before the rank sleeps between them
_NAP = 5e-5  # seconds
_ROLL_CALL = 0.5  # seconds in which ranks that wait answer each other
_ROLL_TAG, _MAIL_TAG = 7001, 7002


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


class MpiEngine:
    """The engine of one process that MPI has started."""

    def __init__(self, timeout: float) -> None:
        self.mpi, self.timeout = load_mpi(), timeout
        self._world = self.mpi.COMM_WORLD
        self.takes_threads = self.mpi.Query_thread() == self.mpi.THREAD_MULTIPLE
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()
        self._comms: dict[str, Any] = {}  # a communicator for collectives of each group
        self._sent: list[tuple[Any, Any]] = []  # requests and their buffers

    def begin_group(self, group: ProcessGroup) -> None:
        everybody = self._world.Get_group()
        tag = int(hashlib.sha256(group.name.encode()).hexdigest()[:4], 16) % 30000
        self._comms[group.name] = self._world.Create_group(everybody.Incl(group.ranks), tag)

    def collective(self, call: CollectiveCall, group: ProcessGroup) -> Any:
        comm = self._comms[group.name]
        self._compare(call, group, comm)
        wait = self._waiter(call, group, comm)
        return _COLLECTIVES[call.kind](self.mpi, comm, call, wait)

    def _waiter(self, call: CollectiveCall, group: ProcessGroup, comm: Any
                ) -> Callable[[Any], None]:
        def late(seconds: float) -> CollectiveError:
            return missing(call, group, self._absent(call, group, comm), seconds)

        return lambda request: self._poll(request, late)

    def _poll(self, request: Any, late: Callable[[float], CollectiveError]) -> None:
        """Waits for a request; raises late(seconds) after the timeout."""
        for _ in range(_SPINS):
            if request.Test():
                return
        start = time.monotonic()
        while not request.Test():
            waited = time.monotonic() - start
            if waited > self.timeout:
                raise late(waited)
            time.sleep(_NAP)

    def _compare(self, call: CollectiveCall, group: ProcessGroup, comm: Any) -> None:
        """Raises unless all ranks of the group ask for the same collective."""
        if group.size == 1:
            return
        digest = hashlib.blake2b(f"{call.signature} {call.number}".encode(),
                                 digest_size=_DIGEST_BYTES).digest()
        own = np.frombuffer(digest, np.uint8)
        everybody = np.empty((group.size, _DIGEST_BYTES), np.uint8)
        self._waiter(call, group, comm)(comm.Iallgather(own, everybody))
        if (everybody != own).any():
            raise mismatch(self.gather_objects(str(call), group), group.ranks)

    def _absent(self, call: CollectiveCall, group: ProcessGroup, comm: Any) -> dict[int, str]:
        """The ranks that do not wait for this collective, with what is known of each: all that
        wait tell each other so when their time is over."""
        own = np.array([call.number], np.int64)
        others = [r for r in range(group.size) if r != group.rank]
        self._sent += [(comm.Isend(own, r, _ROLL_TAG), own) for r in others]
        heard: dict[int, np.ndarray[Any, Any]] = {r: np.zeros(1, np.int64) for r in others}
        requests = {r: comm.Irecv(heard[r], r, _ROLL_TAG) for r in others}
        end = time.monotonic() + _ROLL_CALL
        while requests and time.monotonic() < end:
            requests = {r: request for r, request in requests.items() if not request.Test()}
            time.sleep(_NAP)
        for request in requests.values():
            request.Cancel()
        return {group.ranks[r]: f"last seen in collective number {call.number - 1}"
                for r in sorted(requests)} or {group.ranks[r]: "which waits too" for r in others}

    def send(self, array: Any, to: int, group: ProcessGroup) -> None:
        comm, data = self._comms[group.name], np.ascontiguousarray(array)
        self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
        head = np.frombuffer(f"{data.dtype.name} {' '.join(map(str, data.shape))}".ljust(128)
                             .encode(), np.uint8)
        for buffer in (head, _bytes(data)):
            self._sent.append((comm.Isend(buffer, to, _MAIL_TAG), buffer))

    def receive(self, source: int, group: ProcessGroup) -> Any:
        comm, sender = self._comms[group.name], group.ranks[source]

        def wait(request: Any) -> None:
            self._poll(request, lambda seconds: CollectiveError(
                f"rank {self.rank} waited {seconds:.1f} s for an array of rank {sender}",
                "look for an error or an endless loop on that rank"))

        head = np.empty(128, np.uint8)
        wait(comm.Irecv(head, source, _MAIL_TAG))
        dtype, *shape = head.tobytes().decode().split()
        data = np.empty([int(n) for n in shape], DTYPES[dtype])
        wait(comm.Irecv(_bytes(data), source, _MAIL_TAG))
        return data

    def gather_objects(self, value: Any, group: ProcessGroup) -> list[Any]:
        comm, data = self._comms[group.name], np.frombuffer(pickle.dumps(value), np.uint8)

        def wait(request: Any) -> None:
            self._poll(request, lambda seconds: CollectiveError(
                f"rank {self.rank} waited {seconds:.1f} s for objects of group {group.name!r}",
                "look for an error or an endless loop on the other ranks"))

        counts = np.empty(group.size, np.int64)
        wait(comm.Iallgather(np.array([data.size], np.int64), counts))
        received = np.empty(counts.sum(), np.uint8)
        wait(comm.Iallgatherv(data, [received, counts, self.mpi.BYTE]))
        ends = np.cumsum(counts)
        return [pickle.loads(received[end - n:end].tobytes()) for n, end in zip(counts, ends)]

    def describe(self) -> str:
        library = self.mpi.Get_library_version().strip("\0\n ").splitlines()[0]
        return f"mpi, {' '.join(library.split())}"

    def close(self) -> None:
        for comm in self._comms.values():
            comm.Free()
        self._comms.clear()

    def abort(self, code: int = 1) -> None:
        """Ends all processes of the job."""
        self._world.Abort(code)


def _bytes(array: Any) -> Any:
    """The memory of a contiguous array as bytes: MPI moves every dtype like this."""
    return array.reshape(-1).view(np.uint8)


def _front(array: Any, axis: int) -> Any:
    """A contiguous array with the axis first."""
    return np.ascontiguousarray(np.moveaxis(array, axis, 0))


def _back(array: Any, axis: int) -> Any:
    return np.ascontiguousarray(np.moveaxis(array, 0, axis))


def _gathered(comm: Any, array: Any, wait: Callable[[Any], None]) -> Any:
    """The arrays of all ranks along a new first axis."""
    data = np.ascontiguousarray(array)
    out = np.empty((comm.Get_size(), *data.shape), data.dtype)
    wait(comm.Iallgather(_bytes(data), _bytes(out)))
    return out


def _exchanged(comm: Any, blocks: Any, wait: Callable[[Any], None]) -> Any:
    """The blocks that the ranks have for this one; `blocks` has one for each rank."""
    data = np.ascontiguousarray(blocks)
    out = np.empty_like(data)
    wait(comm.Ialltoall(_bytes(data), _bytes(out)))
    return out


def _all_reduce(mpi: Any, comm: Any, call: CollectiveCall, wait: Callable[[Any], None]) -> Any:
    array, reduce = call.array, call.params["reduce"]
    if array.dtype.kind == "b":  # MPI's extremes do not take bool
        return _reduced_by(mpi, comm, array.astype(np.uint8), reduce, wait).astype(array.dtype)
    if is_half(array.dtype):
        return _reduced_by(mpi, comm, array.astype(np.float32), reduce, wait).astype(array.dtype)
    return _reduced_by(mpi, comm, array, reduce, wait)


def _reduced_by(mpi: Any, comm: Any, array: Any, reduce: str, wait: Callable[[Any], None]) -> Any:
    data = np.ascontiguousarray(array)
    out = np.empty_like(data)
    operations = {"sum": mpi.SUM, "prod": mpi.PROD, "max": mpi.MAX, "min": mpi.MIN}
    if data.dtype.kind == "f" and reduce in ("max", "min"):  # MPI's drop nan
        return reduced(list(_gathered(comm, data, wait)), reduce).reshape(array.shape)
    wait(comm.Iallreduce(data, out, operations[reduce]))
    return out.reshape(array.shape)


def _all_gather(mpi: Any, comm: Any, call: CollectiveCall, wait: Callable[[Any], None]) -> Any:
    axis = call.params["axis"]
    out = _gathered(comm, _front(call.array, axis), wait)
    return _back(out.reshape(-1, *out.shape[2:]), axis) if out.size else \
        np.empty(_concatenated(call.array.shape, axis, out.shape[0]), call.array.dtype)


def _concatenated(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] * size, *shape[axis + 1:])


def _reduce_scatter(mpi: Any, comm: Any, call: CollectiveCall, wait: Callable[[Any], None]) -> Any:
    array, axis, size = call.array, call.params["axis"], comm.Get_size()
    wide = np.float32 if is_half(array.dtype) else array.dtype
    data = _front(array, axis).astype(wide, copy=False)
    out = np.empty((data.shape[0] // size, *data.shape[1:]), wide)
    if out.size:
        wait(comm.Ireduce_scatter_block(data, out, mpi.SUM))
    return _back(out, axis).astype(array.dtype, copy=False)


def _all_to_all(mpi: Any, comm: Any, call: CollectiveCall, wait: Callable[[Any], None]) -> Any:
    split, concat, size = call.params["split"], call.params["concat"], comm.Get_size()
    blocks = np.stack([part(call.array, i, size, split) for i in range(size)])
    return np.concatenate(list(_exchanged(comm, blocks, wait)), concat)


def _broadcast(mpi: Any, comm: Any, call: CollectiveCall, wait: Callable[[Any], None]) -> Any:
    data = np.array(call.array, order="C")
    wait(comm.Ibcast(_bytes(data), call.params["root"]))
    return data


def _reduce_to(mpi: Any, comm: Any, call: CollectiveCall, wait: Callable[[Any], None]) -> Any:
    wide = np.float32 if is_half(call.array.dtype) else call.array.dtype
    data = np.ascontiguousarray(call.array.astype(wide, copy=False))
    out = np.zeros_like(data)
    wait(comm.Ireduce(data, out, mpi.SUM, call.params["root"]))
    return out.astype(call.array.dtype, copy=False).reshape(call.array.shape)


def _shift(mpi: Any, comm: Any, call: CollectiveCall, wait: Callable[[Any], None]) -> Any:
    data, size, by = np.ascontiguousarray(call.array), comm.Get_size(), call.params["by"]
    out, rank = np.empty_like(data), comm.Get_rank()
    receiving = comm.Irecv(_bytes(out), (rank - by) % size)
    sending = comm.Isend(_bytes(data), (rank + by) % size)
    wait(receiving)
    wait(sending)
    return out.reshape(call.array.shape)


def _barrier(mpi: Any, comm: Any, call: CollectiveCall, wait: Callable[[Any], None]) -> Any:
    wait(comm.Ibarrier())
    return call.array


_COLLECTIVES: dict[str, Callable[..., Any]] = {
    "all_reduce": _all_reduce, "all_gather": _all_gather, "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all, "broadcast": _broadcast, "reduce_to": _reduce_to, "shift": _shift,
    "barrier": _barrier}
