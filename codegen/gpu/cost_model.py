"""How long a kernel takes on a GPU, by a model: what its processors compute, what has to be moved,
and what threads wait for where too few of them are there to have something else done meanwhile.

It is there to tell ways to compute the same apart. Its times are not those of a clock: caches and
neighbours in memory are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..ir.loop_ir import Kernel

_REGISTERS = 1 << 16  # of a processor
_WARP = 32
_RESERVED = 1024  # bytes of shared memory that every block takes
_SCHEDULERS = 4  # of a processor: each issues for a warp of its own
_FAR = 600  # cycles until what lies in device memory is there
_STARTS = 1000  # cycles in which a team begins and ends
_LAUNCH = 3e-6  # seconds from one kernel to the next
_NEAR = 3  # times as much comes from the cache that all processors share as from memory


@dataclass(frozen=True)
class Chip:
    """A GPU: how many multiprocessors it has, their `clock` in 1e9 cycles a second, and what each
    of them has: additions of float32 in a cycle, bytes of shared memory, and threads and blocks at
    once; `bandwidth` of its memory in 1e9 bytes a second; `matrix`: multiplications of floats of 16
    bits in a cycle by its tensor cores, 0 where it has none that are of use."""

    processors: int
    clock: float
    lanes: int
    shared: int
    bandwidth: float
    threads: int = 2048
    blocks: int = 32
    matrix: int = 0


CHIPS = {
    80: Chip(108, 1.41, 64, 164 << 10, 1555, matrix=1024),
    90: Chip(132, 1.98, 128, 228 << 10, 3352, matrix=2048),
}
"""By compute capability. Sources: "NVIDIA A100 Tensor Core GPU Architecture", table 4; "NVIDIA H100
Tensor Core GPU Architecture", table 2; CUDA C++ Programming Guide, "Compute Capabilities"."""

ANY = CHIPS[80]
"""What numbers may depend on goes by this one, so they are the same on every GPU."""


def chip_of(arch: str, processors: int) -> Chip:
    """What is known of an architecture such as "sm_90", or else of the newest one before it."""
    found = [c for c in sorted(CHIPS) if c <= int("".join(filter(str.isdigit, arch)))]
    return replace(CHIPS[found[-1]] if found else replace(ANY, matrix=0), processors=processors)


@dataclass(frozen=True)
class Work:
    """What a kernel does: each of its `teams`, a block of `threads` with `registers` and bytes of
    `shared` memory, has `turns`, in which it reads from device memory, waits, and each thread does
    so many `operations`; `far` bytes are moved to and from memory, `near` ones to and from what
    caches it."""

    teams: int
    threads: int
    registers: int
    shared: int
    turns: int
    operations: float
    far: float
    near: float


def seconds(work: Work, chip: Chip) -> float:
    """The time of a kernel."""
    moved = max(work.far, work.near / _NEAR) / (chip.bandwidth * 1e9)
    return _LAUNCH + max(_cycles(work, chip) / (chip.clock * 1e9), moved)


def _cycles(work: Work, chip: Chip) -> float:
    """Cycles of the processor that has the most teams: as many at once as there is room for."""
    each = -(-work.teams // chip.processors)
    rounds, rest = divmod(each, room(work, chip))
    return rounds * _round(work, chip, room(work, chip)) + (_round(work, chip, rest) if rest else 0)


def _round(work: Work, chip: Chip, teams: int) -> float:
    """Cycles of teams that a processor has at once. A thread alone takes more for an operation than
    a warp of its scheduler's has to itself, and waits for memory."""
    busy = teams * work.threads * work.operations / chip.lanes
    alone = max(2.0, _WARP * _SCHEDULERS / chip.lanes) * work.operations + _FAR
    return _STARTS + work.turns * max(busy, alone)


def room(work: Work, chip: Chip) -> int:
    """How many teams a processor has at once."""
    registers = _REGISTERS // (work.registers * work.threads)
    shared = chip.shared // (work.shared + _RESERVED)
    return max(1, min(chip.blocks, chip.threads // work.threads, registers, shared))


# ---- which way is taken
Ways = Mapping[str, Callable[[], list[Kernel]]]  # by name, the best one by the model first


@dataclass(frozen=True)
class Choice:
    """Takes the first of several ways to compute the same; `chip`: what the model is to go by."""

    chip: Chip = ANY

    def best(self, ways: Ways) -> list[Kernel]:
        """The kernels of one of these ways."""
        return next(iter(ways.values()))()


FIRST = Choice()
