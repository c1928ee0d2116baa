"""Predicts the time of a training step and the memory of a rank: the model of `plan`.

All times are in seconds, all sizes in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..eager.errors import ArgumentError
from ..eager.nn.base.module import Module
from .mesh import DeviceMesh

_BACKWARD = 2 / 3  # of the computation of a step
_SCHEMES = ("replicate", "zero", "fully_shard")


@dataclass(frozen=True)
class Hardware:
    """The speed of ranks and of the links between them.

    Args:
        flops: floating-point operations that a rank computes in a second of training.
        latency, bandwidth: of one message between two ranks of a machine, in seconds and bytes per
            second.
        ranks_per_machine: ranks that share a machine.
        machine_latency, machine_bandwidth: the same between machines, for one rank.
        measured: seconds of all-reduces by their bytes, among `measured_ranks` ranks, in the place
            of `latency` and `bandwidth`.
        copy_bandwidth: bytes that a rank copies in its memory in a second; buckets are joined and
            divided, two copies of the gradients.
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
    hides: bool = True

    @staticmethod
    def from_report(report: Mapping[str, Any], flops: float) -> Hardware:
        """The hardware that `fusewire doctor --distributed --json` has measured, under its key
        "distributed"; `flops` of a rank."""
        seconds = {1024: float(report["latency"])}
        seconds |= {int(mb) << 20: float(s) for mb, s in report["seconds"].items()}
        return Hardware(flops, ranks_per_machine=int(report["ranks"]), measured=seconds,
                        measured_ranks=int(report["ranks"]),
                        copy_bandwidth=float(report["copy_bandwidth"]), hides=False)

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
         tensor_bytes: float = 0, bucket_mb: float = 25.0) -> Plan:
    """A prediction of the time of a training step and of the memory of a rank.

    Args:
        model: a module before it is sharded, or its number of parameters.
        mesh: a mesh, or the sizes of its axes: "data" and "model". Other names are refused.
        hardware: speeds of ranks and links.
        tokens: samples, tokens or pixels of the joint batch; a step computes 6 operations for each
            parameter and token.
        flops: operations of a step on the joint batch, in the place of `tokens`.
        scheme: "replicate", "zero" or "fully_shard" along the axis "data".
        bytes_per_parameter: of a parameter and of a gradient. Default 4.
        state_bytes: bytes of optimizer state for each parameter. Default 8, for AdamW in float32.
        activation_bytes: memory of a rank for values that the backward reads. Default 0.
        tensor_bytes: bytes that a rank all-reduces in a step along the axis "model". Default 0.
        bucket_mb: size of a bucket, as in `replicate`. Default 25.

    Raises:
        ArgumentError: unknown scheme or axis, or neither tokens nor flops.

    Example:
        >>> import fusewire.distributed as dist
        >>> gpus = dist.Hardware(flops=450e12, bandwidth=360e9, machine_bandwidth=45e9)
        >>> found = dist.plan(1_300_000_000, {"data": 64}, gpus, tokens=4_000_000,
        ...                   bytes_per_parameter=2, state_bytes=12)
        >>> round(found.efficiency, 2)
        1.0
    """
    data, tensor = _axes(mesh)
    if scheme not in _SCHEMES:
        raise ArgumentError(f"plan: unknown scheme {scheme!r}",
                            f"it is one of {', '.join(map(repr, _SCHEMES))}")
    if flops is None and not tokens:
        raise ArgumentError("plan: neither tokens nor flops are given", "as in tokens=65536")
    parameters = model if isinstance(model, int) else sum(p.size for p in model.parameters())
    own = parameters / tensor
    work = 6.0 * parameters * tokens if flops is None else flops
    computation = work / (data * tensor) / hardware.flops
    size = own * bytes_per_parameter
    inside = hardware.all_reduce(tensor_bytes, tensor)
    total, exposed = _communication(hardware, scheme, size, data, computation + inside,
                                    bucket_mb * (1 << 20))
    return Plan(computation, total + inside, exposed + inside,
                _memory(scheme, own, data, bytes_per_parameter, state_bytes, activation_bytes))


def _axes(mesh: DeviceMesh | Mapping[str, int]) -> tuple[int, int]:
    sizes = dict(zip(mesh.names, mesh.shape)) if isinstance(mesh, DeviceMesh) else dict(mesh)
    unknown = sizes.keys() - {"data", "model"}
    if unknown:
        raise ArgumentError(f"plan: it knows no axis {min(unknown)!r}",
                            'name the axes "data" and "model"')
    return sizes.get("data", 1), sizes.get("model", 1)


def _communication(hardware: Hardware, scheme: str, size: float, ranks: int, computation: float,
                   bucket: float) -> tuple[float, float]:
    """Seconds of communication along the data axis, and those for which a rank waits."""
    if scheme == "fully_shard":  # a gather and a scatter of half an all-reduce each, all awaited
        both = hardware.all_reduce(size, ranks)
        return both, both
    buckets = max(1, math.ceil(size / bucket))
    each = hardware.all_reduce(size / buckets, ranks)
    copies = 2 * size / hardware.copy_bandwidth if ranks > 1 else 0.0
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
        held["buckets"] = parameters * each if ranks > 1 else 0.0
    return held
