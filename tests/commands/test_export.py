"""`fusewire export`: functions and modules of a file as models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import fusewire as fw


def shapes(file: str) -> dict[str, list[Any]]:
    """The inputs of a model, with their sizes and the names of those that vary."""
    return {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in onnx.load(file).graph.input}


@pytest.mark.parametrize("target", ["net.py:Net", "net.py:model", "net.py:made"])
def test_a_module(call: Any, net: Path, target: str) -> None:
    done = call("export", target, "--out", "net.onnx", "--input", "x=float32[batch,4]")
    assert done.status == 0 and done.out.startswith("net.onnx: ") and "opset 18" in done.out
    assert "compared at batch 2\n" in done.out
    assert shapes("net.onnx") == {"x": ["batch", 4]}


def test_a_part_of_a_module(call: Any, net: Path) -> None:
    assert call("export", "net.py:model.head", "--out", "h.onnx", "--input", "float32[8]",
                "--opset", "21").status == 0
    model = onnx.load("h.onnx")
    assert list(shapes("h.onnx").values()) == [[8]] and model.opset_import[0].version == 21


def test_a_function_on_an_example(call: Any, net: Path) -> None:
    x, y = (np.arange(6, dtype=np.float64).reshape(2, 3) + i for i in range(2))
    np.savez("example.npz", y=y, x=x)
    found = call("export", "net.py:product", "--out", "p.onnx", "--example", "example.npz",
                 "--dynamic", "x:0=n", "--dynamic", "y:0=n", "--json").json
    assert found["inputs"] == ["x", "y"] and found["max_error"] < 1e-12
    assert {"n": 2} in found["checked_sizes"]
    session = onnxruntime.InferenceSession("p.onnx")
    np.testing.assert_allclose(session.run(None, {"x": x, "y": y})[0], (x * y).sum(-1))


def test_arrays_without_names_go_by_position(call: Any, net: Path) -> None:
    np.savez("example.npz", np.ones((2, 3), np.float32), np.ones(3, np.float32))
    assert call("export", "net.py:product", "--out", "p.onnx", "--example",
                "example.npz").status == 0
    assert shapes("p.onnx") == {"x": [2, 3], "y": [3]}


def test_with_weights_of_a_file(call: Any, net: Path) -> None:
    weights = {"weight": fw.full((3, 8), 0.5), "bias": fw.zeros(3)}
    fw.save(weights, "head.safetensors")
    arguments = ["--out", "h.onnx", "--input", "float32[8]", "--weights", "head.safetensors"]
    assert call("export", "net.py:model.head", *arguments).status == 0
    ones = {"input": np.ones(8, np.float32)}
    assert onnxruntime.InferenceSession("h.onnx").run(None, ones)[0].tolist() == [4, 4, 4]
    assert "encoder.weight" in call("export", "net.py:Net", *arguments).err
    assert "product is none" in call("export", "net.py:product", *arguments).err
    lost = call("export", "net.py:Net", *arguments[:-1], "heads.safetensors")
    assert "in that folder there is head.safetensors" in lost.err


@pytest.mark.parametrize(("arguments", "status", "says"), [
    (["--input", "z=float32[4]"], 2, "Net takes x: x missing"),
    (["--input", "x=float32[4]", "--input", "z=float32[4]"], 2, "Net has no argument 'z'"),
    (["--input", "x=float32[4]", "--input", "x=float32[4]"], 2, "Net gets 'x' twice"),
    (["--input", "x=float32[4]", "--example", "e.npz"], 2, "--input and --example both"),
    (["--example", "none.npz"], 1, "none.npz: No such file or directory"),
    (["--example", "net.py"], 1, "net.py cannot be read as arrays"),
    (["--input", "x=float32[4]", "--dynamic", "x:3=n"], 1, "of shape (4,) has no axis 3"),
    (["--input", "x=float32[4]", "--opset", "3"], 1, "opset"),
])
def test_what_makes_no_sense(call: Any, net: Path, arguments: list[str], status: int, says: str
                             ) -> None:
    done = call("export", "net.py:Net", "--out", "x.onnx", *arguments)
    assert (done.status, done.out) == (status, "") and says in done.err
    assert "Traceback" not in done.err and "commands/" not in done.err


def test_the_folder_of_a_file_is_made(call: Any, net: Path, tmp_path: Path) -> None:
    for command, name in (("export", "net.onnx"), ("aot", "net")):
        out = tmp_path / "new" / command / name
        done = call(command, "net.py:Net", "--input", "x=float32[2,4]", "--out", str(out))
        assert done.status == 0, done.err
        assert [*out.parent.glob("net*")]
