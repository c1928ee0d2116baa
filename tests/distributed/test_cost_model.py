"""The predictions of `plan`: what each formula says in cases that can be worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

import fusewire.distributed as dist
from fusewire import nn
from fusewire.eager.errors import ArgumentError

MB = 1 << 20
LINK = dist.Hardware(flops=1e9, latency=0.0, bandwidth=1e6, ranks_per_machine=4,
                     machine_latency=1.0, machine_bandwidth=1e6)


def test_all_reduce_in_a_machine_and_between_machines() -> None:
    assert LINK.all_reduce(4e6, 1) == 0
    assert LINK.all_reduce(4e6, 4) == pytest.approx(2 * 3 * 1e6 / 1e6)
    # 1e6 bytes of each rank between 2 machines: 2 steps of 0.5 s and the latency
    assert LINK.all_reduce(4e6, 8) == pytest.approx(6 + 2 * (1 + 0.5))
    # 1,024 machines: a tree of depth 10 is faster than a ring of 1,023 steps
    assert LINK.all_reduce(4e6, 4096) == pytest.approx(6 + 2 * 10 + 2)


def test_measured_times_are_interpolated() -> None:
    hardware = dist.Hardware.from_report(
        {"latency": 1e-3, "seconds": {"1": 0.01, "100": 1.0}, "ranks": 2, "copy_bandwidth": 1e9},
        1e9)
    assert hardware.all_reduce(MB, 2) == pytest.approx(0.01)
    assert hardware.all_reduce(10 * MB, 2) == pytest.approx(0.1)
    assert hardware.all_reduce(300 * MB, 2) == pytest.approx(3.0)


def test_computation_and_hidden_communication() -> None:
    """Three buckets: the last one is exposed, if each takes less than a third of the backward."""
    size = 3 * 25 * MB
    found = dist.plan(size // 4, {"data": 2}, dist.Hardware(1e9, 0.0, 1e9), flops=6e9)
    assert found.computation == pytest.approx(3.0)
    assert found.communication == pytest.approx(size / 1e9)
    assert found.exposed == pytest.approx(size / 3 / 1e9)
    assert found.step == found.computation + found.exposed


def test_memory_of_each_scheme() -> None:
    model = nn.Linear(1000, 1000, bias=False)

    def memory(scheme: str) -> float:
        return dist.plan(model, {"data": 4}, LINK, tokens=1, scheme=scheme).memory_per_rank / 1e6

    assert memory("replicate") == pytest.approx(4 + 4 + 8 + 4)
    assert memory("zero") == pytest.approx(4 + 4 + 2 + 4)
    assert memory("fully_shard") == pytest.approx(1 + 1 + 2 + 4)


@pytest.mark.parametrize(("change", "message"), [
    ({"scheme": "zero3"}, "unknown scheme 'zero3'"), ({"mesh": {"pipe": 2}}, "no axis 'pipe'"),
    ({"tokens": 0}, "neither tokens nor flops")])
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    arguments = {"mesh": {"data": 2}, "tokens": 1} | change
    with pytest.raises(ArgumentError, match=message):
        dist.plan(1000, hardware=LINK, **arguments)
