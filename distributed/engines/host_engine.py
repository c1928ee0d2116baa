"""Defines what the engines for arrays of the host have in common.

Before a collective the ranks compare their requests, so ranks that diverge get an error instead
of wrong numbers.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Protocol

import numpy as np

from ...eager.arrays import memory
from ...eager.arrays.dtypes import DTYPES
from ...eager.errors import CollectiveError
from .engine import CollectiveCall, ProcessGroup, exchange_of_objects, mismatch, missing
from .transport import Late, Lost, Transport, as_bytes, carry_out, contiguous

_DIGEST_BYTES = 16
_HEAD_BYTES = 128  # of a message that announces the next one


def host_empty(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array with undefined contents; a large one lies in recycled memory."""
    return memory.empty(shape, dtype)


class HostTransport(Transport, Protocol):
    """A group in a library of collectives for arrays of the host."""

    def meet(self, own: Any, everybody: Any) -> None:
        """Gathers a few bytes of each rank; other ranks may come much later."""

    def send(self, data: Any, to: int) -> None:
        """Sends bytes, without waiting for the receiver."""

    def receive(self, out: Any, source: int) -> None:
        """Receives the bytes that one rank sends."""

    def roll_call(self, number: int) -> Collection[int]:
        """The ranks, by position, that wait in vain in the collective with this number as well."""

    def close(self) -> None:
        """Ends the group."""


class HostEngine:
    """An engine by a library for arrays of the host. A class of it makes transports of groups."""

    rank: int
    size: int
    timeout: float
    takes_threads = True

    def __init__(self) -> None:
        self._transports: dict[str, HostTransport] = {}
        self._exchanges: Counter[str] = Counter()  # of objects, in each group so far

    def _transport(self, group: ProcessGroup) -> HostTransport:
        """The transport of a group; all of its ranks ask for it."""
        raise NotImplementedError

    def describe(self) -> str:
        """The name of the engine and the version of its library."""
        raise NotImplementedError

    def begin_group(self, group: ProcessGroup) -> None:
        self._transports[group.name] = self._transport(group)

    def collective(self, call: CollectiveCall, group: ProcessGroup) -> Any:
        self.compare(call, group)
        return self._in_time(call, group, lambda transport: carry_out(call, transport))

    def compare(self, call: CollectiveCall, group: ProcessGroup) -> None:
        """Raises CollectiveError unless all ranks of the group ask for the same collective."""
        text = f"{call.signature} {call.number}".encode()
        own = np.frombuffer(hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest(), np.uint8)
        everybody = np.empty((group.size, _DIGEST_BYTES), np.uint8)
        self._in_time(call, group, lambda transport: transport.meet(own, everybody))
        if everybody.tobytes() != own.tobytes() * group.size:
            raise mismatch(self.gather_objects(str(call), group), group.ranks)

    def _in_time(self, call: CollectiveCall, group: ProcessGroup,
                 run: Callable[[HostTransport], Any]) -> Any:
        transport = self._transports[group.name]
        try:
            return run(transport)
        except Late as late:
            last = f"last seen in collective number {call.number - 1}"
            raise _late_error(late, call, group, transport.roll_call(call.number), last) from None
        except Lost as lost:
            raise _lost_error(lost, call, group) from None

    def send(self, array: Any, to: int, group: ProcessGroup) -> None:
        transport, data = self._transports[group.name], contiguous(array)
        head = f"{data.dtype.name} {' '.join(map(str, data.shape))}".ljust(_HEAD_BYTES)
        transport.send(np.frombuffer(head.encode(), np.uint8), to)
        if data.size:
            transport.send(as_bytes(data.copy()), to)

    def receive(self, source: int, group: ProcessGroup) -> Any:
        transport, head = self._transports[group.name], np.empty(_HEAD_BYTES, np.uint8)
        try:
            transport.receive(head, source)
            dtype, *shape = head.tobytes().decode().split()
            data = np.empty([int(n) for n in shape], DTYPES[dtype])
            if data.size:
                transport.receive(as_bytes(data), source)
        except (Late, Lost) as error:
            raise CollectiveError(
                f"rank {self.rank} waited for an array of rank {group.ranks[source]}: {error}",
                "look for an error or an endless loop on that rank") from None
        return data

    def gather_objects(self, value: Any, group: ProcessGroup, site: str = "") -> list[Any]:
        transport, data = self._transports[group.name], pickle.dumps(value)
        self._exchanges[group.name] += 1
        counts, text = np.empty((group.size, 1), np.int64), exchange_of_objects(site)
        try:
            transport.meet(np.array([len(data)], np.int64), counts)
            longest = int(counts.max())
            received = np.empty((group.size, longest), np.uint8)
            transport.all_gather(np.frombuffer(data.ljust(longest), np.uint8), received)
        except Late as late:
            waiting = transport.roll_call(-self._exchanges[group.name])  # no number of a collective
            raise _late_error(late, text, group, waiting, "which has not come") from None
        except Lost as lost:
            raise _lost_error(lost, text, group) from None
        return [pickle.loads(row[:int(n)].tobytes()) for row, (n,) in zip(received, counts)]

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()
        self._transports.clear()


def _late_error(late: Late, call: object, group: ProcessGroup, waiting: Collection[int],
                last: str) -> CollectiveError:
    """The error for a call to which ranks have not come; `waiting` have, by positions. `last` says
    what the others did."""
    others = {r: rank for r, rank in enumerate(group.ranks) if r != group.rank}
    absent = {rank: last for r, rank in others.items() if r not in waiting}
    return missing(call, group, absent or dict.fromkeys(others.values(), "which waits too"),
                   late.seconds)


def _lost_error(lost: Lost, call: object, group: ProcessGroup) -> CollectiveError:
    return CollectiveError(f"rank {group.ranks[group.rank]} lost another rank of group "
                           f"{group.name!r} in {call}: {lost}",
                           "look for the rank that has ended first")
