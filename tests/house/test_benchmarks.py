"""The benchmarks run, with fusewire alone; no time is asserted."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from house.repo import ROOT


@pytest.fixture(scope="module")
def benchmarks() -> ModuleType:
    """The package from the repository's root, which is not installed."""
    folder = ROOT / "benchmarks"
    spec = importlib.util.spec_from_file_location(
        "benchmarks", folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmarks"] = module
    spec.loader.exec_module(module)
    for name in ("run", "table", "timing", "workloads"):
        importlib.import_module(f"benchmarks.{name}")
    return module


def test_the_command_writes_rows(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    command = [sys.executable, "-m", "benchmarks", "call_overhead", "--peers", "", "--rounds", "2",
               "--kernels", "--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    row, = json.loads(out.read_text(encoding="utf-8"))
    assert row["workload"] == "call_overhead" and row["fusewire"] > 0 and row["peers"] == {}
    assert len(row["kernels"]) == 1 and "| call_overhead" in done.stdout


def test_every_workload_has_peers_and_says_what_it_is(benchmarks: ModuleType) -> None:
    for name, workload in benchmarks.workloads.WORKLOADS.items():
        libraries = {benchmarks.workload.library(variant) for variant in workload.makers}
        assert libraries >= {"fusewire", "torch"}, name
        assert workload.name == name and workload.about


def test_results_that_differ_are_not_timed(benchmarks: ModuleType) -> None:
    constant = {"fusewire": lambda inputs: lambda: 1.0, "torch": lambda inputs: lambda: 1.1,
                "jax": lambda inputs: inputs["absent"]}
    made = benchmarks.workload.Workload("none", "", dict, constant)
    ready = benchmarks.run.prepare(made, constant)
    assert list(ready.calls) == ["fusewire"]
    assert [note.split()[:2] for note in ready.notes] == [["torch", "differs"], ["jax", "failed:"]]


def test_disturbed_samples_do_not_count(benchmarks: ModuleType) -> None:
    quiet, disturbed = [(1.0, 0.0)] * 5, [(9.0, 0.5)] * 20
    found = benchmarks.timing._timing(quiet + disturbed)
    assert (found.median, found.quiet, found.rounds) == (1.0, 5, 25)


@pytest.mark.parametrize(("value", "shown"), [
    (None, "-"), (2.5, "2.50 s"), (0.0123, "12.3 ms"), (4.56e-4, "456 us"), (3e-8, "30.0 ns"),
])
def test_times_are_shown_in_three_digits(
    benchmarks: ModuleType, value: float | None, shown: str
) -> None:
    assert benchmarks.table.seconds(value) == shown
