"""How well the warps of a kernel use memory, line by line: counted, not timed.

A request is one access by the lanes of a warp at the same time: here, the n-th time that each of
them is at a line. Device memory is moved in sectors of 32 bytes, shared memory in turns, in each of
which 32 banks give one word of 4 bytes each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emulator.emulator import Module

SECTOR, BANKS, WORD, WARP = 32, 32, 4, 32
VERBS = ("read", "write", "atomic", "read")


@dataclass(frozen=True)
class Traffic:
    """What the accesses of one kind at one line cost, and what they would at best: sectors of
    device memory, or turns of shared memory."""

    line: int
    memory: str  # "global" or "shared"
    access: str  # "read", "write" or "atomic"
    requests: int
    cost: int
    ideal: int

    @property
    def ratio(self) -> float:
        """1 where nothing is moved in vain and no bank is in another's way."""
        return self.cost / self.ideal


def traffic(module: Module, name: str, grid: Sequence[int], block: Sequence[int],
            arguments: Sequence[Any], shared: int = 0, traced: int = 0) -> list[Traffic]:
    """What each line of a kernel costs in the block of number `traced`, in the order of lines.

    The module's mode has to be "check"; a fault is a KernelFault, as in a launch.
    """
    module.launch(name, grid, block, arguments, shared, traced=traced)
    records = module.accesses()
    kinds = np.unique(records[["place", "shared", "access", "size"]])
    found: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    for kind in kinds:
        own = records[records[["place", "shared", "access", "size"]] == kind]
        memory, count = ("shared", _turns) if kind["shared"] else ("global", _sectors)
        costs = found.setdefault((int(kind["place"]), memory, VERBS[kind["access"]]), [])
        costs += [count(request["address"].astype(np.int64), int(kind["size"]))
                  for request in _requests(own)]
    return [Traffic(*key, len(costs), sum(c for c, _ in costs), sum(i for _, i in costs))
            for key, costs in sorted(found.items())]


def _requests(records: Any) -> list[Any]:
    """The accesses at one line, cut into those that the lanes of a warp make together."""
    records = records[np.argsort(records["thread"], kind="stable")]
    starts = np.r_[True, records["thread"][1:] != records["thread"][:-1]]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(records)), 0))
    turn = np.arange(len(records)) - first
    _, which = np.unique(np.stack([records["thread"] // WARP, turn]), axis=1, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    cuts = np.flatnonzero(np.diff(which[order])) + 1
    return np.split(records[order], cuts)


def _sectors(addresses: Any, size: int) -> tuple[int, int]:
    """The sectors that are moved, and how many their bytes would fill."""
    touched = np.unique(addresses[:, None] + np.arange(size))
    return len(np.unique(touched // SECTOR)), -(-len(touched) // SECTOR)


def _turns(addresses: Any, size: int) -> tuple[int, int]:
    """The turns that shared memory takes, and how many it would without conflicts. Words of 8 and
    16 bytes come for a half or a quarter of the lanes at a time."""
    words = -(-size // WORD)
    lanes = WARP // words
    parts = [addresses[i:i + lanes] for i in range(0, len(addresses), lanes)]
    return sum(_most_of_a_bank(part, words) for part in parts), len(parts)


def _most_of_a_bank(addresses: Any, words: int) -> int:
    """How many words one bank has to give: those that are the same are given once."""
    touched = np.unique((addresses // WORD)[:, None] + np.arange(words))
    return int(np.bincount(touched % BANKS).max())
