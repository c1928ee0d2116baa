"""A model has code for every batch size before it is served, and its rows do not mix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.serving import Model
from fusewire.serving.base.failures import RequestError

ROW = {"x": np.zeros((1, 4), np.float32)}


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_every_bucket_is_compiled_before_the_first_request() -> None:
    model = Model(fw.nn.Linear(4, 2), {"input": fw.zeros(1, 4)}, max_batch=6).load()
    assert model.buckets == (1, 2, 4, 6)
    assert [model.bucket(rows) for rows in range(1, 7)] == [1, 2, 4, 4, 6, 6]
    before = model.recordings
    for rows in model.buckets:
        assert model.run([normal(rows, 4)])[0].shape == (rows, 2)
    assert model.recordings == before == 4


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: x - x.mean(0), "row 0 of a batch changes"),
    (lambda x: x + fw.rand(*x.shape), "row 0 of a batch changes"),
    (lambda x: fw.flip(x, axis=0), "row 0 of a batch changes"),
    (lambda x: fw.softmax(x, 0), "row 0 of a batch changes"),
    (lambda x: x / x.shape[0], "row 0 alone and in a batch of 2 differ"),
    (lambda x: x.sum(0), "output 0 of 1 rows has the shape"),
    (lambda x: x.sum(), "output 0 of 1 rows has the shape"),
])
def test_functions_whose_rows_mix_are_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(fw.ArgumentError, match=message):
        Model(function, ROW, max_batch=4).load()
    assert Model(function, ROW, max_batch=0).load().max_batch == 0


def test_a_module_is_served_in_eval_mode() -> None:
    module = fw.nn.Sequential(fw.nn.Linear(4, 4), fw.nn.Dropout(0.5), fw.nn.BatchNorm1d(4))
    Model(module, {"input": fw.zeros(1, 4)}, max_batch=2).load()


def test_batch_norms_in_training_mode_mix_rows() -> None:
    module = fw.nn.BatchNorm1d(4)
    with pytest.raises((fw.ArgumentError, fw.ShapeError)):
        Model(lambda x: module(x), ROW, max_batch=2).load()


def test_a_batch_has_one_shape_of_those_that_are_served() -> None:
    examples = [{"x": normal(1, n)} for n in (4, 8)]
    model = Model(lambda x: x.sum(1), examples, max_batch=2).load()
    assert [spec.shape for spec in model.inputs] == [(-1, -1)]
    assert model.check([normal(2, 8)]) == 2
    with pytest.raises(RequestError, match=r"the shapes are x \[1, 5\]; the model takes x \[n, 4\]"
                       r" or x \[n, 8\]"):
        model.check([normal(1, 5)])
    with pytest.raises(RequestError, match="3 rows; send 1 to 2"):
        model.check([normal(3, 4)])


def test_an_onnx_model_knows_its_inputs(tmp_path: Path) -> None:
    fw.onnx.export(lambda x: {"y": x * 2}, (fw.tensor(normal(2, 3, 5)),), tmp_path / "m.onnx",
                   input_names=["x"], output_names=["y"],
                   dynamic_shapes={"x": {0: "batch", 1: "length"}})
    loaded = fw.onnx.load(tmp_path / "m.onnx")
    with pytest.raises(fw.ArgumentError, match=r"(?s)any size of length.*--size length=16,32"):
        Model(loaded)
    model = Model(loaded, max_batch=2, sizes={"length": (3, 4)}).load()
    assert [str(spec) for spec in (*model.inputs, *model.outputs)] == [
        "'x' FP32[-1, -1, 5]", "'y' FP32[-1, -1, 5]"]


def test_an_onnx_model_of_fixed_sizes_runs_requests_alone(tmp_path: Path) -> None:
    fw.onnx.export(lambda x: x * 2, (fw.tensor(normal(2, 3)),), tmp_path / "m.onnx",
                   input_names=["x"])
    model = Model(fw.onnx.load(tmp_path / "m.onnx")).load()
    assert (model.max_batch, model.inputs[0].shape) == (0, (2, 3))


@pytest.mark.parametrize("dynamic", [False, {"x": [0]}])
def test_a_saved_program_serves_the_sizes_that_it_was_saved_for(tmp_path: Path, dynamic: Any
                                                               ) -> None:
    def double(x: Any) -> Any:
        return x * 2

    compiled = fw.compile(double, dynamic=dynamic)
    for rows in (1, 2, 8):
        for _ in range(2):
            compiled(fw.ones(rows, 3))
    compiled.save(tmp_path / "double.fw")
    model = Model(fw.load_compiled(tmp_path / "double.fw"), max_batch=8 if dynamic else None)
    assert model.load().buckets == ((1, 2, 4, 8) if dynamic else (1, 2, 8))
    assert np.array_equal(model.run([normal(8, 3)])[0], normal(8, 3) * 2)


@pytest.mark.parametrize(("arguments", "message"), [
    ((3,), "a int cannot be served"),
    ((lambda x: x,), "the inputs of a function are not known"),
    ((lambda x: x, {"y": fw.ones(1)}), "does not take the inputs y"),
    ((lambda x: x, {"x": fw.ones(1, dtype=fw.complex64)}), "has the dtype complex64"),
])
def test_what_cannot_be_served_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(fw.ArgumentError, match=message):
        Model(*arguments)
