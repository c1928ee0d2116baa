"""`fusewire run`: models run from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save


@pytest.mark.parametrize("way", ["--compile", "--no-compile"])
def test_on_arrays_from_files(call: Any, model: Any, way: str) -> None:
    file, rows, wanted = model
    np.save("rows.npy", rows)
    found = call("run", file, "--input", "rows=rows.npy", "--out", "results", way, "--json").json
    scores = np.load("results/scores.npy")
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-6)
    about = found["outputs"]["scores"]
    assert (about["dtype"], about["shape"]) == ("float32", [5, 3])
    assert about["mean"] == pytest.approx(scores.mean(), abs=1e-6)
    assert (about["min"], about["max"]) == (scores.min(), scores.max())
    assert found["files"] == ["results/scores.npy"] and found["compiled"] is (way == "--compile")


@pytest.mark.parametrize("save_rows", [
    lambda rows: np.save("rows.npy", rows), lambda rows: np.savez("rows.npz", rows=rows)])
def test_the_only_input_needs_no_name(call: Any, model: Any, save_rows: Any) -> None:
    save_rows(model[1])
    file, = Path().glob("rows.np*")
    found = call("run", model[0], "--input", file, "--json").json
    assert found["inputs"]["rows"]["shape"] == [5, 4]


def test_on_random_numbers(call: Any, model: Any) -> None:
    done = call("run", model[0], "--random", "--size", "batch=7", "--repeat", "3")
    assert done.status == 0 and "scores  float32[7, 3]" in done.out
    assert ", second " in done.out and "(3 more, the fastest" in done.out


def test_inputs_with_a_value_of_their_own_may_lack(call: Any, tmp_path: Path) -> None:
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("scale", "x")]
    graph = helper.make_graph([helper.make_node("Mul", ["scale", "x"], ["y"])], "g", given,
                              [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(np.float32([2, 3]), "scale")])
    save(helper.make_model(graph, ir_version=8), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.float32([10, 100]))
    about = call("run", tmp_path / "m.onnx", "--input", f"x={tmp_path}/x.npy", "--json").json
    assert about["outputs"]["y"]["max"] == 300 and list(about["inputs"]) == ["x"]
    np.save(tmp_path / "s.npy", np.float32([5, 5]))
    about = call("run", tmp_path / "m.onnx", "--input", f"x={tmp_path}/x.npy", "--input",
                 f"scale={tmp_path}/s.npy", "--json").json
    assert about["outputs"]["y"]["max"] == 500


@pytest.mark.parametrize(("arguments", "status", "says"), [
    ([], 2, "missing inputs: rows: float32[batch, 4]\n  help: pass --input rows=file.npy, or "
            "--random"),
    (["--input", "x=rows.npy"], 2, "the model has no input 'x'\n  help: it takes rows: "),
    (["--random", "--size", "n=3"], 2, "no random input has a size 'n'"),
    (["--input", "none.npy"], 1, "none.npy: No such file"),
    (["--input", "words.npy"], 1, "words.npy holds <U1"),
    (["--input", "rows.npz"], 1, "rows.npz cannot be read as arrays"),
    (["--input", "wide.npy"], 1, "does not fit rows: float32[batch, 4]"),
])
def test_what_makes_no_sense(call: Any, model: Any, arguments: list[str], status: int, says: str
                             ) -> None:
    np.save("rows.npy", model[1])
    np.save("words.npy", np.array(["a"]))
    np.save("wide.npy", np.ones((2, 5), np.float32))
    Path("rows.npz").write_bytes(b"PK nothing")
    done = call("run", model[0], *arguments)
    assert (done.status, done.out) == (status, "") and says in done.err
    assert "Traceback" not in done.err


def test_what_is_no_model(call: Any, tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_text("no model")
    assert "this is not an ONNX model" in call("run", tmp_path / "x.onnx", "--random").err
    assert call("run", tmp_path / "none.onnx").status == 1
