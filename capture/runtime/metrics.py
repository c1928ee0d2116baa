"""What compiled functions cost beside their calls: the time to make code, and the memory of a call.

Phases are timed where they happen, and added to the costs that their thread collects. One phase may
run inside of another; its time then counts there alone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

from . import spans


@dataclass
class Costs:
    """Seconds of each phase, and how many programs were compiled by LLVM and found on disk."""

    recording: float = 0.0
    passes: float = 0.0
    lowering: float = 0.0
    llvm: float = 0.0
    loading: float = 0.0
    compiled: int = 0
    from_disk: int = 0

    def add(self, other: Costs) -> None:
        """Adds those of `other`."""
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
    """Bytes that one call of a program takes: what it reads, what it gives, and what it needs in
    between. What is written over its input counts once; what NumPy takes for itself, not."""

    inputs: int
    results: int
    arena: int

    @property
    def peak(self) -> int:
        """All of them together."""
        return self.inputs + self.results + self.arena

    def __str__(self) -> str:
        """`1.5 MB (inputs 1.0 MB, results 0.5 MB, arena 0 B)`."""
        parts = ", ".join(f"{name} {in_words(n)}" for name, n in self._asdict().items())
        return f"{in_words(self.peak)} ({parts})"


def in_words(size: int) -> str:
    """A number of bytes with its unit.

    >>> in_words(12), in_words(1500), in_words(2_000_000)
    ('12 B', '1.5 kB', '2.0 MB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"


class _State(threading.local):
    """The costs that a thread collects, and the seconds of phases inside the current one."""

    costs: Costs | None = None
    inner = 0.0


_STATE = _State()


@contextlib.contextmanager
def collecting(costs: Costs) -> Iterator[None]:
    """A context whose phases are added to `costs`, and to no others."""
    before = _STATE.costs, _STATE.inner
    _STATE.costs, _STATE.inner = costs, 0.0
    try:
        yield
    finally:
        _STATE.costs, _STATE.inner = before


@contextlib.contextmanager
def making(name: str, costs: Costs) -> Iterator[None]:
    """A context of code generation: collects its phases and opens a span."""
    with collecting(costs), spans.span("compiling", name, about=costs):
        yield


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """A context whose seconds count as those of a phase."""
    before, began = _STATE.inner, time.perf_counter()
    _STATE.inner = 0.0
    try:
        yield
    finally:
        seconds = time.perf_counter() - began
        if _STATE.costs is not None:
            own = getattr(_STATE.costs, name) + seconds - _STATE.inner
            setattr(_STATE.costs, name, own)
        _STATE.inner = before + seconds


def program_made(from_disk: bool) -> None:
    """Counts a program whose object code is there."""
    costs = _STATE.costs
    if costs is not None:
        costs.compiled, costs.from_disk = costs.compiled + (not from_disk), \
            costs.from_disk + from_disk
