"""Plain Python that PyTorch's exporters refuse, or write wrongly, is exported right.

Each model is one class, made with either library's `nn`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from parity.exported import TOLERANCE, apart, export, session

import fusewire as fw

ARRAY = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
# Sums of both signs; numbers that take 0 to 10 turns to become small.
INPUTS = [ARRAY * scale for scale in (1.0, -1.0, 0.01, 30.0, -1000.0)]


def expert(nn: Any) -> Any:
    """One of two layers, as the input's sum says."""
    class Expert(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(4, 5), nn.Sequential(nn.Linear(4, 5), nn.GELU())

        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                return self.one(x)
            return self.other(x) * 2

    return Expert().eval()


def solver(nn: Any) -> Any:
    """A layer and a step towards 0, again and again until what is left is small."""
    class Solver(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            turns = 0
            while (x * x).sum() > 1 and turns < 40:
                x = x / 2 - self.layer(x) / 8
                turns += 1
            return x + turns

    return Solver().eval()


MODELS = {"if": (expert, "If"), "while": (solver, "Loop")}


def pair(name: str) -> tuple[Any, Any]:
    """The model with PyTorch's `nn` and with ours, and one set of weights."""
    torch.manual_seed(0)
    theirs, ours = MODELS[name][0](torch.nn), MODELS[name][0](fw.nn)
    ours.load_state_dict({k: fw.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    return theirs, ours


def results(theirs: Any) -> list[list[Any]]:
    with torch.no_grad():
        return [[theirs(torch.from_numpy(x)).numpy()] for x in INPUTS]


@pytest.mark.parametrize("name", MODELS)
def test_ours_is_right_for_every_input(name: str, tmp_path: Path) -> None:
    theirs, ours = pair(name)
    path = tmp_path / "model.onnx"
    fw.onnx.export(ours, (fw.from_numpy(INPUTS[0]),), path, dynamic_shapes=({0: "n"},))
    run, loaded = session(path), fw.onnx.load(path)
    for x, wanted in zip(INPUTS, results(theirs), strict=True):
        assert apart(run(x), wanted) < TOLERANCE
        assert apart([loaded(fw.from_numpy(x)).numpy()], wanted) < TOLERANCE
        with torch.no_grad():
            rows = theirs(torch.from_numpy(x[:2])).numpy()
        assert apart(run(x[:2]), [rows]) < TOLERANCE
    assert f'op_type: "{MODELS[name][1]}"' in str(onnx.load(path).graph)


@pytest.mark.parametrize("name", MODELS)
def test_pytorchs_exporter_refuses(name: str, tmp_path: Path) -> None:
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        export(pair(name)[0], (INPUTS[0],), ({0: "n"},), tmp_path / "model.onnx")


@pytest.mark.parametrize("name", MODELS)
def test_the_exporter_before_writes_what_one_input_did(name: str, tmp_path: Path) -> None:
    theirs, path = pair(name)[0], tmp_path / "model.onnx"
    export(theirs, (INPUTS[0],), ({0: "n"},), path, script=True)
    run = session(path)
    errors = [apart(run(x), wanted) for x, wanted in zip(INPUTS, results(theirs), strict=True)]
    assert errors[0] < TOLERANCE and max(errors) > 0.01
