"""A workload: the same computation for every library, and how much of it there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Inputs = dict[str, Any]             # NumPy arrays by name; `weights` is a dict of them
Call = Callable[[], Any]            # one run, that returns when the results are there
Maker = Callable[[Inputs], Call]


@dataclass(frozen=True)
class Workload:
    """`makers` has one entry per variant; the text before a space or a dot names its library.

    Results must agree within `tolerance`, of the largest element; of a `training` workload those
    of the first three calls, which are losses. `checked` gives other inputs to compare with. What
    `recompiles` is made and compiled a second time, which is timed as well.
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
    cold_calls: int = 2             # of fusewire until compiled code has run: the first records
    kept: bool = False              # bound by memory: what is freed and cleared again counts
    memory: bool = False            # the peak memory of others is measured as well


def library(variant: str) -> str:
    """The library that a variant is of: torch for "torch.compile"."""
    return variant.split()[0].split(".")[0]
