"""Measures the compile time of functions and the memory of their calls.

Each phase of compilation adds its time to the costs that its thread collects. A phase may run
inside another phase. Its time then counts only for the inner phase.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

from . import profiling_spans


@dataclass
class Costs:
    """Seconds per phase, and the numbers of programs compiled by LLVM and found on disk."""

    recording: float = 0.0
    passes: float = 0.0
    lowering: float = 0.0
    llvm: float = 0.0
    loading: float = 0.0
    compiled: int = 0
    from_disk: int = 0

    def add(self, other: Costs) -> None:
        """Adds the costs of `other`."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def __str__(self) -> str:
        """`recording 0.012 s, passes 0.003 s, ...; 2 programs compiled, 1 found on disk`."""
        phases = [(f.name, getattr(self, f.name)) for f in fields(self)[:5]]
        times = ", ".join(f"{'LLVM' if name == 'llvm' else name} {seconds:.3f} s"
                          for name, seconds in phases)
        plural = "" if self.compiled == 1 else "s"
        return f"{times}; {self.compiled} program{plural} compiled, {self.from_disk} found on disk"


class Memory(NamedTuple):
    """Bytes that one call of a program takes: its inputs, its results and its intermediate arrays.

    A result that overwrites an input counts once. Memory that NumPy allocates does not count.
    """

    inputs: int
    results: int
    arena: int

    @property
    def peak(self) -> int:
        """The sum of all parts."""
        return self.inputs + self.results + self.arena

    def __str__(self) -> str:
        """`1.5 MB (inputs 1.0 MB, results 0.5 MB, arena 0 B)`."""
        parts = ", ".join(f"{name} {format_bytes(n)}" for name, n in self._asdict().items())
        return f"{format_bytes(self.peak)} ({parts})"


def format_bytes(size: int) -> str:
    """A number of bytes with its unit.

    >>> format_bytes(12), format_bytes(1500), format_bytes(2_000_000)
    ('12 B', '1.5 kB', '2.0 MB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"


class _ThreadCosts(threading.local):
    """The costs that a thread collects, and the seconds of phases inside the current one."""

    costs: Costs | None = None
    inner = 0.0


_STATE = _ThreadCosts()


@contextlib.contextmanager
def collecting(costs: Costs) -> Iterator[None]:
    """A context whose phases are added only to `costs`."""
    previous = _STATE.costs, _STATE.inner
    _STATE.costs, _STATE.inner = costs, 0.0
    try:
        yield
    finally:
        _STATE.costs, _STATE.inner = previous


@contextlib.contextmanager
def making(name: str, costs: Costs) -> Iterator[None]:
    """A context for code generation. It collects the phases and opens a span."""
    with collecting(costs), profiling_spans.span("compiling", name, about=costs):
        yield


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """A context whose duration counts for the phase `name`."""
    outer_seconds, began = _STATE.inner, time.perf_counter()
    _STATE.inner = 0.0
    try:
        yield
    finally:
        seconds = time.perf_counter() - began
        if _STATE.costs is not None:
            total = getattr(_STATE.costs, name) + seconds - _STATE.inner
            setattr(_STATE.costs, name, total)
        _STATE.inner = outer_seconds + seconds


def count_program(from_disk: bool) -> None:
    """Counts a program whose object code is available."""
    costs = _STATE.costs
    if costs is not None:
        costs.compiled, costs.from_disk = costs.compiled + (not from_disk), \
            costs.from_disk + from_disk
