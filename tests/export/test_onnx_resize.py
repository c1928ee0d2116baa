"""Images of sizes that vary, made larger or smaller: the models hold at other sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.export.onnx import export
from fusewire.export.onnx.verify import compare

# From what it is made for (5, 6): even, odd, the same as in a fixed size, few.
SPACES = ((2, 2), (8, 7), (4, 9), (17, 3))
HOW: list[dict[str, Any]] = [
    {"mode": "nearest"}, {"mode": "nearest-exact"}, {"mode": "area"},
    *({"mode": f"bi{kind}", "align_corners": corners} for kind in ("linear", "cubic")
      for corners in (False, True)),
    *({"mode": f"bi{kind}", "antialias": True} for kind in ("linear", "cubic"))]
TO: dict[str, Any] = {
    "twice": lambda h, w: {"scale_factor": 2}, "half as much again": lambda h, w: {
        "scale_factor": 1.5}, "half": lambda h, w: {"scale_factor": 0.5},
    "a fixed size": lambda h, w: {"size": (8, 7)}, "others": lambda h, w: {
        "size": (h // 2 + 3, w * 2 - 1)}, "one": lambda h, w: {"size": (1, w + 1)},
}


def image(space: Any) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((2, 3, *space)).astype(np.float32)


def check(fn: Any, path: Path) -> tuple[str, ...]:
    """Exports for any space, compares at others; what the report says the model holds for."""
    report = export(fn, (fw.tensor(image((5, 6))),), path, input_names=["x"],
                    dynamic_shapes=({2: "h", 3: "w"},))
    run = compare.runner(path.read_bytes()).run
    for x in map(image, SPACES):
        np.testing.assert_allclose(run({"x": x})[0], fn(fw.tensor(x)).numpy(), 1e-4, 1e-5,
                                   err_msg=str(x.shape))
    return report.conditions


@pytest.mark.parametrize("to", TO)
@pytest.mark.parametrize("how", HOW, ids=lambda how: " ".join(map(str, how.values())))
def test_space_that_varies(how: dict[str, Any], to: str, tmp_path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        return F.interpolate(x, **how, **TO[to](*x.shape[2:]))

    found = check(fn, tmp_path / "model.onnx")
    assert to == "half" or found == ()


def test_a_factor_that_is_rounded_is_named(tmp_path: Path) -> None:
    with pytest.raises(fw.ExportError, match="the size `h` was fixed to 5") as caught:
        check(lambda x: F.interpolate(x, scale_factor=1.1), tmp_path / "model.onnx")
    assert Path(__file__).name in str(caught.value.line)


def resize(sizes: str, **how: Any) -> onnx.ModelProto:
    """A model of a Resize: by factors, to a fixed size, or by two pixels."""
    def ints(*values: int) -> onnx.NodeProto:
        return helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(
            np.array(values)))

    head = helper.make_node("Shape", ["x"], ["head"], end=2)
    nodes = {
        "factors": [helper.make_node("Constant", [], ["k"], value_floats=[1.0, 1.0, 2.0, 1.5]),
                    helper.make_node("Resize", ["x", "", "k"], ["y"], **how)],
        "fixed": [ints(8, 7), head, helper.make_node("Concat", ["head", "s"], ["z"], axis=0),
                  helper.make_node("Resize", ["x", "", "", "z"], ["y"], **how)],
        "more": [ints(0, 0, 2, 2), helper.make_node("Shape", ["x"], ["n"]),
                 helper.make_node("Add", ["n", "s"], ["z"]),
                 helper.make_node("Resize", ["x", "", "", "z"], ["y"], **how)]}
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, None, None])
                   for name in "xy")
    return helper.make_model(helper.make_graph(nodes[sizes], "g", [given], [made]), ir_version=8,
                             opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.parametrize("sizes", ["factors", "fixed", "more"])
@pytest.mark.parametrize("places", ["half_pixel", "pytorch_half_pixel", "align_corners",
                                    "asymmetric", "half_pixel_symmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_that_was_loaded(mode: str, places: str, sizes: str, tmp_path: Path) -> None:
    model = resize(sizes, mode=mode, coordinate_transformation_mode=places)
    loaded = fw.onnx.load(model)
    assert check(loaded, tmp_path / "again.onnx") == ()
    # onnxruntime knows no symmetric ones, and takes factors as the sizes that they are rounded to
    if places != "half_pixel_symmetric" and (places, sizes) != ("align_corners", "factors"):
        run = compare.runner(model.SerializeToString()).run
        for x in map(image, ((5, 6), *SPACES)):
            np.testing.assert_allclose(loaded(fw.tensor(x)).numpy(), run({"x": x})[0], 1e-4, 1e-5)
