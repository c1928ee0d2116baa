"""Models with dtypes that are only stored: float8, and numbers of 4 and 2 bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from rows.codes import every_code, near_ties

import fusewire as fw
from fusewire.eager.arrays.dtypes import STORED, kind
from fusewire.export.onnx.load.runtime.casting import cast_to

EVERY = pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.name)
OPSETS = {"f": 19, "i": 21, "u": 21}  # the first ones that have the dtypes, of the kinds
NEWER = {"float4_e2m1fn": 23, "float8_e8m0fnu": 24, "int2": 25, "uint2": 25}

FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cast": lambda x, q, d: x.astype(d),
    "back": lambda x, q, d: q.astype(fw.float32) + x,
    "both": lambda x, q, d: x.astype(d).astype(fw.float32) + q.astype(fw.float32),
    "move": lambda x, q, d: (fw.concat([q.T, q.T[:1]])[1:, ::2], x),
    "where": lambda x, q, d: fw.where(x > 0, q, q.flip(0)),
    "equal": lambda x, q, d: (q == q[0], x),
    "take": lambda x, q, d: (q[fw.tensor([1, 0])], x),
    "constant": lambda x, q, d: (fw.full((2,), 1, dtype=d), CONSTANT.astype(d), x),
    "pad": lambda x, q, d: (fw.pad(q, ((1, 1), (0, 0))), x),
}
CONSTANT = fw.arange(12).reshape(3, 4)


def bits(x: Any) -> Any:
    return np.ascontiguousarray(x.numpy()).view(np.uint8)


@EVERY
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_model_is_written_verified_and_read(name: str, dtype: Any, tmp_path: Path) -> None:
    x = fw.from_numpy(np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32) * 3)
    q, path = x.astype(dtype), tmp_path / "model.onnx"
    opset = NEWER.get(dtype.name, OPSETS[kind(dtype)])
    report = fw.onnx.export(lambda x, q: FUNCTIONS[name](x, q, dtype), (x, q), path, opset=opset)
    assert report.max_error is not None
    model = fw.onnx.load(path)
    expected = FUNCTIONS[name](x, q, dtype)
    expected = expected if isinstance(expected, tuple) else (expected,)
    inputs = [{"x": x, "q": q}[i.partition(":")[0]] for i in report.inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of what is not compiled
        for run in (model, fw.compile(model, fullgraph=True)):
            got = run(*inputs)
            for a, b in zip(got if isinstance(got, (tuple, list)) else (got,), expected):
                np.testing.assert_array_equal(bits(a), bits(b))


@EVERY
def test_an_older_opset_has_no_such_dtype(dtype: Any, tmp_path: Path) -> None:
    with pytest.raises(fw.ExportError, match=rf"ONNX has no {dtype.name} in opset 18[\s\S]*later"):
        fw.onnx.export(lambda x: x.astype(dtype), (fw.ones(3),), tmp_path / "x.onnx")


@pytest.mark.parametrize("dtype", [d for d, k in STORED.items() if k == "f"], ids=lambda d: d.name)
@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_casts_of_the_standard(dtype: Any, saturate: bool, mode: str) -> None:
    """onnx's own casts are the reference. Eager and compiled."""
    x = near_ties(dtype)
    with np.errstate(all="ignore"):
        if dtype.name == "float8_e8m0fnu":
            expected = numpy_helper.to_float8e8m0(x, saturate, mode)
        elif saturate and dtype.name != "float4_e2m1fn":
            expected = numpy_helper.saturate_cast(x, dtype)
        else:
            expected = x.astype(dtype)

    def cast(x: Any) -> Any:
        return cast_to(x, dtype.name, saturate, mode)

    compiled = fw.compile(cast, fullgraph=True)
    for got in (cast(fw.from_numpy(x)), compiled(fw.from_numpy(x)), compiled(fw.from_numpy(x))):
        np.testing.assert_array_equal(got.numpy().view(np.uint8), expected.view(np.uint8))


@EVERY
def test_weights_of_a_file_are_tensors(dtype: Any) -> None:
    """They are packed in the file, and have a byte for each number here."""
    array = np.resize(every_code(dtype), 12).view(dtype).reshape(3, 4)
    weight = numpy_helper.from_array(array, "weight")
    graph = helper.make_graph(
        [helper.make_node("Cast", ["weight"], ["y"], to=TensorProto.FLOAT)], "g", [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, 4))], [weight])
    model = fw.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]))
    assert model.state_dict()["weight"].dtype == dtype and not list(model.parameters())
    np.testing.assert_array_equal(model().numpy(), array.astype(np.float32))
