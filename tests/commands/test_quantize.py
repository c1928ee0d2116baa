"""`fusewire quantize`: modules in small numbers, as models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import fusewire as fw
from fusewire.export.onnx.verify.compare import exact_options


@pytest.fixture
def data(net: Path) -> np.ndarray:
    """Inputs of the network, in data.npz, and its weights, in net.safetensors."""
    x = np.random.default_rng(0).standard_normal((70, 4)).astype(np.float32)
    np.savez("data.npz", x=x)
    layers = fw.nn.ModuleDict({"encoder": fw.nn.Linear(4, 8), "head": fw.nn.Linear(8, 3)})
    fw.save(layers.state_dict(), "net.safetensors")
    return x


def test_int8(call: Any, data: np.ndarray) -> None:
    done = call("quantize", "net.py:Net", "--data", "data.npz", "--out", "q.onnx", "--weights",
                "net.safetensors")
    assert done.status == 0 and "encoder      Linear" in done.out and "q.onnx: " in done.out
    assert {"QuantizeLinear", "DequantizeLinear"} <= {n.op_type for n in
                                                      onnx.load("q.onnx").graph.node}
    state = fw.load("net.safetensors")
    hidden = np.maximum(data @ state["encoder.weight"].numpy().T + state["encoder.bias"].numpy(), 0)
    wanted = hidden @ state["head.weight"].numpy().T + state["head.bias"].numpy()
    got = onnxruntime.InferenceSession("q.onnx", exact_options()).run(None, {"x": data})[0]
    assert 0 < np.abs(got - wanted).max() < 0.05


def test_for_programs(call: Any, data: np.ndarray) -> None:
    found = call("quantize", "net.py:model", "--data", "data.npz", "--out", "q.onnx",
                 "--activations", "dynamic", "--skip", "head", "--batch", "16", "--json").json
    assert [layer["name"] for layer in found["layers"]] == ["encoder"]
    assert found["kept"] == {"head": "`skip` names it"} and found["to"] == "int8"
    assert found["output"]["signal_to_noise_db"] > 20
    assert "DynamicQuantizeLinear" in {n.op_type for n in onnx.load("q.onnx").graph.node}
    assert found["model"]["path"] == "q.onnx" and {"batch": 16} in found["model"]["checked_sizes"]


def test_notes_are_told(call: Any, data: np.ndarray) -> None:
    """onnxruntime has few products in bfloat16."""
    done = call("quantize", "net.py:model", "--data", "data.npz", "--out", "q.onnx", "--to",
                "bfloat16")
    assert done.status == 0 and "note: onnxruntime" in done.out


@pytest.mark.parametrize(("arguments", "status", "says"), [
    (["net.py:product", "--data", "data.npz"], 2, "product is no nn.Module"),
    (["net.py:Net", "--data", "few.npz"], 1, "hold 0 examples of x"),
    (["net.py:Net", "--data", "other.npz"], 2, "Net takes x: x missing"),
    (["net.py:Net", "--data", "data.npz", "--skip", "heat"], 1, "the nearest is 'head'"),
    (["net.py:Net", "--data", "wrong.npz"], 1, "nan"),
    (["net.py:Net", "--data", "none.npz"], 1, "none.npz: No such file or directory"),
])
def test_what_makes_no_sense(call: Any, data: np.ndarray, arguments: list[str], status: int,
                             says: str) -> None:
    np.savez("few.npz", x=data[:0])
    np.savez("other.npz", y=data)
    np.savez("wrong.npz", x=data * np.nan)
    done = call("quantize", *arguments, "--out", "q.onnx")
    assert (done.status, done.out) == (status, "") and says in done.err
    assert "Traceback" not in done.err and "--input" not in done.err
