"""Whole models: their sizes vary, and what runtimes have kernels for is written whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import MODELS

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.export.onnx import export

TOKENS = {0: "n", 1: "t"}
DYNAMIC: dict[str, Any] = {
    "GPT-2": (TOKENS,), "BERT": (TOKENS,) * 3, "Llama": (TOKENS,), "Whisper": ({0: "n"}, TOKENS),
    "ViT": ({0: "n"},), "ResNet-18": ({0: "n", 2: "h", 3: "w"},), "U-Net": ({0: "n"}, {0: "n"}),
}
# Operators of a kind in the model, of opsets 18 and 23.
WHOLE: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "GPT-2": ({"LayerNormalization": 7, "Softmax": 3, "MatMul": 19, "Tanh": 3},
              {"LayerNormalization": 7, "Attention": 3, "MatMul": 13, "Gelu": 3}),
    "BERT": ({"LayerNormalization": 7, "Softmax": 3, "Erf": 3},
             {"LayerNormalization": 7, "Attention": 3, "Gelu": 3, "Erf": 0}),
    "Llama": ({"ReduceMean": 7, "Sqrt": 7, "Softmax": 3},
              {"RMSNormalization": 7, "ReduceMean": 0, "Attention": 3}),
    "U-Net": ({"InstanceNormalization": 21, "Conv": 25}, {"InstanceNormalization": 21}),
    "ResNet-18": ({"Conv": 20, "Gemm": 1, "MaxPool": 1}, {"Conv": 20}),
}


def operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("name", DYNAMIC)
def test_models(name: str, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    fw.manual_seed(0)
    model = MODELS[name]
    report = export(model.make(), tuple(map(fw.tensor, model.inputs)), path, opset=opset,
                    dynamic_shapes=DYNAMIC[name])
    assert len(report.checked_sizes) >= 2 and report.notes == ()
    assert report.max_error is not None and report.max_error < 1e-4
    found, wanted = operators(path), WHOLE.get(name, ({}, {}))[opset == 23]
    assert {kind: found[kind] for kind in wanted} == wanted


NORMS: dict[str, tuple[Any, tuple[int, ...], list[str]]] = {
    "with both": (nn.LayerNorm(6), (2, 3, 6), ["LayerNormalization"]),
    "without bias": (nn.LayerNorm(6, bias=False), (2, 3, 6), ["LayerNormalization"]),
    "of two axes": (nn.LayerNorm((3, 6)), (2, 3, 6), ["LayerNormalization"]),
    "plain": (nn.LayerNorm(6, elementwise_affine=False), (2, 6), ["LayerNormalization"]),
    "by instance": (nn.InstanceNorm2d(3), (2, 3, 4, 4), ["InstanceNormalization"]),
    "the reused product": (lambda x: (F.layer_norm(x, (6,)) * x).relu(), (2, 6),
                           ["LayerNormalization", "Mul", "Relu"]),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_are_one_operator(name: str, tmp_path: Path) -> None:
    fn, shape, wanted = NORMS[name]
    path = tmp_path / "model.onnx"
    x = fw.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    export(fn, (x,), path)
    assert list(operators(path).elements()) == wanted


ONE_OPERATOR: dict[str, tuple[Any, tuple[int, ...], list[str]]] = {
    "relu6": (nn.ReLU6(), (2, 5), ["Clip"]),
    "clip": (lambda x: fw.clip(x, -0.5, 0.5), (2, 5), ["Clip"]),
    "clip to what is computed": (lambda x: fw.minimum(fw.maximum(x, x.mean()), 2.0), (2, 5),
                                 ["ReduceMean", "Max", "Min"]),
    "hardsigmoid": (nn.Hardsigmoid(), (2, 5), ["HardSigmoid"]),
    "hardswish": (nn.Hardswish(), (2, 5), ["HardSwish"]),
    "mish": (nn.Mish(), (2, 5), ["Softplus", "Tanh", "Mul"]),
    "prelu": (nn.PReLU(5, 0.3), (2, 5, 4), ["PRelu"]),
    "relu with a slope, read twice": (lambda x: fw.where(x > 0, x, x * x), (2, 5),
                                      ["Greater", "Mul", "Where"]),
    "mean of windows": (nn.AvgPool2d(2), (1, 3, 6, 4), ["AveragePool"]),
    "mean of all": (nn.AdaptiveAvgPool2d(1), (1, 3, 6, 4), ["ReduceMean"]),
    "more pixels": (nn.Upsample(scale_factor=2), (1, 3, 4, 5), ["Resize"]),
    "more pixels one way": (nn.Upsample(scale_factor=(1, 3)), (1, 3, 4, 5), ["Resize"]),
    "more pixels of one": (nn.Upsample(scale_factor=(3, 2)), (1, 3, 1, 5), ["Resize"]),
}
BETWEEN: dict[str, Any] = {
    "up": nn.Upsample(scale_factor=2, mode="bilinear"),
    "to corners": nn.Upsample((7, 9), mode="bilinear", align_corners=True),
    "down one way": nn.Upsample((2, 9), mode="bilinear"),
    "one axis": nn.Upsample((4, 9), mode="bilinear"),
    "to one": nn.Upsample((1, 1), mode="bilinear"),
}


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("name", BETWEEN)
def test_pixels_between_pixels(name: str, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    x = fw.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32))
    export(BETWEEN[name], (x,), path, dynamic_shapes=({0: "n"},), opset=opset)
    found = operators(path)
    assert found["Resize"] == 1 and found["Gather"] == 0
    loaded, wanted = fw.onnx.load(path), BETWEEN[name](x)
    np.testing.assert_allclose(loaded(x).numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_pixels_that_are_read_otherwise(tmp_path: Path) -> None:
    """A sum of elements taken and weighted that no mode of Resize gives stays one."""
    path = tmp_path / "model.onnx"
    at, shares = fw.tensor([0, 1, 1, 2]), fw.tensor([[0.3], [0.2], [0.1], [0.4]])
    x = fw.reshape(fw.arange(24.0), (1, 2, 4, 3))
    export(lambda x: fw.take(x, at, axis=2) * shares + fw.take(x, at + 1, axis=2) * (1 - shares),
           (x,), path)
    assert operators(path)["Resize"] == 0


@pytest.mark.parametrize("sizes", ["fixed", "varying"])
@pytest.mark.parametrize("name", ONE_OPERATOR)
def test_what_runtimes_have_is_one_operator(name: str, sizes: str, tmp_path: Path) -> None:
    fn, shape, wanted = ONE_OPERATOR[name]
    path = tmp_path / "model.onnx"
    x = fw.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 3)
    varying = {0: "n"} | ({3: "width"} if len(shape) == 4 else {})
    export(fn, (x,), path, dynamic_shapes=(varying,) if sizes == "varying" else None)
    assert list(operators(path).elements()) == wanted


@pytest.mark.parametrize("fn", [
    lambda x: fw.repeat(x, 2, axis=1), lambda x: fw.tile(x, (1, 1, 2, 1)),
    lambda x: fw.reshape(fw.repeat(x, 2, axis=2), (1, 3, 10, 4))])
def test_other_repetitions_are_no_pixels(fn: Any, tmp_path: Path) -> None:
    export(fn, (fw.reshape(fw.arange(60.0), (1, 3, 4, 5)),), tmp_path / "model.onnx")
    assert "Resize" not in operators(tmp_path / "model.onnx")


def test_norms_of_float64_are_exact(tmp_path: Path) -> None:
    """The operator computes in float32."""
    path = tmp_path / "model.onnx"
    export(nn.LayerNorm(6).to(fw.float64), (fw.ones(2, 6, dtype=fw.float64),), path)
    assert "LayerNormalization" not in operators(path)


def test_onnxruntime_finds_its_kernels(tmp_path: Path) -> None:
    """It has one for a whole GELU, if that is written as it expects."""
    ort = pytest.importorskip("onnxruntime")
    path, found = tmp_path / "model.onnx", tmp_path / "optimized.onnx"
    for fn, kind in ((nn.Sequential(nn.Linear(8, 8), nn.GELU()), "Gelu"),
                     (nn.Sequential(nn.Linear(8, 8), nn.GELU("tanh"), nn.Linear(8, 8)),
                      "FastGelu"),
                     (nn.RMSNorm(8), "SimplifiedLayerNorm")):
        export(fn, (fw.ones(2, 3, 8),), path, dynamic_shapes=({0: "n", 1: "t"},))
        options = ort.SessionOptions()
        options.optimized_model_filepath, options.log_severity_level = str(found), 4
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        assert any(kind in name for name in operators(found)), (kind, operators(found))


# ---- optimize
def used(net: nn.Module) -> nn.Module:
    """The net with statistics and weights of batch norms that are no ones and zeros."""
    rng = np.random.default_rng(0)
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            for tensor in (module.running_mean, module.running_var, module.weight, module.bias):
                values = rng.uniform(0.5, 1.5, tensor.shape).astype(np.float32)
                tensor._data = values
    return net.eval()


FOLDED: dict[str, tuple[Any, tuple[int, ...], list[str]]] = {
    "conv": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), (2, 3, 8, 8),
             ["Conv", "Relu"]),
    "conv without bias": (nn.Sequential(nn.Conv2d(4, 4, 3, bias=False, groups=2),
                                        nn.BatchNorm2d(4)), (2, 4, 8, 8), ["Conv"]),
    "linear": (nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)), (2, 6), ["Gemm"]),
    "linear without bias": (nn.Sequential(nn.Linear(6, 4, bias=False), nn.BatchNorm1d(4)), (2, 6),
                            ["Gemm"]),
    "read twice": (lambda x: read_twice(x), (2, 6), ["Gemm", "Mul", "Add", "Add"]),
}
FIRST, SECOND = nn.Linear(6, 4), used(nn.BatchNorm1d(4))


def read_twice(x: fw.Tensor) -> fw.Tensor:
    y = FIRST(x)
    return y + SECOND(y)


@pytest.mark.parametrize("name", FOLDED)
def test_batch_norms_vanish(name: str, tmp_path: Path) -> None:
    fn, shape, wanted = FOLDED[name]
    path = tmp_path / "model.onnx"
    x = fw.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    export(used(fn) if isinstance(fn, nn.Module) else fn, (x,), path, optimize=True)
    assert list(operators(path).elements()) == wanted


def test_a_whole_network_without_batch_norms(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = MODELS["ResNet-14"]
    export(used(model.make()), tuple(map(fw.tensor, model.inputs)), path, optimize=True,
           dynamic_shapes=({0: "n"},))
    found = operators(path)
    assert found["Mul"] == 0 and found["Conv"] == 17 and found["Add"] == 4
