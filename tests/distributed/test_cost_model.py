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
        {"latency": 1e-3, "seconds": {"1": 0.01, "100": 1.0}, "ranks": 2, "machines": ["a"],
         "copy_bandwidth": 1e9, "processors": 2}, 1e9)
    assert hardware.all_reduce(MB, 2) == pytest.approx(0.01)
    assert hardware.all_reduce(10 * MB, 2) == pytest.approx(0.1)
    assert hardware.all_reduce(300 * MB, 2) == pytest.approx(3.0)


def test_computation_and_hidden_communication() -> None:
    """16 buckets: the last one is exposed, if each takes less than its part of the backward."""
    size = 16 * MB
    found = dist.plan(size // 4, {"data": 2}, dist.Hardware(1e9, 0.0, 1e9), flops=6e9)
    assert found.computation == pytest.approx(3.0)
    assert found.communication == pytest.approx(size / 1e9)
    assert found.exposed == pytest.approx(size / 16 / 1e9)
    assert found.step == found.computation + found.exposed
    one = dist.plan(size // 4, {"data": 2}, dist.Hardware(1e9, 0.0, 1e9, hides=False), flops=6e9)
    assert one.exposed == one.communication == pytest.approx(size / 1e9)


def test_ranks_share_processors() -> None:
    """4 ranks on 2 processors compute half as fast; copies and updates have their bandwidth."""
    hardware = dist.Hardware(1e9, 0.0, 1e9, copy_bandwidth=1e8, processors=2, hides=False)
    seconds = [dist.plan(1000, {"data": ranks}, hardware, flops=ranks * 1e9).computation
               for ranks in (1, 2, 4)]
    update = 1000 * 28 / 2 / 1e8  # AdamW reads 16 bytes of each parameter, and writes 12
    assert seconds == pytest.approx([1 + update, 1 + update, 2 + update])
    shared = dist.plan(1000, {"data": 2}, hardware, flops=2e9, scheme="zero")
    assert shared.computation == pytest.approx(1 + update / 2)


def test_pipelines_and_cut_layers() -> None:
    """4 stages and 8 parts: a stage works in 8 of 11 turns, 2 messages each. Cut layers have no
    more than their parts of the work."""
    hardware = dist.Hardware(1e9, 0.5, 1e6, ranks_per_machine=8)
    found = dist.plan(4000, {"pipe": 4}, hardware, flops=4e9, microbatches=8, stage_bytes=1e6,
                      activation_bytes=800)
    assert found.computation == pytest.approx(11 / 8)
    assert found.exposed == pytest.approx(2 * 11 * (2 * 0.5 + 1))
    assert found.memory["parameters"] == 4000
    assert found.memory["activations"] == pytest.approx(800 / 4 * 4 / 8)
    half = dist.plan(4000, {"model": 2}, hardware, flops=4e9, cut=0.5, tensor_bytes=[1e6, 1e6])
    assert half.computation == pytest.approx(3.0)
    assert half.exposed == pytest.approx(2 * (2 * 0.5 + 1))


def test_memory_of_each_scheme() -> None:
    model = nn.Linear(1000, 1000, bias=False)

    def memory(scheme: str) -> float:
        return dist.plan(model, {"data": 4}, LINK, tokens=1, scheme=scheme).memory_per_rank / 1e6

    assert memory("replicate") == pytest.approx(4 + 4 + 8 + 8)
    assert memory("zero") == pytest.approx(4 + 4 + 2 + 8)
    assert memory("fully_shard") == pytest.approx(1 + 1 + 2 + 4)


@pytest.mark.parametrize(("change", "message"), [
    ({"scheme": "zero3"}, "unknown scheme 'zero3'"), ({"mesh": {"expert": 2}}, "no axis 'expert'"),
    ({"tokens": 0}, "neither tokens nor flops"), ({"bucket_mb": 0}, "bucket_mb must be above 0")])
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    arguments = {"mesh": {"data": 2}, "tokens": 1} | change
    with pytest.raises(ArgumentError, match=message):
        dist.plan(1000, hardware=LINK, **arguments)
