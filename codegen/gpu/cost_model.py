"""Predicts how long a kernel takes on a GPU.

The model adds the arithmetic of the processors, the bytes that are moved, and the latency that
threads wait for where a processor has too few threads to hide it. It only ranks ways to compute
the same result. Its times are not wall-clock times: it ignores cache hits and coalescing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..ir.loop_ir import Kernel

REGISTERS_PER_PROCESSOR = 1 << 16
WARP_THREADS = 32
RESERVED_SHARED_BYTES = 1024  # that the driver takes in every block
SCHEDULERS_PER_PROCESSOR = 4  # each issues for a warp of its own
MEMORY_LATENCY_CYCLES = 600  # of a load from device memory
BLOCK_START_CYCLES = 1000  # to start and end a block
LAUNCH_SECONDS = 3e-6  # from one kernel to the next
CACHE_TO_MEMORY_BANDWIDTH = 3  # L2 bandwidth / device memory bandwidth


@dataclass(frozen=True)
class Chip:
    """A GPU: the number of its multiprocessors, their clock, and the resources of each of them.

    `additions_per_cycle` counts float32 additions, `tensor_core_products_per_cycle` products of
    16-bit floats (0 without usable tensor cores). `max_threads` and `max_blocks` may be
    resident at once."""

    processors: int
    clock_ghz: float
    additions_per_cycle: int
    shared_bytes: int
    gigabytes_per_second: float
    max_threads: int = 2048
    max_blocks: int = 32
    tensor_core_products_per_cycle: int = 0


CHIPS = {
    80: Chip(108, 1.41, 64, 164 << 10, 1555, tensor_core_products_per_cycle=1024),
    90: Chip(132, 1.98, 128, 228 << 10, 3352, tensor_core_products_per_cycle=2048),
}
"""By compute capability. Sources: "NVIDIA A100 Tensor Core GPU Architecture", table 4; "NVIDIA H100
Tensor Core GPU Architecture", table 2; CUDA C++ Programming Guide, "Compute Capabilities"."""

REFERENCE_CHIP = CHIPS[80]
"""The chip that decisions assume which change numbers: so these are the same on every GPU."""


def chip_of(arch: str, processors: int) -> Chip:
    """The chip of an architecture such as "sm_90"; for an unknown one, that of the newest earlier
    architecture."""
    older_capabilities = [c for c in sorted(CHIPS) if c <= int("".join(filter(str.isdigit, arch)))]
    chip = CHIPS[older_capabilities[-1]] if older_capabilities else replace(
        REFERENCE_CHIP, tensor_core_products_per_cycle=0)
    return replace(chip, processors=processors)


@dataclass(frozen=True)
class KernelWork:
    """The work of a kernel, as the cost model sees it.

    Each of its `blocks` has `threads` with `registers` each, and `shared_bytes` of shared
    memory. A block runs `iterations`: in each it reads device memory, waits, and each thread
    does `operations`. `dram_bytes` go to and from device memory, `cached_bytes` to and from the
    L2 cache."""

    blocks: int
    threads: int
    registers: int
    shared_bytes: int
    iterations: int
    operations: float
    dram_bytes: float
    cached_bytes: float


def predicted_seconds(work: KernelWork, chip: Chip) -> float:
    """The predicted time of a kernel."""
    bytes_moved = max(work.dram_bytes, work.cached_bytes / CACHE_TO_MEMORY_BANDWIDTH)
    memory_seconds = bytes_moved / (chip.gigabytes_per_second * 1e9)
    return LAUNCH_SECONDS + max(_cycles(work, chip) / (chip.clock_ghz * 1e9), memory_seconds)


def _cycles(work: KernelWork, chip: Chip) -> float:
    """The cycles of the busiest processor: it runs its blocks in waves of as many as fit."""
    blocks_per_processor = -(-work.blocks // chip.processors)
    resident = resident_blocks(work, chip)
    full_waves, last_wave = divmod(blocks_per_processor, resident)
    return full_waves * _wave_cycles(work, chip, resident) + (
        _wave_cycles(work, chip, last_wave) if last_wave else 0)


def _wave_cycles(work: KernelWork, chip: Chip, blocks: int) -> float:
    """The cycles of one wave of blocks on a processor.

    A wave is bound either by arithmetic throughput or by the latency of one thread: a lone warp
    issues more slowly, and waits for memory."""
    throughput_bound = blocks * work.threads * work.operations / chip.additions_per_cycle
    issue_cycles = max(2.0, WARP_THREADS * SCHEDULERS_PER_PROCESSOR / chip.additions_per_cycle)
    latency_bound = issue_cycles * work.operations + MEMORY_LATENCY_CYCLES
    return BLOCK_START_CYCLES + work.iterations * max(throughput_bound, latency_bound)


def resident_blocks(work: KernelWork, chip: Chip) -> int:
    """The number of blocks that fit on a processor at once."""
    registers = REGISTERS_PER_PROCESSOR // (work.registers * work.threads)
    shared = chip.shared_bytes // (work.shared_bytes + RESERVED_SHARED_BYTES)
    return max(1, min(chip.max_blocks, chip.max_threads // work.threads, registers, shared))


# ---- choice between candidates
Candidates = Mapping[str,
                     Callable[[], list[Kernel]]]  # by name; the fastest by the model comes first


@dataclass(frozen=True)
class CandidateChoice:
    """Chooses the first of several candidates; `chip` is the one that the model assumes."""

    chip: Chip = REFERENCE_CHIP

    def best(self, candidates: Candidates) -> list[Kernel]:
        """Returns the kernels of the chosen candidate."""
        return next(iter(candidates.values()))()


FIRST_CANDIDATE = CandidateChoice()
