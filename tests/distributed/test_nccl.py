"""The NCCL engine against a stand-in for nccl4py that moves arrays between threads and accepts what
NCCL accepts. No GPU takes part."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from fusewire.distributed.engines import nccl
from fusewire.distributed.engines.engine import CollectiveCall, ProcessGroup, combined, reduced
from fusewire.distributed.engines.nccl import NcclEngine
from fusewire.distributed.engines.transport import carry_out
from fusewire.eager.arrays.dtypes import COMPUTED, STORED

RANKS = 3
MOVED = {"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
         "bfloat16"}  # the dtypes of nccl.h that NumPy arrays have
CASES = [(kind, params) for kind, params in (
    *(("all_reduce", {"reduce": reduce}) for reduce in ("sum", "prod", "max", "min")),
    ("reduce_scatter", {"axis": 1}), ("all_gather", {"axis": 1}), ("broadcast", {"root": 1}),
    ("all_to_all", {"split": 0, "concat": 1}), ("shift", {"by": 1}), ("reduce_to", {"root": 2}))]


class Communicator:
    """NCCL's communicator of one thread."""

    waiting = threading.Barrier(RANKS)
    values: ClassVar[list[Any]] = [None] * RANKS
    mail: ClassVar[Any] = {pair: deque[Any]() for pair in itertools.product(range(RANKS), repeat=2)}

    def __init__(self, size: int, rank: int) -> None:
        self.nranks, self.rank = size, rank

    def shared(self, value: Any) -> list[Any]:
        """The values of all threads."""
        self.values[self.rank] = value
        self.waiting.wait(10)
        found = list(self.values)
        self.waiting.wait(10)
        return found

    def _sent(self, data: Any, out: Any, times: float, stream: int) -> list[Any]:
        assert stream == 7 and data.dtype == out.dtype and data.dtype.name in MOVED
        assert data.flags.c_contiguous and out.flags.c_contiguous
        assert out.size == data.size * times > 0
        return self.shared(data.copy())

    def allreduce(self, data: Any, out: Any, op: str, *, stream: int) -> None:
        out[...] = reduced(self._sent(data, out, 1, stream), op)

    def reduce_scatter(self, data: Any, out: Any, op: str, *, stream: int) -> None:
        total = reduced(self._sent(data, out, 1 / RANKS, stream), op).reshape(RANKS, -1)
        out[...] = total[self.rank].reshape(out.shape)

    def reduce(self, data: Any, out: Any, op: str, root: int, *, stream: int) -> None:
        total = reduced(self._sent(data, out, 1, stream), op)
        if self.rank == root:
            out[...] = total

    def allgather(self, data: Any, out: Any, *, stream: int) -> None:
        out[...] = np.concatenate(self._sent(data, out, RANKS, stream))

    def alltoall(self, data: Any, out: Any, *, stream: int) -> None:
        blocks = [x.reshape(RANKS, -1)[self.rank] for x in self._sent(data, out, 1, stream)]
        out[...] = np.concatenate(blocks)

    def broadcast(self, data: Any, out: Any, root: int, *, stream: int) -> None:
        out[...] = self._sent(data, out, 1, stream)[root]

    def send(self, data: Any, peer: int, *, stream: int) -> None:
        self.mail[self.rank, peer].append(data.copy())

    def recv(self, out: Any, peer: int, *, stream: int) -> None:
        self.shared(None)
        out[...] = self.mail[peer, self.rank].popleft()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], NcclEngine]:
    """A function that makes the engine of a rank."""
    def init(size: int, rank: int, identity: bytes) -> Communicator:
        assert identity == b"identity of rank 0"
        return Communicator(size, rank)

    library = SimpleNamespace(
        SUM="sum", PROD="prod", MAX="max", MIN="min", group=nullcontext,
        get_unique_id=lambda: SimpleNamespace(as_bytes=b"identity of rank 0"),
        UniqueId=SimpleNamespace(from_bytes=bytes), Communicator=SimpleNamespace(init=init))
    monkeypatch.setattr(nccl, "import_module", {"nccl.core": library}.__getitem__)
    monkeypatch.setattr(nccl, "current_stream", lambda: SimpleNamespace(cuda_stream=7))

    def make(rank: int) -> NcclEngine:
        beside: Any = SimpleNamespace(
            rank=rank, size=RANKS, timeout=1.0, begin_group=lambda group: None,
            gather_objects=lambda value, group: Communicator(RANKS, rank).shared(value))
        return NcclEngine(beside)

    return make


def results_of(engine: NcclEngine, rank: int) -> list[str]:
    """The collectives with a wrong result on one rank."""
    group, wrong = ProcessGroup("all", tuple(range(RANKS)), rank), []
    engine.begin_group(group)
    for dtype, (kind, params), shape in itertools.product(
            (*COMPUTED, *STORED), CASES, ((3, 6), (0, 3))):
        adds = kind in ("all_reduce", "reduce_scatter", "reduce_to")
        sums = adds and params.get("reduce", "sum") in ("sum", "prod")
        if (adds and dtype in STORED) or (sums and dtype.kind == "b"):
            continue
        arrays = [np.random.default_rng(r).integers(0, 3, shape).astype(dtype)
                  for r in range(RANKS)]
        call = CollectiveCall(kind, arrays[rank], params, 1)
        found = carry_out(call, engine._transports["all"])
        expected = combined(kind, arrays, rank, params)
        if (found.dtype, found.shape, found.tobytes()) != \
                (expected.dtype, expected.shape, expected.tobytes()):
            wrong.append(f"{kind} {params} of {dtype}{shape}")
    return wrong


def test_collectives_of_each_dtype(engine: Callable[[int], NcclEngine]) -> None:
    wrong: dict[int, Any] = {}

    def work(rank: int) -> None:
        try:
            wrong[rank] = results_of(engine(rank), rank)
        except BaseException as error:
            wrong[rank] = error
            Communicator.waiting.abort()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == {rank: [] for rank in range(RANKS)}
