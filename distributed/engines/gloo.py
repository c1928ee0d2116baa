"""The gloo engine: gloo of PyTorch, for ranks that no MPI has started.

Ranks find each other by the environment variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT,
which Ray's trainer, torchrun and Kubernetes' jobs set. PyTorch is imported when the engine starts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from importlib import import_module
from typing import Any

from ...eager.arrays import dtypes
from ...eager.errors import ArgumentError, DeviceError
from .engine import ProcessGroup
from .host_engine import HostEngine, host_empty
from .transport import Late, Lost, as_bytes

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_ROLL_CALL = 0.5  # seconds in which ranks that wait answer each other
_EARLY = 0.05  # seconds before the end of the timeout in which an error counts as one of it


def is_placed() -> bool:
    """True if environment variables tell this process its rank and where rank 0 is."""
    return all(name in os.environ for name in _VARIABLES)


def _load_torch() -> tuple[Any, Any]:
    try:
        return import_module("torch"), import_module("torch.distributed")
    except ImportError as error:
        raise DeviceError(f"the engine 'gloo' needs PyTorch, which has gloo: {error}",
                          "pip install torch, or start the ranks by `fusewire launch`, with MPI"
                          ) from None


class GlooTransport:
    """A process group of gloo."""

    adds: Collection[Any] = frozenset({
        dtypes.float32, dtypes.float64, dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64})
    empty = staticmethod(host_empty)

    def __init__(self, torch: Any, store: Any, group: Any, timeout: float) -> None:
        self._torch, self._store, self._group = torch, store, group
        self._api, self._timeout = torch.distributed, timeout
        self.rank, self.size = group.rank(), group.size()
        self._sent: list[tuple[Any, Any]] = []  # works and their buffers

    def _tensor(self, array: Any) -> Any:
        return self._torch.from_numpy(array if array.flags.writeable else array.copy())

    def _wait(self, begin: Callable[[], Any]) -> None:
        """Waits for what a function begins; raises Late after the timeout, or Lost."""
        start = time.monotonic()
        try:
            begin().wait()
        except RuntimeError as error:
            waited = time.monotonic() - start
            if waited >= self._timeout - _EARLY:
                raise Late(waited) from None
            raise Lost(str(error)) from None

    def _options(self, kind: str, **values: Any) -> Any:
        options = getattr(self._api, f"{kind}Options")()
        for name, value in values.items():
            setattr(options, name, value)
        return options

    def all_reduce(self, data: Any, out: Any, reduce: str) -> None:
        out[...] = data
        names = {"sum": "SUM", "prod": "PRODUCT", "max": "MAX", "min": "MIN"}
        options = self._options("Allreduce", reduceOp=getattr(self._api.ReduceOp, names[reduce]))
        self._wait(lambda: self._group.allreduce([self._tensor(out)], options))

    def reduce_scatter(self, data: Any, out: Any) -> None:
        self._wait(lambda: self._group._reduce_scatter_base(
            self._tensor(out), self._tensor(data.reshape(-1))))

    def reduce(self, data: Any, out: Any, root: int) -> None:
        own = data.copy()
        options = self._options("Reduce", rootRank=root)
        self._wait(lambda: self._group.reduce([self._tensor(own)], options))
        if self.rank == root:
            out[...] = own

    def all_gather(self, data: Any, out: Any) -> None:
        self._wait(lambda: self._group._allgather_base(
            self._tensor(as_bytes(out)), self._tensor(as_bytes(data))))

    def all_to_all(self, data: Any, out: Any) -> None:
        self._wait(lambda: self._group.alltoall_base(
            self._tensor(as_bytes(out)), self._tensor(as_bytes(data)), [], []))

    def broadcast(self, data: Any, root: int) -> None:
        options = self._options("Broadcast", rootRank=root)
        self._wait(lambda: self._group.broadcast([self._tensor(as_bytes(data))], options))

    def exchange(self, data: Any, to: int, out: Any, source: int) -> None:
        if to == self.rank:
            out[...] = data
            return
        self.send(as_bytes(data), to)
        self.receive(as_bytes(out), source)
        self._wait(lambda: self._sent.pop()[0])

    def meet(self, own: Any, everybody: Any) -> None:
        self.all_gather(own, everybody)

    def send(self, data: Any, to: int) -> None:
        self._sent = [(work, kept) for work, kept in self._sent if not work.is_completed()]
        tensor = self._tensor(data)
        self._sent.append((self._group.send([tensor], to, 0), tensor))

    def receive(self, out: Any, source: int) -> None:
        self._wait(lambda: self._group.recv([self._tensor(out)], source, 0))

    def roll_call(self, number: int) -> Collection[int]:
        """All ranks that wait write so in the store of rank 0 when their time is over."""
        others = [r for r in range(self.size) if r != self.rank]
        try:
            self._store.set(f"late {number} {self.rank}", "")
            time.sleep(_ROLL_CALL)
            return [r for r in others if self._store.check([f"late {number} {r}"])]
        except RuntimeError:  # rank 0 is no more
            return []

    def close(self) -> None:
        """Does nothing: gloo closes its connections with the process group."""


class GlooEngine(HostEngine):
    """The engine of one process that environment variables have placed."""

    def __init__(self, timeout: float) -> None:
        super().__init__()
        missing = [name for name in _VARIABLES if name not in os.environ]
        if missing:
            raise ArgumentError(f"the engine 'gloo' needs the variables {', '.join(missing)}",
                                "start the ranks by fusewire.distributed.ray.FusewireTrainer, or "
                                "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT on each rank")
        self._torch, self._api = _load_torch()
        self.timeout = timeout
        rank, size, host, port = (os.environ[name] for name in _VARIABLES)
        self.rank, self.size = int(rank), int(size)
        self._store = self._api.TCPStore(host, int(port), self.size, self.rank == 0,
                                         timedelta(seconds=timeout), wait_for_workers=False)

    def _transport(self, group: ProcessGroup) -> GlooTransport:
        store = self._api.PrefixStore(group.name, self._store)
        gloo = self._api.ProcessGroupGloo(store, group.rank, group.size,
                                          timedelta(seconds=self.timeout))
        return GlooTransport(self._torch, store, gloo, self.timeout)

    def describe(self) -> str:
        return f"gloo, of PyTorch {self._torch.__version__}"
