"""Quantized models as ONNX: operators that runtimes compute in whole numbers, and back again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.export.demo.model import DigitNet
from fusewire.export.onnx.verify.compare import exact_options


def drawn(*shape: int, seed: int = 0) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


class Tokens(nn.Module):
    """An embedding, and linear layers over three axes, one without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.wide = nn.Embedding(50, 16), nn.Linear(16, 24)
        self.norm, self.out = nn.LayerNorm(24), nn.Linear(24, 7, bias=False)

    def forward(self, tokens: fw.Tensor) -> fw.Tensor:
        return self.out(self.norm(fw.relu(self.wide(self.table(tokens)))))


def tokens(seed: int) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(seed).integers(0, 50, (4, 6)))


MODELS: dict[str, Any] = {
    "digits": (DigitNet, lambda seed: drawn(3, 1, 8, 8, seed=seed)),
    "tokens": (Tokens, tokens),
    "groups": (lambda: nn.Conv2d(4, 8, (3, 2), stride=2, padding=(1, 0), dilation=(1, 2), groups=2),
               lambda seed: drawn(2, 4, 9, 9, seed=seed)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 2, 24, batch_first=True),
                lambda seed: drawn(2, 5, 16, seed=seed)),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(3, 4, 4, padding="same"), nn.ReLU(),
                                     nn.Conv1d(4, 2, 1, bias=False)),
               lambda seed: drawn(2, 3, 9, seed=seed)),
}
WAYS: dict[str, dict[str, Any]] = {"static": {}, "symmetric": {"symmetric": True},
                                   "dynamic": {"activations": "dynamic"}}


def made(model: str, way: str) -> tuple[nn.Module, list[fw.Tensor]]:
    fw.manual_seed(0)
    make, data = MODELS[model]
    given = [data(seed) for seed in range(3)]
    return fw.quantize(make(), given, **WAYS[way]).model, given


def session(path: Path, optimized: Path | None = None) -> Any:
    ort = pytest.importorskip("onnxruntime")
    options = exact_options()
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def kinds(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS)
def test_onnxruntime_agrees_and_a_loaded_model_too(model: str, way: str, tmp_path: Path) -> None:
    """Nearly all numbers are the same; where a rounding falls the other way, the next ones."""
    small, data = made(model, way)
    fw.onnx.export(small, (data[0],), tmp_path / "m.onnx")
    run, loaded = session(tmp_path / "m.onnx"), fw.onnx.load(tmp_path / "m.onnx")
    for x in data:
        wanted = small(x).numpy()
        for got in (run.run(None, {run.get_inputs()[0].name: x.numpy()})[0], loaded(x).numpy()):
            apart = np.abs(got - wanted) / np.abs(wanted).max()
            assert apart.max() < 2e-2 and np.median(apart) < 1e-6 and (apart > 1e-5).mean() < 0.05


def test_static_models_are_written_for_whole_kernels(tmp_path: Path) -> None:
    """Each product stands between QuantizeLinear and DequantizeLinear, its weight in int8; and
    onnxruntime makes whole products of all that give whole numbers again, or are matrices."""
    small, data = made("digits", "static")
    fw.onnx.export(small, (data[0],), tmp_path / "m.onnx")
    found = kinds(tmp_path / "m.onnx")
    assert found["QuantizeLinear"] == 4 and found["DequantizeLinear"] == 12
    assert found["Conv"] == found["Gemm"] == 2
    types = Counter(onnx.TensorProto.DataType.Name(x.data_type)
                    for x in onnx.load(tmp_path / "m.onnx").graph.initializer if len(x.dims) > 1)
    assert types == {"INT8": 4}, "no weight of floats is left"
    session(tmp_path / "m.onnx", tmp_path / "fast.onnx")
    fast = kinds(tmp_path / "fast.onnx")
    assert fast["QLinearConv"] == 2 and fast["QGemm"] == 2, fast


def test_dynamic_models_are_written_for_whole_kernels(tmp_path: Path) -> None:
    small, data = made("tokens", "dynamic")
    fw.onnx.export(small, (data[0],), tmp_path / "m.onnx")
    found = kinds(tmp_path / "m.onnx")
    assert found["DynamicQuantizeLinear"] == found["MatMulInteger"] == 2
    session(tmp_path / "m.onnx", tmp_path / "fast.onnx")
    assert kinds(tmp_path / "fast.onnx")["DynamicQuantizeMatMul"] == 2


@pytest.mark.parametrize("way", ["static", "dynamic"])
def test_sizes_may_vary(way: str, tmp_path: Path) -> None:
    small, data = made("tokens", way)
    fw.onnx.export(small, (data[0],), tmp_path / "m.onnx", dynamic_shapes={"tokens": {0: "n",
                                                                                     1: "l"}})
    run = session(tmp_path / "m.onnx")
    for shape in ((1, 3), (7, 2)):
        x = np.random.default_rng(1).integers(0, 50, shape)
        got = run.run(None, {run.get_inputs()[0].name: x})[0]
        np.testing.assert_allclose(got, small(fw.from_numpy(x)).numpy(), atol=2e-2)


def test_a_loaded_model_runs_compiled(tmp_path: Path) -> None:
    small, data = made("digits", "static")
    fw.onnx.export(small, (data[0],), tmp_path / "m.onnx")
    loaded = fw.compile(fw.onnx.load(tmp_path / "m.onnx"), fullgraph=True)
    for _ in range(2):
        np.testing.assert_allclose(loaded(data[1]).numpy(), small(data[1]).numpy(), atol=1e-2)


def test_models_of_float16_are_written_and_checked(tmp_path: Path) -> None:
    fw.manual_seed(0)
    data = [drawn(3, 1, 8, 8)]
    small = fw.quantize(DigitNet(), data, to="float16").model
    report = fw.onnx.export(small, (data[0],), tmp_path / "m.onnx")
    assert report.max_error is not None and report.max_error < 1e-2
    assert {onnx.TensorProto.DataType.Name(x.data_type)
            for x in onnx.load(tmp_path / "m.onnx").graph.initializer
            if len(x.dims) > 1} == {"FLOAT16"}


# ---- models from files
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS)
def test_a_loaded_model_is_quantized_like_any(model: str, way: str, tmp_path: Path) -> None:
    """Its products with weights become layers of a copy; the model itself stays as it was."""
    fw.manual_seed(0)
    make, data = MODELS[model]
    plain, given = make().eval(), [data(seed) for seed in range(3)]
    fw.onnx.export(plain, (given[0],), tmp_path / "plain.onnx")
    loaded = fw.onnx.load(tmp_path / "plain.onnx")
    source = loaded.to_python()
    small = fw.quantize(loaded, given, **WAYS[way])
    assert small.report.output.decibels is not None and small.report.output.decibels > 30
    assert loaded.to_python() == source and dict(loaded.named_parameters())
    compiled = fw.compile(fw.quantize(loaded, given, **WAYS[way]).model, fullgraph=True)
    fw.onnx.export(small.model, (given[0],), tmp_path / "small.onnx")
    again = fw.onnx.load(tmp_path / "small.onnx")
    for x in given:
        wanted = small.model(x).numpy()
        for got in (compiled(x).numpy(), again(x).numpy()):
            np.testing.assert_allclose(got, wanted, atol=2e-2 * np.abs(wanted).max())
    restored = fw.load_quantized(loaded, small.model.state_dict())
    np.testing.assert_array_equal(restored(given[0]).numpy(), small.model(given[0]).numpy())


def test_layers_of_a_loaded_model_have_the_names_of_its_weights(tmp_path: Path) -> None:
    given = [drawn(3, 1, 8, 8)]
    fw.onnx.export(DigitNet().eval(), (given[0],), tmp_path / "m.onnx")
    report = fw.quantize(fw.onnx.load(tmp_path / "m.onnx"), given, skip="conv1").report
    assert [x.name for x in report.layers] == ["conv2.weight", "linear1.weight", "linear2.weight"]
    assert report.kept == {"conv1.weight": "`skip` names it"}


TWICE = """<ir_version: 8, opset_import: ["": 18]> twice (float[2,3] x) => (float[2,3] y) {
    a = MatMul(x, w)
    b = MatMul(a, w)
    c = Gemm<alpha=2.0>(b, v, bias)
    d = Gemm<transA=1, transB=1>(c, u)
    e = MatMul(q, d)
    y = MatMul(e, last)
}"""


def test_products_without_a_layer_stay(tmp_path: Path) -> None:
    """A weight that is read twice, a factor before the product, an input that is turned, a weight
    on the left."""
    model, rng = onnx.parser.parse_model(TWICE), np.random.default_rng(0)
    sizes = {"w": (3, 3), "v": (3, 3), "bias": (3,), "u": (3, 2), "q": (2, 3), "last": (3, 3)}
    for name, shape in sizes.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(
            rng.standard_normal(shape).astype(np.float32), name))
    loaded, x = fw.onnx.load(model), drawn(2, 3)
    small = fw.quantize(loaded, [x])
    assert [layer.name for layer in small.report.layers] == ["last"]
    assert set(dict(small.model.named_parameters())) == {"w", "v", "bias", "u", "q"}
    assert small.report.output.decibels is not None and small.report.output.decibels > 30


def test_layers_that_share_a_weight_are_written_and_compared(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return self.layer(fw.relu(self.layer(x)))

    x = fw.rand(3, 64)
    small = fw.quantize(Twice(), [x]).model
    report = fw.onnx.export(small, (x,), tmp_path / "twice.onnx")
    assert report.max_error is not None and report.runner.startswith("onnxruntime")
    assert (tmp_path / "twice.onnx").stat().st_size < 2 * 64 * 64
