"""The benchmarks run, with fusewire alone; no time is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from emulated import EmulatedDevice
from emulated_gpu import emulated_gpus
from gpu_workloads import small as small_ones

from emulator.emulator import AVAILABLE
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.eager.cuda import driver
from fusewire.eager.settings import settings
from fusewire.eager.upper_layer import UPPER
from house.benchmark_package import benchmark_module
from house.repo import ROOT


@pytest.fixture(scope="session")
def benchmarks() -> ModuleType:
    """The package from the repository's root, which is not installed."""
    for name in ("fresh", "gpu", "place", "run", "table", "timing", "workloads", "__main__"):
        benchmark_module(name)
    return sys.modules["benchmarks"]


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
    modules = benchmark_module("modules")
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
    modules = benchmark_module("modules")
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


# ---- on a GPU

@pytest.fixture
def on_a_gpu(benchmarks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU that is not there as the place of workloads; NumPy computes what CuPy is asked for."""
    monkeypatch.setattr(benchmarks.place, "device", benchmarks.place.CPU)
    with emulated_gpus():
        benchmarks.place.use("cuda")
        yield


def test_where_there_is_no_gpu_the_command_says_what_to_do(
    benchmarks: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    help = 'pip install "fusewire[cuda13]"'
    missing = driver.Driver("CuPy is not installed", help, 1, 13000)
    monkeypatch.setattr(driver, "probe", lambda: missing)
    monkeypatch.setattr(benchmarks.__main__, "prepare_environment", lambda device: None)
    monkeypatch.setattr(settings, "disk_mb", settings.disk_mb)
    assert benchmarks.__main__.main(["--device", "cuda", "sum_rows"]) == 2
    said = capsys.readouterr().err
    assert "CuPy is not installed" in said and help in said


def test_a_gpu_has_sizes_of_its_own(benchmarks: ModuleType) -> None:
    workloads = benchmarks.workloads
    assert small_ones(workloads).keys() == workloads.ON_GPU.keys()
    for name in workloads.ON_GPU.keys() & workloads.WORKLOADS.keys():
        here, there = workloads.WORKLOADS[name], workloads.ON_GPU[name]
        assert there.flops > here.flops and there.makers.keys() == here.makers.keys()


NAMES = ["gelu_bias_residual", "black_scholes", "softmax_rows", "layernorm", "layernorm_train",
         "sum_rows", "sum_columns", "sum_all", "cross_entropy_train", "embedding_gradient",
         "adamw_step", "matmul_4096", "attention_infer", "attention_train", "conv_bf16_infer",
         "resnet_infer", "gpt_train_step"]


@pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")
@pytest.mark.parametrize("name", NAMES)
def test_a_workload_gives_on_a_gpu_what_it_gives_here(
    benchmarks: ModuleType, name: str, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small_ones(benchmarks.workloads)[name]
    eager = made.makers["fusewire eager"]
    _, _, wanted = benchmarks.run._first_calls("fusewire eager", eager, made.inputs(), made)
    request.getfixturevalue("on_a_gpu")
    variants = ["fusewire", "fusewire eager"]
    if name == "resnet_infer":  # whose convolutions, emulated, would take minutes
        variants.remove("fusewire")
        monkeypatch.setattr(UPPER, "device_op", None)
    ready = benchmarks.run.prepare(made, {variant: made.makers[variant] for variant in variants})
    assert list(ready.calls) == variants and not ready.notes
    _, _, found = benchmarks.run._first_calls("fusewire eager", eager, made.inputs(), made)
    assert benchmarks.run.error_of(found, wanted) <= made.tolerance
    call = ready.calls["fusewire eager"]
    result = call()
    assert {x.device for x in (result if type(result) is tuple else [result])} == {"cuda:0"}


def test_the_limit_of_a_gpu(
    benchmarks: ModuleType, on_a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = {True: 1e12, False: 9e12}  # of the memory, and of what lies in a cache
    monkeypatch.setattr(benchmarks.gpu, "bandwidth", lambda size: speeds[size >= 1 << 26])
    monkeypatch.setattr(benchmarks.gpu, "peak", lambda: 1e13)
    limit = benchmarks.machine.limit
    assert (limit(1e10, 1e8), limit(1.0, 1e8), limit(0.0, 1e3)) == (1e-3, 1e-4, 1e-9)
    described = benchmarks.machine.describe()
    assert described["GPU"] == "Not a GPU" and described["architecture"] == "sm_90"
    assert described["memory GB/s"] == 1000.0 and described["GFLOP/s"] == 10000.0


def test_copies_are_measured(benchmarks: ModuleType, on_a_gpu: None) -> None:
    assert benchmarks.gpu.bandwidth(1 << 16) > 1e6


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")
def test_the_kernel_of_multiply_adds_stays_in_registers(benchmarks: ModuleType) -> None:
    taken = nvrtc.compile(benchmarks.gpu.PEAK, "sm_90").resources["chains"]
    assert taken.registers <= 32 and taken.stack == taken.spill_stores == taken.shared == 0


@pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")
def test_multiply_adds_are_counted(
    benchmarks: ModuleType, on_a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = benchmarks.gpu
    monkeypatch.setattr(gpu, "PEAK", gpu.PEAK.replace(f"i < {gpu._STEPS}", "i < 4"))
    monkeypatch.setattr(gpu, "_STEPS", 4)
    monkeypatch.setattr(gpu, "_fastest", lambda work: work() or 0.5)
    assert gpu._operations(EmulatedDevice(), 3) == 3 * 256 * 4 * 8 * 2 / 0.5


def test_a_library_without_code_for_the_gpu_is_left_out(
    benchmarks: ModuleType, on_a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(benchmarks.run, "say", said.append)
    monkeypatch.setattr(benchmarks.run, "installed", lambda name: name != "jax")
    assert not benchmarks.run._usable("numpy") and not benchmarks.run._usable("jax")
    assert said == ["numpy does not run on cuda here: left out", "jax is not installed: left out"]


def test_a_run_that_is_stopped_shows_what_it_has(
    benchmarks: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []

    def measure(workload: Any, *rest: Any) -> Any:
        calls.append(workload.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measured(workload, *rest)

    measured = benchmarks.run.measure
    monkeypatch.setattr(benchmarks.run, "measure", measure)
    monkeypatch.setattr(benchmarks.__main__, "prepare_environment", lambda device: None)
    monkeypatch.setattr(settings, "disk_mb", settings.disk_mb)
    asked = ["data_dependent", "call_overhead", "--peers", "", "--rounds", "1", "--no-fresh"]
    assert benchmarks.__main__.main(asked) == 1
    said = capsys.readouterr()
    assert "| data_dependent" in said.out and "| call_overhead" not in said.out
    assert "stopped: 1 of 2 workloads are measured" in said.err
