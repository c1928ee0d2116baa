"""Predicts the time of a training step and the memory of a rank: the model of `plan`.

All times are in seconds, all sizes in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..eager.errors import ArgumentError
from ..eager.nn.base.module import Module
from .buckets import BUCKET_MB, bucket_size
from .mesh import DeviceMesh

_BACKWARD = 2 / 3  # of the computation of a step
_SCHEMES = ("replicate", "zero", "fully_shard")


@dataclass(frozen=True)
class Hardware:
    """The speed of ranks and of the links between them.

    Args:
        flops: floating-point operations of forward and backward that a rank computes in a second,
            while the other processors of its machine are as busy.
        latency, bandwidth: of one message between two ranks of a machine, in seconds and bytes per
            second.
        ranks_per_machine: ranks that share a machine.
        machine_latency, machine_bandwidth: the same between machines, for one rank.
        measured: seconds of all-reduces by their bytes, among `measured_ranks` ranks, in the place
            of `latency` and `bandwidth`.
        copy_bandwidth: bytes that a rank copies in its memory in a second. Collectives copy what
            they move twice, and an optimizer reads and writes the values that it updates.
        processors: processors of a machine, which its ranks share. None if each has its own.
        hides: False if the ranks' processors carry out the communication, so that none is hidden
            behind the computation, as with MPI on one machine.
    """

    flops: float
    latency: float = 5e-6
    bandwidth: float = 1e9
    ranks_per_machine: int = 8
    machine_latency: float = 1e-5
    machine_bandwidth: float = 1e9
    measured: Mapping[int, float] | None = None
    measured_ranks: int = 0
    copy_bandwidth: float = math.inf
    processors: int | None = None
    hides: bool = True

    @staticmethod
    def from_report(report: Mapping[str, Any], flops: float) -> Hardware:
        """The hardware that `fusewire doctor --distributed --json` has measured, under its key
        "distributed"; `flops` of a rank."""
        seconds = {1024: float(report["latency"])}
        seconds |= {int(mb) << 20: float(s) for mb, s in report["seconds"].items()}
        ranks = int(report["ranks"])
        return Hardware(flops, ranks_per_machine=-(-ranks // len(report["machines"])),
                        measured=seconds, measured_ranks=ranks,
                        copy_bandwidth=float(report["copy_bandwidth"]),
                        processors=int(report["processors"]), hides=False)

    def share(self, ranks: int) -> float:
        """The number of ranks that share a processor, at least 1."""
        here = min(ranks, self.ranks_per_machine)
        return 1.0 if self.processors is None else max(1.0, here / self.processors)

    def all_reduce(self, size: float, ranks: int) -> float:
        """Seconds of an all-reduce of `size` bytes: by rings in each machine, then by a ring or a
        tree between machines, whichever is faster."""
        if ranks <= 1 or size <= 0:
            return 0.0
        inner = min(ranks, self.ranks_per_machine)
        outer = -(-ranks // inner)
        seconds = self._within_machine(size, inner)
        if outer > 1:
            part, depth = size / inner, math.log2(outer)
            ring = 2 * (outer - 1) * (self.machine_latency + part / outer / self.machine_bandwidth)
            tree = 2 * depth * self.machine_latency + 2 * part / self.machine_bandwidth
            seconds += min(ring, tree)
        return seconds

    def copies(self, size: float, ranks: int) -> float:
        """Seconds of the copies of what a collective moves: into one array, and out of it."""
        return 2 * size / self.copy_bandwidth if ranks > 1 else 0.0

    def _within_machine(self, size: float, ranks: int) -> float:
        if ranks <= 1:
            return 0.0
        if self.measured is None:
            return 2 * (ranks - 1) * (self.latency + size / ranks / self.bandwidth)
        sizes = sorted(self.measured)
        seconds = [self.measured[n] for n in sizes]
        known = math.exp(np.interp(math.log(size), np.log(sizes), np.log(seconds)))
        known *= max(1.0, size / sizes[-1])  # beyond the largest one, time is as size
        before = max(2, self.measured_ranks)
        return known * ((ranks - 1) / ranks) / ((before - 1) / before)


@dataclass(frozen=True)
class Plan:
    """A prediction for one step of one rank: `seconds` by what takes them, and `memory` in bytes
    by what needs it. `exposed` is the communication for which the computation waits."""

    computation: float
    communication: float
    exposed: float
    memory: Mapping[str, float]

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return self.computation + self.exposed

    @property
    def efficiency(self) -> float:
        """The share of the step that is computation."""
        return self.computation / self.step

    @property
    def memory_per_rank(self) -> float:
        """Bytes of a rank."""
        return sum(self.memory.values())

    def __str__(self) -> str:
        held = ", ".join(f"{name} {size / (1 << 30):.3g}" for name, size in self.memory.items())
        return (f"step {self.step * 1e3:.4g} ms: computation {self.computation * 1e3:.4g} ms, "
                f"communication {self.communication * 1e3:.4g} ms of which "
                f"{self.exposed * 1e3:.4g} ms are exposed; memory "
                f"{self.memory_per_rank / (1 << 30):.3g} GiB: {held}")


def plan(model: Module | int, mesh: DeviceMesh | Mapping[str, int], hardware: Hardware, *,
         tokens: int = 0, flops: float | None = None, scheme: str = "replicate",
         bytes_per_parameter: int = 4, state_bytes: int = 8, activation_bytes: float = 0,
         cut: float = 1.0, tensor_bytes: float | Sequence[float] = 0, microbatches: int = 1,
         stage_bytes: float = 0, bucket_mb: float = BUCKET_MB) -> Plan:
    """A prediction of the time of a training step and of the memory of a rank.

    Args:
        model: a module before it is sharded, or its number of parameters.
        mesh: a mesh, or the sizes of its axes: "data", "model" and "pipe". Other names are refused.
        hardware: speeds of ranks and links.
        tokens: samples, tokens or pixels of the joint batch; a step computes 6 operations for each
            parameter and token.
        flops: operations of a step on the joint batch, in the place of `tokens`.
        scheme: "replicate", "zero" or "fully_shard" along the axis "data".
        bytes_per_parameter: of a parameter and of a gradient. Default 4.
        state_bytes: bytes of optimizer state for each parameter. Default 8, for AdamW in float32.
        activation_bytes: memory for values that the backward reads, of the whole model and one
            rank's share of the batch. Default 0.
        cut: the share of the parameters that the axis "model" cuts. Default 1, all.
        tensor_bytes: bytes that a rank all-reduces in a step along the axis "model", in one
            collective or as a sequence of several. Default 0.
        microbatches: parts of a batch in a pipeline along the axis "pipe". Default 1.
        stage_bytes: bytes of a part that a stage sends to the next one. Default 0.
        bucket_mb: size of a bucket, as in `replicate`. Default 25.

    Raises:
        ArgumentError: unknown scheme or axis, neither tokens nor flops, or no size of buckets.

    Example:
        >>> import fusewire.distributed as dist
        >>> gpus = dist.Hardware(flops=450e12, bandwidth=360e9, machine_bandwidth=45e9)
        >>> found = dist.plan(1_300_000_000, {"data": 64}, gpus, tokens=4_000_000,
        ...                   bytes_per_parameter=2, state_bytes=12)
        >>> round(found.efficiency, 2)
        1.0
    """
    data, tensor, pipe = _axes(mesh)
    _check(scheme, tokens, flops, bucket_mb)
    sizes = [model] if isinstance(model, int) else [p.size for p in model.parameters()]
    whole = sum(sizes)
    own = (1 - cut + cut / tensor) / pipe  # the share of the model of a rank
    work = 6.0 * whole * tokens if flops is None else flops
    computation = work * own / data / hardware.flops \
        * max(hardware.share(data * tensor * pipe), 1 + (pipe - 1) / microbatches)
    updated = whole * own / (1 if scheme == "replicate" else data)
    update = updated * (3 * bytes_per_parameter + 2 * state_bytes) / 2 / hardware.copy_bandwidth
    each = [tensor_bytes] if isinstance(tensor_bytes, (int, float)) else tensor_bytes
    inside = sum(hardware.all_reduce(n, tensor) + hardware.copies(n, tensor) for n in each) / pipe
    sent = 2 * (microbatches + pipe - 1) * hardware.all_reduce(stage_bytes, min(pipe, 2))
    total, exposed = _communication(
        hardware, scheme, [n * own * bytes_per_parameter for n in sizes], data,
        computation + inside, bucket_mb * (1 << 20))
    activations = activation_bytes / pipe * min(pipe, microbatches) / microbatches
    return Plan(computation + update, total + inside + sent, exposed + inside + sent,
                _memory(scheme, whole * own, data, bytes_per_parameter, state_bytes, activations))


def _check(scheme: str, tokens: int, flops: float | None, bucket_mb: float) -> None:
    if scheme not in _SCHEMES:
        raise ArgumentError(f"plan: unknown scheme {scheme!r}",
                            f"it is one of {', '.join(map(repr, _SCHEMES))}")
    if flops is None and not tokens:
        raise ArgumentError("plan: neither tokens nor flops are given", "as in tokens=65536")
    if bucket_mb <= 0:
        raise ArgumentError(f"plan: bucket_mb must be above 0, got {bucket_mb}", "25 is usual")


def _axes(mesh: DeviceMesh | Mapping[str, int]) -> tuple[int, int, int]:
    sizes = dict(zip(mesh.names, mesh.shape)) if isinstance(mesh, DeviceMesh) else dict(mesh)
    unknown = sizes.keys() - {"data", "model", "pipe"}
    if unknown:
        raise ArgumentError(f"plan: it knows no axis {min(unknown)!r}",
                            'name the axes "data", "model" and "pipe"')
    return sizes.get("data", 1), sizes.get("model", 1), sizes.get("pipe", 1)


def _communication(hardware: Hardware, scheme: str, sizes: Sequence[float], ranks: int,
                   computation: float, bucket: float) -> tuple[float, float]:
    """Seconds of communication along the data axis, and those for which a rank waits. `sizes`: the
    bytes of each parameter."""
    size = sum(sizes)
    copies = hardware.copies(size, ranks)
    if scheme == "fully_shard":  # a gather and a scatter of half an all-reduce each, all awaited
        both = sum(hardware.all_reduce(n, ranks) for n in sizes) + copies
        return both, both
    buckets = max(1, math.ceil(size / bucket_size(size, bucket)))
    each = hardware.all_reduce(size / buckets, ranks)
    end, begin = 0.0, computation * (1 - _BACKWARD)
    for number in range(1, buckets + 1):  # one after the other, each when it is full
        end = max(end, begin + computation * _BACKWARD * number / buckets) + each
    after = 0.5 * hardware.all_reduce(size, ranks) if scheme == "zero" else 0.0
    exposed = max(0.0, end - computation) if hardware.hides else buckets * each
    return buckets * each + after + copies, exposed + after + copies


def _memory(scheme: str, parameters: float, ranks: int, each: int, state: int,
            activations: float) -> dict[str, float]:
    """Bytes of a rank. Whole parameters of fully_shard live until the backward has run."""
    shared = ranks if scheme == "fully_shard" else 1
    held = {"parameters": parameters * each / shared, "gradients": parameters * each / shared,
            "optimizer": parameters * state / (1 if scheme == "replicate" else ranks),
            "activations": activations}
    if scheme == "fully_shard":
        held["gathered"] = parameters * each
    else:
        held["buckets"] = 2 * parameters * each if ranks > 1 else 0.0  # joined, and their sums
    return held
