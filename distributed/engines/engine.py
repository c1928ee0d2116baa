"""Defines the engine, which moves arrays between ranks, and the call of a collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np

from ...eager.arrays.dtypes import bfloat16, float16
from ...eager.errors import CollectiveError

_OF_ONE_RANK = ("group", "size", "rank", "later")  # params that signatures leave out
_HALF = {bfloat16, float16}


@cache
def _name(dtype: Any) -> str:
    return str(dtype.name)  # NumPy computes it each time


@dataclass(frozen=True, eq=False)
class ProcessGroup:
    """Some ranks that take part in collectives together. Each rank has an object of its own.

    `name` is equal on all ranks. `ranks` are numbers in the world, in the order of the group;
    `rank` is the position of this process in them.
    """

    name: str
    ranks: tuple[int, ...]
    rank: int

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    def __repr__(self) -> str:
        return f"ProcessGroup({self.name!r}, rank {self.rank} of {self.size})"


@dataclass(frozen=True, eq=False)
class CollectiveCall:
    """One collective of a group, as one rank asks for it."""

    kind: str
    array: Any
    params: Mapping[str, Any]
    number: int  # of the collectives of the group so far

    @cached_property
    def signature(self) -> str:
        """The facts that all ranks must agree on: op, type, params and line, except for the line
        of a broadcast, in which the root often has a branch of its own."""
        facts = [f"{_name(self.array.dtype)}{list(self.array.shape)}"]
        facts += [f"{k}={v}" for k, v in sorted(self.params.items())
                  if k not in _OF_ONE_RANK and v != "" and (k, self.kind) != ("site", "broadcast")]
        return f"{self.kind}({', '.join(facts)})"

    def __str__(self) -> str:
        return f"collective number {self.number}, {self.signature}"


class Engine(Protocol):
    """What carries out collectives. `rank` and `size` are of the world."""

    rank: int
    size: int
    timeout: float
    takes_threads: bool  # collectives of several groups may run at once, in a thread each

    def begin_group(self, group: ProcessGroup) -> None:
        """Prepares a group; all of its ranks call this."""

    def collective(self, call: CollectiveCall, group: ProcessGroup) -> Any:
        """The result of a collective on this rank. CollectiveError after the timeout, or if the
        ranks ask for different collectives."""

    def send(self, array: Any, to: int, group: ProcessGroup) -> None:
        """Sends an array to one rank of a group, without waiting for the receiver."""

    def receive(self, source: int, group: ProcessGroup) -> Any:
        """The next array that a rank of a group has sent here."""

    def gather_objects(self, value: Any, group: ProcessGroup, site: str = "") -> list[Any]:
        """The objects of all ranks of a group, which must be picklable. CollectiveError after the
        timeout. `site`: the user's line."""

    def describe(self) -> str:
        """The name of the engine and the version of its library."""

    def close(self) -> None:
        """Ends the part of this rank."""


def mismatch(calls: Sequence[str], ranks: Sequence[int]) -> CollectiveError:
    """The error for ranks that ask for different collectives; `calls` as texts."""
    lines = "\n".join(f"  rank {rank}: {call}" for rank, call in zip(ranks, calls))
    return CollectiveError(
        f"the ranks of a group ask for different collectives:\n{lines}",
        "all ranks of a group must issue the same collectives in the same order: check decisions "
        "that depend on the rank or on values that differ between ranks")


def exchange_of_objects(site: str) -> str:
    """The text for what `gather_objects` does."""
    return f"an exchange of objects at {site}" if site else "an exchange of objects"


def missing(call: object, group: ProcessGroup, absent: Mapping[int, str],
            seconds: float) -> CollectiveError:
    """The error for ranks that have not come in time to a call: `absent` has what each did last."""
    who = "; ".join(f"rank {rank}, {last}" for rank, last in absent.items())
    return CollectiveError(
        f"rank {group.ranks[group.rank]} waited {seconds:.1f} s in {call} of group "
        f"{group.name!r} for {who}",
        "look for an error, a stopped process or an endless loop on these ranks; a longer "
        "`timeout` of init_process_group waits for slow ones")


def combined(kind: str, arrays: Sequence[Any], position: int, params: Mapping[str, Any]) -> Any:
    """The result of a collective on the rank at `position`, from the arrays of all ranks."""
    if kind == "all_reduce":
        return reduced(arrays, params["reduce"])
    if kind == "all_gather":
        return np.concatenate(arrays, params["axis"])
    if kind == "reduce_scatter":
        parts = [part(a, position, len(arrays), params["axis"]) for a in arrays]
        return reduced(parts, "sum")
    if kind == "all_to_all":
        parts = [part(a, position, len(arrays), params["split"]) for a in arrays]
        return np.concatenate(parts, params["concat"])
    if kind == "broadcast":
        return arrays[params["root"]].copy()
    if kind == "reduce_to":
        total = reduced(arrays, "sum")
        return total if position == params["root"] else np.zeros_like(total)
    if kind == "shift":
        return arrays[(position - params["by"]) % len(arrays)].copy()
    assert kind == "barrier", kind
    return arrays[position]


_UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def reduced(arrays: Sequence[Any], reduce: str) -> Any:
    """The sum, product or extreme of arrays, in the order of the ranks. Numbers of 16 bits are
    added in float32 and rounded once."""
    ufunc, dtype = _UFUNCS[reduce], arrays[0].dtype
    wide = np.float32 if is_half(dtype) else dtype
    total = arrays[0].astype(wide)
    for array in arrays[1:]:
        total = ufunc(total, array.astype(wide, copy=False))
    return np.asarray(total.astype(dtype, copy=False))


def is_half(dtype: Any) -> bool:
    """True for bfloat16 and float16."""
    return dtype in _HALF


def part(array: Any, position: int, size: int, axis: int) -> Any:
    """The part of an array that belongs to one of `size` ranks, which share an axis."""
    length = array.shape[axis] // size
    index = (slice(None),) * axis + (slice(position * length, (position + 1) * length),)
    return array[index]
