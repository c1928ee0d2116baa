"""Programs drawn at random have the values of torch in float64, in every family."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from house.benchmark_package import benchmark_module

SEED = 20260  # no seed under which code was developed


@pytest.fixture(scope="session")
def sweep() -> ModuleType:
    """`benchmarks.sweep`, which is not installed, with its families."""
    for name in ("program", "families", "callers", "measure", "__main__"):
        benchmark_module(f"sweep.{name}")
    return sys.modules["benchmarks.sweep"]


# weights of bilinear interpolation are arrays that are made during the call
@pytest.mark.filterwarnings("ignore:.*graph break")
def test_one_program_of_each_family_has_the_right_values(sweep: ModuleType) -> None:
    families = sweep.program.FAMILIES
    assert len(families) >= 25
    drawn = [*sweep.program.programs(SEED, len(families))]
    assert {p.family for p in drawn} == {*families}
    for program in drawn:
        sweep.measure.checked_call(program)


def test_equal_seeds_draw_equal_programs(sweep: ModuleType) -> None:
    first, second = ([*sweep.program.programs(5, 8)] for _ in range(2))
    assert [p.about for p in first] == [p.about for p in second]
    assert all((a == b).all() for p, q in zip(first, second) for a, b in zip(p.inputs, q.inputs))
    assert [p.about for p in first] != [p.about for p in sweep.program.programs(6, 8)]


def test_a_wrong_value_is_an_error(sweep: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    call_of = sweep.measure.fusewire_call
    monkeypatch.setattr(sweep.measure, "fusewire_call", lambda program: lambda: call_of(program)()
                        * 1.001)
    (program,) = sweep.program.programs(1, 1, ["mlp"])
    wrong = benchmark_module("comparison.row").WrongValues
    with pytest.raises(wrong, match=r"mlp: .* differs by 1\.0e-03"):
        sweep.measure.checked_call(program)


def test_the_report_names_the_slowest_programs(sweep: ModuleType) -> None:
    program = next(sweep.program.programs(1, 1, ["softmax"]))
    kernel = {"name": "k0_max", "seconds": 2e-3, "limit": 1e-3, "bytes": 10, "flops": 20,
              "tasks": 3}
    rows = [sweep.measure.Row(program.family, program.about, 2e-3, {"torch": 1e-3, "jax": 3e-3},
                              0.0, {"fusewire": 1e-3, "torch": 9e-4, "jax": 3e-3}, [kernel])]
    shown = benchmark_module("comparison.report").text(rows)
    assert "1 programs: 0 (0 %) at or ahead of the best peer, 1 below 0.8" in shown
    assert "geometric mean 0.50; of the fastest samples 0.90" in shown
    assert "0.50: fusewire 2.00 ms, torch 1.00 ms" in shown and "k0_max: 2.00 ms" in shown
