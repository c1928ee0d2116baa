"""Whole models are compared in three ways: exported by torch, as fusewire's own, and trained."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fusewire as fw
from house.benchmark_package import benchmark_module

CLASSES = 5


def layers(lib: Any) -> list[Any]:
    nn = lib.nn
    return [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(144, CLASSES)]


def torch_net() -> Any:
    import torch

    return torch.nn.Sequential(*layers(torch))


def own_net(module: Any) -> Any:
    return catalogue().with_weights(fw.nn.Sequential(*layers(fw)), module)


def catalogue() -> ModuleType:
    return benchmark_module("models.catalogue")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that takes no time, in the place of all others."""
    known = catalogue()
    model = known.Model("tiny", torch_net, known.images(8), ours=own_net, trains=True)
    monkeypatch.setattr(known, "MODELS", {"net": model})
    monkeypatch.setattr(benchmark_module("models.measure"), "MODELS", {"net": model})


def measured(mode: str, folder: Path, *peers: str) -> Any:
    case = catalogue().Case("net", 2, mode)
    return benchmark_module("models.measure").measured(case, peers, 2, folder)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", ["onnx", "own", "train"])
def test_each_mode_gives_a_row(mode: str, tmp_path: Path) -> None:
    peers = ["torch"] if mode != "onnx" else benchmark_module("peers").present(
        ["torch", "onnxruntime", "openvino"])
    row = measured(mode, tmp_path, *peers)
    assert row.notes == [] and row.error < 1e-5 and [*row.peers] == peers
    assert row.fusewire > 0 and row.kernels and row.kernels[0]["limit"] is not None
    assert (row.family, row.about) == (f"tiny, {mode}", "net, batch 2")


def test_wrong_values_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = benchmark_module("models.measure")
    wrong = benchmark_module("comparison.row").WrongValues
    monkeypatch.setattr(module, "own_call", lambda *given: lambda: fw.ones(2, CLASSES))
    with pytest.raises(wrong, match="net own 2: call 0 differs"):
        measured("own", tmp_path)
    monkeypatch.setattr(module, "fusewire_step", lambda *given: lambda: fw.ones(()))
    with pytest.raises(wrong, match="net train 2: losses differ by"):
        measured("train", tmp_path)


def test_rows_exist_for_the_modes_of_a_model() -> None:
    found = catalogue().cases(["net"], [1, 8], ["onnx", "train"])
    assert [*map(str, found)] == ["net onnx 1", "net onnx 8", "net train 8"]


def test_a_process_without_a_row_says_why() -> None:
    rows = benchmark_module("models.rows")
    with pytest.raises(rows.NoRow, match=r"net onnx 1: not done after 0 s"):
        rows.row_of(catalogue().Case("net", 1, "onnx"), [], 0.1)
    with pytest.raises(rows.NoRow, match=r"net onnx 1: .*KeyError: 'net'"):
        rows.row_of(catalogue().Case("net", 1, "onnx"), [], 60.0)
