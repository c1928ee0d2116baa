"""The benchmarks run, with fusewire alone; no time is asserted."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from house.repo import ROOT


@pytest.fixture(scope="session")
def benchmarks() -> ModuleType:
    """The package from the repository's root, which is not installed."""
    folder = ROOT / "benchmarks"
    spec = importlib.util.spec_from_file_location(
        "benchmarks", folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmarks"] = module
    spec.loader.exec_module(module)
    for name in ("fresh", "run", "table", "timing", "workloads"):
        importlib.import_module(f"benchmarks.{name}")
    return module


def command(out: Path, *arguments: str) -> tuple[Any, str]:
    """What the command writes for a program to read, and what it prints."""
    line = [sys.executable, "-m", "benchmarks", *arguments, "--json", str(out)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def test_the_command_writes_rows(tmp_path: Path) -> None:
    (row,), shown = command(tmp_path / "rows.json", "call_overhead", "--peers", "", "--rounds", "2",
                            "--kernels")
    assert row["workload"] == "call_overhead" and row["fusewire"] > 0 and row["peers"] == {}
    assert row["compile_cold"] > 0 and row["compile_warm"] > 0 and row["peers_kept"] == {}
    assert row["recordings"] == 1 and "limit" in row and row["notes"] == []
    assert sys.platform == "win32" or row["peak_rss"] > row["grown_rss"] > 0
    assert len(row["kernels"]) == 1 and shown.count("| call_overhead") == 3


def test_without_fresh_processes(tmp_path: Path) -> None:
    (row,), shown = command(tmp_path / "rows.json", "data_dependent", "--peers", "numpy",
                            "--rounds", "2", "--no-fresh")
    assert row["peers"]["numpy"] > 0 and row["compile_warm"] is row["peak_rss"] is None
    assert shown.count("| data_dependent") == 2


def test_a_second_process_takes_its_code_from_disk(tmp_path: Path) -> None:
    disk = tmp_path / "objects"
    kept = []
    for _ in range(2):
        found, _ = command(tmp_path / "out.json", "call_overhead", "--alone", "fusewire", str(disk))
        kept.append({entry.name for entry in disk.iterdir()})
        assert found["cold"] > 0
    assert kept[0] and kept[0] == kept[1]


def test_others_are_timed_with_an_allocator_that_keeps_memory(
    benchmarks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def again(*arguments: str, **environment: str) -> Any:
        asked.append((arguments, environment))
        return [{"peers": {"torch": 2.0}, "fusewire": 1.0, "best_peer": "torch", "ratio": 2.0}]

    monkeypatch.setattr(benchmarks.fresh, "_command", again)
    monkeypatch.setattr(benchmarks.fresh.platform, "libc_ver", lambda: ("glibc", "2.36"))
    made = benchmarks.workloads.WORKLOADS["black_scholes"]
    row = benchmarks.fresh._kept(made, {"peers": {"torch": 3.0}}, ["torch"], 7)
    assert row["peers_kept"] == {"torch": 2.0} and row["ratio_kept"] == 2.0
    (arguments, environment), = asked
    assert arguments[:1] == ("black_scholes",) and "--no-fresh" in arguments
    assert environment["MALLOC_MMAP_MAX_"] == "0"


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


def small(library: Any) -> Any:
    """A model with weights, running statistics and a count that no benchmark sets."""
    nn = library.nn
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())


def test_a_model_of_modules_is_the_same_in_fusewire_and_onnxruntime(
    benchmarks: ModuleType
) -> None:
    pytest.importorskip("onnxruntime")
    modules = importlib.import_module("benchmarks.modules")
    inputs = {"x": np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4),
              "weights": modules.weights_of(small)}
    assert not np.array_equal(inputs["weights"]["1.running_var"], np.ones(3))
    makers = {name: make for name, make in modules.inferences(small, abs).items()
              if benchmarks.workload.library(name) in ("fusewire", "onnxruntime")}
    made = benchmarks.workload.Workload("small", "", lambda: inputs, makers)
    ready = benchmarks.run.prepare(made, makers)
    assert len(ready.calls) == 3 and not ready.notes


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_a_model_of_modules_is_trained(benchmarks: ModuleType, optimizer: str) -> None:
    modules = importlib.import_module("benchmarks.modules")
    inputs = {"x": np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4),
              "labels": np.arange(5) % 3, "weights": modules.weights_of(small)}
    makers = {name: make for name, make in
              modules.model_trainings(small, abs, optimizer, 0.1).items()
              if benchmarks.workload.library(name) == "fusewire"}
    made = benchmarks.workload.Workload("small", "", lambda: inputs, makers, training=True)
    ready = benchmarks.run.prepare(made, makers)
    assert len(ready.calls) == 2 and not ready.notes
    losses = [float(ready.calls["fusewire"]()) for _ in range(5)]
    assert losses[-1] < losses[0]


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
