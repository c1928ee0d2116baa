"""Functions and modules as ONNX files: names, sizes that vary, checks, and clear refusals."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.export.demo.model import DigitNet
from fusewire.export.onnx import ExportReport, export
from fusewire.export.onnx.verify import compare

BATCH = {"x": {0: "batch"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


def x(*shape: int) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32))


def ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def shapes(values: Any) -> dict[str, list[Any]]:
    return {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in values}


def initializers(path: Path) -> set[str]:
    return {i.name for i in onnx.load(path).graph.initializer}


# ---- writes
def test_writes_through_views(path: Path) -> None:
    def fn(x: fw.Tensor, row: fw.Tensor) -> tuple[fw.Tensor, ...]:
        table = x * 2
        table[1:3].mul_(3)
        table.T[0].add_(row)
        flat = table.reshape(-1)
        flat[::4] = row
        return table[2], flat, table

    report = export(fn, (x(4, 4), x(4)), path)
    assert report.max_error is not None and report.max_error < 1e-6
    assert "If" not in ops(path) and "Loop" not in ops(path)


# ---- models
def test_the_demo(path: Path) -> None:
    net = DigitNet()
    report = export(net, (x(8, 1, 8, 8),), path, dynamic_shapes={"images": {0: "batch"}})
    assert report.checked_sizes == ({"batch": 8}, {"batch": 5}, {"batch": 1})
    assert report.max_error is not None and report.max_error < 1e-5
    assert report.conditions == () and report.notes == ()
    assert ops(path) == ["Conv", "Relu", "Conv", "Relu", "MaxPool", "Reshape", "Gemm", "Relu",
                         "Gemm"]
    model = onnx.load(path)
    assert shapes(model.graph.input) == {"images": ["batch", 1, 8, 8]}
    assert shapes(model.graph.output) == {"output": ["batch", 10]}
    assert set(net.state_dict()) <= initializers(path)
    assert (model.ir_version, model.opset_import[0].version) == (8, 18)
    assert model.producer_name == "fusewire" and model.producer_version
    assert {node.doc_string.split(":")[0] for node in model.graph.node} == {"model.py"}
    assert net.training, "the module is put back into the mode it was in"


def test_the_file_computes_what_the_model_does(path: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3)).eval()
    export(net, (x(4, 6),), path, input_names=["x"], dynamic_shapes=BATCH)
    run = compare.runner(path.read_bytes()).run
    for n in (1, 2, 64):
        given = x(n, 6)
        with fw.no_grad():
            want = net(given).numpy()
        np.testing.assert_allclose(run({"x": given.numpy()})[0], want, rtol=1e-5, atol=1e-6)


class Attention(nn.Module):
    """A block of a small transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("scale", fw.tensor(0.5))

    def forward(self, tokens: fw.Tensor, mask: fw.Tensor) -> fw.Tensor:
        b, t, _ = tokens.shape
        q, k, v = (self.qkv(tokens)[:, :, i * 8:i * 8 + 8].reshape(b, t, 2, 4)
                   .permute_dims(0, 2, 1, 3) for i in range(3))
        scores = q @ k.mT * self.scale + fw.where(mask[:, None, None], 0.0, -1e9)
        return self.out((scores.softmax(-1) @ v).permute_dims(0, 2, 1, 3).reshape(b, t, -1))


def test_attention_with_two_sizes(path: Path) -> None:
    mask = fw.tensor([[True] * 5, [True] * 3 + [False] * 2])
    report = export(Attention(), (x(2, 5, 8), mask), path, dynamic_shapes=(
        {0: "batch", 1: "tokens"}, {0: "batch", 1: "tokens"}))
    assert len(report.checked_sizes) >= 2 and report.conditions == ()
    model = onnx.load(path)
    assert shapes(model.graph.output) == {"output": ["batch", "tokens", 8]}
    assert "Range" not in ops(path) and ops(path).count("MatMul") == 4
    assert {"qkv.weight.T", "qkv.bias", "out.weight.T", "out.bias", "scale"} <= initializers(path)


def test_an_example_of_one_stands_for_any(path: Path) -> None:
    report = export(nn.Linear(6, 3), (x(1, 6),), path,
                    dynamic_shapes={"input": {0: "batch"}})
    assert report.checked_sizes == ({"batch": 1}, {"batch": 5})
    assert ops(path) == ["Gemm"]


# ---- names and structure
class Pair(NamedTuple):
    left: fw.Tensor
    right: fw.Tensor


def test_names_of_arguments_and_results(path: Path) -> None:
    def fn(image: fw.Tensor, state: Any, *, scale: float = 2.0) -> Any:
        h, c = state
        return {"out": image * scale + h, "state": Pair(h + 1, c * 2), "same": image}

    report = export(fn, {"image": x(2, 3), "state": (x(2, 3), x(2, 3)), "scale": 3.0}, path)
    assert report.inputs == ("image", "state_0", "state_1")
    assert report.outputs == ("out", "state_left", "state_right", "same")
    assert tuple(v.name for v in onnx.load(path).graph.input) == report.inputs


def test_names_of_our_choice(path: Path) -> None:
    report = export(lambda a, b: (a + b, a - b), (x(2, 3), x(2, 3)), path,
                    input_names=["first", "second"], output_names=["sum", "difference"],
                    dynamic_shapes={"first": {0: "n"}, "b": {0: "n"}})
    assert report.inputs == ("first", "second") and report.outputs == ("sum", "difference")
    assert shapes(onnx.load(path).graph.output) == {"sum": ["n", 3], "difference": ["n", 3]}


def test_many_outputs_and_values_returned_as_they_came(path: Path) -> None:
    constant = x(2)
    report = export(lambda x: [x, (x + 1, x + 1), constant, None], (x(4, 6),), path)
    assert report.outputs == ("output", "output_1", "output_2", "output_3")


@pytest.mark.parametrize("dynamic", [
    {"x": {0: "n"}, "y": {1: "n"}}, {"x": {-2: "n"}, "y": ("m", "n")}, ({0: "n"}, [None, "n"]),
    ({0: "n"},), {"x": ["n", None]}, {"x": [0], "y": [1]}, {"y": {1: type("n", (), {})}},
])
def test_spellings_of_dynamic_shapes(dynamic: Any, path: Path) -> None:
    report = export(lambda x, y: x.sum(1)[:, None] * y.sum(), (x(4, 6), x(5, 4)), path,
                    dynamic_shapes=dynamic)
    assert report.checked_sizes[0]


def test_nested_and_torchs_spelling(path: Path) -> None:
    export(lambda parts: parts["a"] + parts["b"], ({"a": x(4, 6), "b": x(4, 6)},), path,
           dynamic_shapes={"parts": {"a": {0: "n"}, "b": {0: "n"}}})
    assert shapes(onnx.load(path).graph.input) == {"parts_a": ["n", 6], "parts_b": ["n", 6]}
    export(nn.ReLU(), x(4, 6), path, input_names=["input"], output_names=["out"],
           dynamic_axes={"input": {0: "n"}, "out": {0: "n"}})
    assert shapes(onnx.load(path).graph.output) == {"out": ["n", 6]}


def test_methods_closures_and_compiled_functions(path: Path) -> None:
    net = Attention()
    export(net.out.forward, x(2, 8), path)
    assert {"weight", "bias"} <= initializers(path)
    export(lambda x: net.out(x), x(2, 8), path)
    assert any("out.weight" in name for name in initializers(path))
    export(fw.compile(lambda x: x * 2), x(2, 8), path)
    assert ops(path) == ["Mul"]
    report = export(lambda: fw.ones(3) * 2, (), path)
    assert report.inputs == ()


def test_equal_names_are_told_apart(path: Path) -> None:
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    export(lambda weight: second(first(weight)), x(2, 6), path)
    assert initializers(path) == {"first.weight", "first.bias", "second.weight", "second.bias"}
    export(lambda weight: first(weight), x(2, 6), path)
    assert initializers(path) == {"weight_1", "bias"}


def test_an_argument_that_is_not_used_stays(path: Path) -> None:
    export(lambda x, y: x * 2, (x(2), x(3)), path, dynamic_shapes={"y": {0: "n"}})
    assert shapes(onnx.load(path).graph.input) == {"x": [2], "y": ["n"]}


def test_dropout_is_left_out_and_modes_come_back(path: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5))
    net.get_submodule("0").eval()
    export(lambda x: net(x), x(2, 6), path)
    assert "Mul" not in ops(path)
    assert [m.training for m in net.modules()] == [True, False, True]


def test_tied_weights_are_one_initializer(path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(6, 6)
            self.b = nn.Linear(6, 6)
            self.b.weight = self.a.weight

        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return self.b(self.a(x))

    export(Tied(), x(2, 6), path)
    assert initializers(path) == {"a.weight", "a.bias", "b.bias"}


# ---- state
def test_state_is_refused_by_name(path: Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", fw.zeros(1))

        def forward(self, x: fw.Tensor) -> fw.Tensor:
            self.seen += 1
            return x + self.seen

    net = Counter()
    with pytest.raises(fw.ExportError, match="`seen` is changed in place, and a model holds no"):
        export(net, x(2, 6), path)
    assert net.seen.tolist() == [0.0], "what the run changed is put back"


def test_hidden_tensors_are_refused_and_caches_noted(path: Path) -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.h: Any = fw.zeros(6)
            self.cache: dict[str, Any] = {}
            self.calls = 0

        def forward(self, x: fw.Tensor, keep: bool) -> fw.Tensor:
            self.calls += 1
            self.cache["ones"] = fw.ones(6)
            if keep:
                self.h = self.h + x.sum(0)
            return x + self.h + self.cache["ones"]

    net = Hidden()
    with pytest.raises(fw.ExportError, match="`h` holds another tensor after the call"):
        export(net, (x(2, 6), True), path)
    report = export(net, (x(2, 6), False), path)
    assert any("the function changes calls; the model does not" in note for note in report.notes)
    assert net.calls == 0 and net.cache == {}


# ---- refusals
@pytest.mark.parametrize(("fn", "words"), [
    (lambda x: x * float(x.sum()), "float() hands a tensor's values to Python"),
    (lambda x: x * math.sqrt(x.sum().item()), "is used here as a plain number"),
    (lambda x: fw.from_numpy(np.sort(x.numpy())), "NumPy hands a tensor's values to Python"),
    (lambda x: x.sum().item, "the function returns a builtin_function_or_method"),
    (lambda x: (x, 3), "the function returns a int"),
    (lambda x: None, "the function returns no tensor"),
    (lambda x: x + fw.rand(2, 6), "uniform cannot be written to ONNX"),
    (lambda x: x.astype(fw.complex64) * x, "cannot be written to ONNX: ONNX cannot cast"),
])
def test_what_a_model_cannot_do(fn: Any, words: str, path: Path) -> None:
    words = words.replace("builtin_function_or_method", "method")
    with pytest.raises(fw.ExportError) as caught:
        export(fn, x(2, 6), path)
    assert words in str(caught.value) and "help: " in str(caught.value)
    assert not path.exists()


def test_numbers_of_constants_may_leave(path: Path) -> None:
    scale = fw.tensor(2.0)
    export(lambda x: x * scale.item() if scale > 1 else x, x(2, 6), path)


@pytest.mark.parametrize(("arguments", "more", "words"), [
    ((3,), {}, "contain no tensor"), ((np.ones(3),), {}, "x is a NumPy array"),
    ((x(2), x(2)), {}, "do not fit"), ((x(2),), {"opset": 12}, "opset 12 is not supported"),
    ((x(2),), {"opset": "18"}, "is not supported"),
    ((x(2),), {"input_names": ["a", "b"]}, "does not name the 1 tensor arguments x"),
    ((x(2),), {"output_names": ["a", "b"]}, "do not name the 1 outputs"),
    ((x(2),), {"output_names": ["x"]}, "other than the names of inputs"),
    ((x(2),), {"dynamic_shapes": {"y": {0: "n"}}}, "names 'y', which is not an argument"),
    ((x(2),), {"dynamic_shapes": {"x": {1: "n"}}}, "has no axis 1"),
    ((x(2),), {"dynamic_shapes": {"x": {0: "a b"}}}, "cannot be named 'a b'"),
    ((x(2),), {"dynamic_shapes": {"x": {0: 3}}}, "cannot be named 3"),
    ((x(2),), {"dynamic_shapes": 3}, "must be a dictionary by argument name or a tuple"),
    ((x(2),), {"dynamic_shapes": ({}, {})}, "must be a dictionary by argument name or a tuple"),
    ((x(0),), {"dynamic_shapes": {"x": {0: "n"}}}, "empty in the example"),
    ((x(2),), {"dynamic_shapes": {}, "dynamic_axes": {}}, "two names of one setting"),
])
def test_wrong_arguments(arguments: Any, more: Any, words: str, path: Path) -> None:
    with pytest.raises(fw.FusewireError) as caught:
        export(lambda x: x * 1.5, arguments, path, **more)
    assert words in str(caught.value) and "help: " in str(caught.value)
    assert not path.exists()


def test_wrong_function_and_folder(tmp_path: Path) -> None:
    with pytest.raises(fw.ExportError, match="expected a function or a module, got int"):
        export(3, x(2), tmp_path / "m.onnx")  # type: ignore[arg-type]
    with pytest.raises(fw.ExportError, match="there is no folder"):
        export(lambda x: x * 2, x(2), tmp_path / "no" / "m.onnx")


def test_the_users_own_error_comes_through(path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        export(fn, x(2), path)


# ---- verification and the file
def test_a_wrong_model_is_never_written(path: Path) -> None:
    path.write_bytes(b"before")
    calls = itertools.count(1)

    def fn(x: fw.Tensor) -> fw.Tensor:
        return x * float(next(calls))

    with pytest.raises(fw.ExportError, match=r"output output differs by .* from the function's"):
        export(fn, x(2, 6), path)
    assert path.read_bytes() == b"before" and [p.name for p in path.parent.iterdir()] == [path.name]
    report = export(fn, x(2, 6), path, verify=False)
    assert report.max_error is None and "not verified" in str(report)


def test_a_failed_write_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk"):
        export(lambda x: x * 2, x(2), path)
    assert list(path.parent.iterdir()) == []


def test_without_onnxruntime(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare.importlib.util, "find_spec", lambda name: None)
    report = export(lambda x: x * 2, x(2), path)
    assert "reference" in report.runner and report.notes == ("onnxruntime is not installed",)


def test_data_beyond_the_limit_is_in_a_second_file(path: Path, monkeypatch: pytest.MonkeyPatch
                                                   ) -> None:
    monkeypatch.setattr("fusewire.export.onnx.writer.files.LIMIT", 10_000)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    report = export(net, (x(2, 64),), path)
    data = path.with_name("model.onnx.data")
    assert {p.name for p in path.parent.iterdir()} == {path.name, data.name}
    assert report.bytes == path.stat().st_size + data.stat().st_size
    assert path.stat().st_size < 4096 < data.stat().st_size
    assert report.max_error is not None and report.max_error < 1e-5
    held = {i.name: i for i in onnx.load(path, load_external_data=False).graph.initializer}
    places = {e.key: e.value for e in held["0.weight"].external_data}
    assert places["location"] == data.name and int(places["offset"]) % 4096 == 0
    assert not held["2.bias"].external_data, "small constants stay in the model"
    onnx.checker.check_model(str(path), full_check=True)
    given = x(2, 64)
    with fw.no_grad():
        want = net(given).numpy()
    run = compare.runner(str(path)).run
    np.testing.assert_allclose(run({"input": given.numpy()})[0], want, rtol=1e-5, atol=1e-6)
    weights = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
    np.testing.assert_array_equal(weights["0.weight"], net.get_parameter("0.weight").numpy())


@pytest.mark.parametrize(("target", "opset"), [
    ("onnxruntime>=1.16", 19), ("onnxruntime==1.12.1", 17), ("onnxruntime >= 1.14", 18),
    ("onnxruntime>=1.31", 23), ("onnxruntime~=1.20.*", 21),
])
def test_a_target_chooses_the_opset(target: str, opset: int, path: Path) -> None:
    report = export(nn.GELU(), x(2), path, target=target)
    assert report.opset == opset
    model = onnx.load(path)
    assert model.ir_version <= {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}[opset]
    assert export(nn.GELU(), x(2), path, target=target, opset=17).opset == 17


@pytest.mark.parametrize(("more", "words"), [
    ({"target": "onnxruntime>=1.16", "opset": 20}, "loads opset 19 at most, not 20"),
    ({"target": "onnxruntime>=1.2"}, "loads none of the opsets"),
    ({"target": "tensorrt>=8"}, "is not a version of onnxruntime"),
])
def test_targets_that_cannot_be(more: Any, words: str, path: Path) -> None:
    with pytest.raises(fw.ExportError, match=words):
        export(nn.GELU(), x(2), path, **more)


def test_metadata(path: Path) -> None:
    export(nn.GELU(), x(2), path, metadata={"author": "me", "data": "digits"})
    assert {p.key: p.value for p in onnx.load(path).metadata_props} == {
        "author": "me", "data": "digits"}


def test_the_report_is_one_line(path: Path) -> None:
    report = export(lambda x: x * 2, x(2), path)
    assert isinstance(report, ExportReport)
    assert str(report).startswith(f"{path}: ") and "\n" not in str(report)
    assert f"{report.bytes} bytes" in str(report) and report.bytes == path.stat().st_size
    assert "opset 18" in str(report) and "largest difference 0 (" in str(report)


def test_the_same_model_is_the_same_file(tmp_path: Path) -> None:
    net = nn.Linear(6, 3)
    for name in ("a", "b"):
        export(net, x(2, 6), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_differences() -> None:
    a = np.array([1.0, np.nan, np.inf, -np.inf])
    assert compare.difference(a, a) == 0
    assert compare.difference(a, np.array([1.5, np.nan, np.inf, -np.inf])) == 0.5
    assert compare.difference(a, np.array([1.0, 0.0, np.inf, -np.inf])) == np.inf
    big = np.array([2 ** 63 - 1], np.int64)
    assert compare.difference(big, -big) == float(2 ** 64 - 2)
    assert compare.difference(np.array([True]), np.array([False])) == 1
