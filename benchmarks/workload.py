"""Defines workloads: one computation for every library, with its amount of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Inputs = dict[str, Any]             # NumPy arrays by name; `weights` is a dict of them
Call = Callable[[], Any]            # one run, which returns when the results are ready
Maker = Callable[[Inputs], Call]


@dataclass(frozen=True)
class Workload:
    """A computation for several libraries.

    `makers`: an entry per variant; the text before a space or a dot names its library
    `tolerance`: the largest difference of results, relative to the largest element
    `training`: the results to compare are the losses of the first three calls
    `checked`: other inputs to compare results with
    `recompiles`: a second new function is compiled and timed
    """

    name: str
    about: str
    inputs: Callable[[], Inputs]
    makers: Mapping[str, Maker]
    flops: float = 0.0              # operations; exp and the like count as 20
    size: float = 0.0               # bytes that must move, each array once
    tolerance: float = 1e-4
    training: bool = False
    checked: Callable[[], Inputs] | None = None
    recompiles: bool = False
    cold_calls: int = 2             # fusewire's calls until compiled code ran: the first traces
    kept: bool = False              # bound by memory: page faults of new results count
    memory: bool = False            # measures the peak memory of other libraries, too


def library(variant: str) -> str:
    """The library of a variant: torch for "torch.compile"."""
    return variant.split()[0].split(".")[0]
