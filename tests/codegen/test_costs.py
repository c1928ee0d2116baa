"""What compiled functions cost beside their calls: seconds of making code, memory of a call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import fusewire as fw
from fusewire.capture.runtime.metrics import Costs, Memory, collecting, phase
from fusewire.codegen.program import roofline


def settled(function: Any, *args: Any, **options: Any) -> Any:
    """A function that has been compiled."""
    compiled = fw.compile(function, **options)
    for _ in range(3):
        compiled(*args)
    return compiled


def test_the_phases_of_compiling_are_timed_each_by_itself() -> None:
    f = settled(lambda x: (x.softmax(-1) @ x).sum(), fw.ones(20, 20))
    costs = f.stats.costs
    phases = [costs.passes, costs.lowering, costs.llvm, costs.loading]
    assert costs.recording > 0 and all(seconds > 0 for seconds in phases)
    assert sum(phases) <= f.stats.compile_seconds
    assert (costs.compiled, costs.from_disk) == (1, 0)


def test_code_from_disk_is_told_apart(disk: Path) -> None:
    cold, warm = (settled(lambda x: x * 3 + 1, fw.ones(20)) for _ in range(2))
    assert (cold.stats.costs.compiled, cold.stats.costs.from_disk) == (1, 0)
    assert (warm.stats.costs.compiled, warm.stats.costs.from_disk) == (0, 1)
    assert warm.stats.costs.llvm == 0
    assert "0 programs compiled, 1 found on disk" in warm.explain()
    again = fw.compile(warm.original)
    with fw.profile() as p:
        for _ in range(2):
            again(fw.ones(20))
    assert (p.calls()[0]["compiled"], p.calls()[0]["from_disk"]) == (0, 1)


def test_code_for_further_sizes_counts() -> None:
    f = settled(lambda x: x.exp().sum(), fw.ones(20), dynamic=True)
    assert f.stats.costs.compiled == 1
    f(fw.ones(30))
    assert f.stats.costs.compiled == 2
    f(fw.ones(50))
    assert f.stats.costs.compiled == 2
    f(fw.ones(30_000))
    assert f.stats.costs.compiled == 3 and f.stats.peak_bytes >= 120_000


def test_a_phase_inside_of_another_counts_there_alone() -> None:
    costs = Costs()
    with collecting(costs), phase("lowering"):
        with phase("passes"), phase("llvm"):
            pass
        with collecting(Costs()), phase("loading"):
            pass
    assert costs.loading == 0 and min(costs.lowering, costs.passes, costs.llvm) > 0
    with phase("llvm"):  # nobody collects
        pass


def test_costs_are_a_line_of_words() -> None:
    assert str(Costs(0.5, 0.25, 0.125, 1, 0, compiled=2)) == (
        "recording 0.500 s, passes 0.250 s, lowering 0.125 s, LLVM 1.000 s, loading 0.000 s; "
        "2 programs compiled, 0 found on disk")


def memory(f: Any) -> Memory:
    executable, = f._executables()
    found: Memory = executable.memory
    return found


def test_memory_is_what_a_call_reads_gives_and_needs_in_between() -> None:
    def f(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        y = (x @ w).exp()
        return y / (y @ w).sum()

    compiled = settled(f, fw.ones(64, 64), fw.ones(64, 64))
    found, square = memory(compiled), 64 * 64 * 4
    assert (found.inputs, found.results) == (2 * square, square)
    assert found.arena >= 4 and found.peak == found.inputs + found.results + found.arena
    assert compiled.stats.peak_bytes == found.peak
    line = next(x for x in compiled.explain().splitlines() if "memory of one call" in x)
    assert re.search(r"\(inputs 32\.8 kB, results 16\.4 kB, arena .*\)", line)


def test_what_is_written_over_counts_once() -> None:
    weight = fw.ones(1000)

    def step(x: fw.Tensor) -> None:
        weight.mul_(x)

    assert memory(settled(step, fw.ones(1000))) == Memory(8000, 0, 0)


def test_memory_between_native_code_and_calls_of_libraries() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return (x.exp() * x.sum()).sort() + 1

    found = memory(settled(f, fw.ones(50_000)))
    assert found.inputs == 200_000 + 4 and found.results == 200_000  # with the 1
    assert found.arena >= 200_000 + 200_000  # what is sorted, before and after


def test_the_limit_is_the_longer_of_moving_and_computing() -> None:
    assert roofline.limit(0, 0) == 0
    assert roofline.limit(1e9, 4) == pytest.approx(1e9 / roofline.peak(fw.get_num_threads()))
    assert roofline.limit(1e9, 4, itemsize=8) == pytest.approx(2 * roofline.limit(1e9, 4))
    assert roofline.limit(1, 1e6) == roofline.limit(0, 1e6) > 0
    assert roofline.limit(0, 2e6) > roofline.limit(0, 1e6)
