"""`fw.onnx.load`: models as Modules that run, learn, compile, show their source, export again."""

from __future__ import annotations

import copy
import os
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import fusewire as fw
from fusewire import nn

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def x(*shape: int) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32))


def model(nodes: Any, inputs: dict[str, Any], outputs: Any, weights: Any = None, opset: int = 18,
          functions: Any = ()) -> onnx.ModelProto:
    """A model of nodes, with float inputs of these shapes."""
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions),
                             ir_version=10)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def value(name: str, kind: int, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


class Net(nn.Module):
    """A convolution, a norm that is folded, and a linear layer behind a reshape."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.out = nn.Linear(3 * 16, 5)

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        hidden = nn.functional.max_pool2d(fw.relu(self.norm(self.conv(images))), 2)
        return self.out(hidden.reshape(hidden.shape[0], -1))


@pytest.fixture
def exported(tmp_path: Path) -> tuple[Net, Path]:
    net = Net().eval()
    path = tmp_path / "net.onnx"
    fw.onnx.export(net, (x(2, 1, 8, 8),), path, dynamic_shapes={"images": {0: "batch"}})
    return net, path


# ---- what a loaded model is
def test_it_computes_what_was_exported(exported: Any) -> None:
    net, path = exported
    loaded = fw.onnx.load(path)
    for batch in (2, 1, 5):
        np.testing.assert_allclose(loaded(x(batch, 1, 8, 8)).numpy(),
                                   net(x(batch, 1, 8, 8)).numpy(), rtol=1e-5, atol=1e-6)


def test_names_and_kinds_are_kept(exported: Any) -> None:
    net, path = exported
    loaded = fw.onnx.load(path)
    assert set(dict(loaded.named_parameters())) >= {"conv.weight", "out.weight", "out.bias"}
    assert "norm.running_mean" not in dict(loaded.named_parameters())
    np.testing.assert_array_equal(loaded.out.weight.numpy(), net.out.weight.numpy())
    assert "images: float32[batch, 1, 8, 8]" in repr(loaded)


def test_a_state_dict_goes_from_one_to_another(exported: Any) -> None:
    _, path = exported
    first, second = fw.onnx.load(path), fw.onnx.load(path.read_bytes())
    with fw.no_grad():
        for p in second.parameters():
            p.fill_(0.0)
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(second(x(2, 1, 8, 8)).numpy(), first(x(2, 1, 8, 8)).numpy())
    assert (copy.deepcopy(second)(x(1, 1, 8, 8)) == second(x(1, 1, 8, 8))).all()


def test_it_is_pickled_with_its_source(exported: Any) -> None:
    loaded = fw.onnx.load(exported[1])
    other = pickle.loads(pickle.dumps(loaded))
    assert other.to_python() == loaded.to_python()
    assert (other(x(2, 1, 8, 8)) == loaded(x(2, 1, 8, 8))).all()


@pytest.mark.parametrize("compiled", [False, True])
def test_it_learns(exported: Any, compiled: bool) -> None:
    loaded = fw.onnx.load(onnx.load(exported[1]))
    loaded = fw.compile(loaded) if compiled else loaded
    adam = fw.optim.Adam(loaded.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        adam.zero_grad()
        loss = nn.functional.cross_entropy(loaded(x(8, 1, 8, 8)), fw.arange(8) % 5)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3
    if compiled:
        assert loaded.forward.stats.replays > 20 and loaded.forward.stats.fallbacks == 0


def test_compiled_it_takes_any_size(exported: Any) -> None:
    net, path = exported
    loaded = fw.compile(fw.onnx.load(path))
    for batch in (2, 2, 3, 4, 7, 9):
        np.testing.assert_allclose(loaded(x(batch, 1, 8, 8)).numpy(),
                                   net(x(batch, 1, 8, 8)).numpy(), rtol=1e-5, atol=1e-6)
    assert (loaded.forward.stats.recordings, loaded.forward.stats.fallbacks) == (2, 0)


def test_it_exports_again_for_any_size(exported: Any, tmp_path: Path) -> None:
    net, path = exported
    again = tmp_path / "again.onnx"
    report = fw.onnx.export(fw.onnx.load(path), (x(2, 1, 8, 8),), again,
                            dynamic_shapes={"images": {0: "batch"}})
    assert len(report.checked_sizes) > 1
    session = onnxruntime.InferenceSession(again)
    found, = session.run(None, {"images": x(6, 1, 8, 8).numpy()})
    np.testing.assert_allclose(found, net(x(6, 1, 8, 8)).numpy(), rtol=1e-4, atol=1e-5)


def test_shapes_that_a_model_computes_stay_symbolic(tmp_path: Path) -> None:
    """Shape, Gather, Unsqueeze, Mul, Concat and Reshape, as exporters write x.reshape(b, -1)."""
    made = model(
        [node("Shape", "x", "shape"), node("Gather", "shape zero", "b", axis=0),
         node("Mul", "b two", "twice"), node("Unsqueeze", "twice axes", "row"),
         node("Concat", "row rest", "wanted", axis=0), node("Reshape", "x wanted", "y")],
        {"x": ["n", 4]}, ["y"], {"zero": np.int64(0), "two": np.int64(2), "axes": [0],
                                 "rest": [-1]})
    loaded = fw.onnx.load(made)
    assert loaded(x(3, 4)).shape == (6, 2)
    report = fw.onnx.export(loaded, (x(3, 4),), tmp_path / "again.onnx",
                            dynamic_shapes={"x": {0: "n"}})
    assert {sizes["n"] for sizes in report.checked_sizes} > {3}


# ---- as source
def test_the_source_is_what_runs(exported: Any) -> None:
    _, path = exported
    loaded = fw.onnx.load(path)
    names: dict[str, Any] = {}
    exec(loaded.to_python(), names)
    made = names["Net"](loaded._inputs)
    made.__dict__.update({k: loaded.__dict__[k] for k in ("_parameters", "_buffers", "_modules")})
    np.testing.assert_array_equal(made(x(2, 1, 8, 8)).numpy(), loaded(x(2, 1, 8, 8)).numpy())


def test_the_source_is_what_a_user_would_write() -> None:
    made = model([node("MatMul", "x w", "h"), node("Relu", "h", "r"), node("Mul", "r half", "y")],
                 {"x": [2, 3]}, ["y"], {"w": np.ones((3, 4), np.float32)})
    made.graph.node.insert(0, node("Constant", "", "half", value_float=0.5))
    lines = fw.onnx.load(made).to_python().splitlines()
    assert [line.strip() for line in lines[-4:]] == [
        "h = x @ self.w", "r = fw.relu(h)", "y = r * 0.5", "return op.result(y)"]


def test_errors_point_to_the_line_of_the_source() -> None:
    made = model([node("Relu", "x", "a"), node("Add", "a w", "y")], {"x": ["n"]}, ["y"],
                 {"w": np.ones(3, np.float32)})
    with pytest.raises(fw.ShapeError, match=r"<Net \d+>:10, in forward"):
        fw.onnx.load(made)(x(4))


# ---- inputs
@pytest.mark.parametrize(("given", "error"), [
    (x(2, 5), fw.ShapeError), (x(4), fw.ShapeError), (None, fw.DTypeError),
    (fw.ones(2, 4, dtype="float64"), fw.DTypeError), ([x(2, 4)], fw.DTypeError)])
def test_inputs_are_checked(given: Any, error: type[Exception]) -> None:
    loaded = fw.onnx.load(model([node("Relu", "x", "y")], {"x": ["n", 4]}, ["y"]))
    with pytest.raises(error, match="input 'x'"):
        loaded(given)


def test_inputs_by_name_and_as_arrays() -> None:
    loaded = fw.onnx.load(model([node("Sub", "in.1 in.2", "y")], {"in.1": [2], "in.2": [2]}, ["y"]))
    assert loaded(np.ones(2, np.float32), in_2=x(2)).shape == (2,)


def test_an_initializer_may_be_a_default() -> None:
    made = model([node("Add", "x b", "y")], {"x": [2], "b": [2]}, ["y"],
                 {"b": np.float32([1, 2])})
    loaded = fw.onnx.load(made)
    assert loaded(fw.zeros(2)).tolist() == [1, 2]
    assert loaded(fw.zeros(2), fw.ones(2)).tolist() == [1, 1]
    assert [name for name, _ in loaded.named_parameters()] == ["b"]


# ---- control flow
def growing(scanned: bool) -> onnx.ModelProto:
    """While sum(v) < 50: v = v * w."""
    body = helper.make_graph(
        [node("Mul", "v w", "v2"), node("ReduceSum", "v2", "s", keepdims=0),
         node("Less", "s limit", "more"), node("Identity", "v2", "seen")], "body",
        [value("i", INT, []), value("go", BOOL, []), value("v", FLOAT, [3])],
        [value("more", BOOL, []), value("v2", FLOAT, [3]),
         *([value("seen", FLOAT, [3])] if scanned else [])])
    outputs = "y all" if scanned else "y"
    return model([helper.make_node("Loop", ["", "", "x"], outputs.split(), body=body)],
                 {"x": [3]}, outputs.split(),
                 {"w": np.float32([1.5]), "limit": np.float32(50)})


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scanned", [False, True])
def test_loops(scanned: bool, compiled: bool) -> None:
    made = growing(scanned)
    loaded, session = fw.onnx.load(made), onnxruntime.InferenceSession(made.SerializeToString())
    loaded = fw.compile(loaded) if compiled else loaded
    for scale in (1.0, 0.1, 30.0, 1.0, 0.5):
        found = loaded(fw.ones(3) * scale)
        wanted = session.run(None, {"x": np.full(3, scale, np.float32)})
        for mine, theirs in zip(found if scanned else [found], wanted):
            np.testing.assert_allclose(mine.detach().numpy(), theirs, rtol=1e-6)


def test_gradients_go_through_loops() -> None:
    loaded = fw.onnx.load(growing(False))
    loaded(fw.ones(3)).sum().backward()
    np.testing.assert_allclose(loaded.w.grad.numpy(), [3 * 7 * 1.5 ** 6], 1e-6)  # after 7 turns


def test_branches_see_names_outside() -> None:
    def branch(kind: str) -> onnx.GraphProto:
        return helper.make_graph([node(kind, "x w", "r")], kind, [], [value("r", FLOAT, [3])])

    made = model([node("ReduceSum", "x", "s", keepdims=0), node("Less", "s zero", "c"),
                  node("If", "c", "y", then_branch=branch("Mul"), else_branch=branch("Add"))],
                 {"x": [3]}, ["y"], {"w": np.float32([2, 3, 4]), "zero": np.float32(0)})
    for loaded in (fw.onnx.load(made), fw.compile(fw.onnx.load(made))):
        for _ in range(2):
            assert loaded(fw.ones(3)).tolist() == [3, 4, 5]
            assert loaded(-fw.ones(3)).tolist() == [-2, -3, -4]


def test_functions_are_methods() -> None:
    own = helper.make_function("own", "Scaled", ["a"], ["b"], [
        node("Constant", "", "k"), node("Mul", "a k", "b")],
        [helper.make_opsetid("", 18)], attributes=["by"])
    reference = own.node[0].attribute.add(name="value_float", ref_attr_name="by")
    reference.type = onnx.AttributeProto.FLOAT
    call = [helper.make_node("Scaled", ["x"], ["h"], domain="own", by=2.0),
            helper.make_node("Scaled", ["h"], ["y"], domain="own", by=0.25)]
    loaded = fw.onnx.load(model(call, {"x": [2]}, ["y"], functions=[own]))
    assert loaded(fw.ones(2)).tolist() == [0.5, 0.5]
    assert loaded.to_python().count("    def function_Scaled") == 2


# ---- data in other files
@pytest.fixture
def with_data(tmp_path: Path) -> Path:
    made = model([node("MatMul", "x w", "y")], {"x": [2, 64]}, ["y"],
                 {"w": np.arange(64 * 64, dtype=np.float32).reshape(64, 64)})
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(made, folder / "m.onnx", save_as_external_data=True, location="data.bin",
              size_threshold=0)
    return folder


def redirected(folder: Path, location: str) -> Path:
    made = onnx.load(folder / "m.onnx", load_external_data=False)
    for entry in made.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    return folder / "m.onnx"


def test_data_beside_the_model(with_data: Path) -> None:
    loaded = fw.onnx.load(with_data / "m.onnx")
    assert loaded.w[1, 2].item() == 66


@pytest.mark.parametrize("location", [
    "../outside.bin", "sub/../../outside.bin", "{root}/outside.bin", "", "link.bin",
    "linked/outside.bin", "missing.bin", "..", ".", "sub", "pipe", "x" * 5000])
def test_data_are_read_from_the_folder_only(with_data: Path, location: str) -> None:
    outside = with_data.parent / "outside.bin"
    outside.write_bytes((with_data / "data.bin").read_bytes())
    (with_data / "link.bin").symlink_to(outside)
    (with_data / "linked").symlink_to(with_data.parent)
    (with_data / "sub").mkdir()
    os.mkfifo(with_data / "pipe")
    path = redirected(with_data, location.format(root=with_data.parent))
    with pytest.raises(fw.ImportModelError, match="tensor 'w'"):
        fw.onnx.load(path)


@pytest.mark.parametrize("place", [
    {"offset": "-4"}, {"offset": "1.0"}, {"offset": "9" * 30}, {"offset": "4"}, {"length": "-1"},
    {"length": "9" * 30}, {"length": "9" * 5000}, {"length": ""}, {"length": "16380"}])
def test_data_that_are_not_where_they_are_said_to_be(with_data: Path, place: dict[str, str]
                                                     ) -> None:
    made = onnx.load(with_data / "m.onnx", load_external_data=False)
    for entry in made.graph.initializer[0].external_data:
        entry.value = place.get(entry.key, entry.value)
    (with_data / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(fw.ImportModelError, match="tensor 'w' needs 16384 bytes"):
        fw.onnx.load(with_data / "m.onnx")


def lying(folder: Path, count: int, *dims: int) -> Path:
    """A model of so many tensors, each said to lie in the same bytes of a large file."""
    with (folder / "data.bin").open("wb") as file:
        file.truncate(1 << 26)  # which takes no room on a disk
    made = model([node("Add", "x w0", "y")], {"x": [2]}, ["y"])
    for i in range(count):
        held = made.graph.initializer.add(name=f"w{i}", data_type=FLOAT, dims=dims,
                                          data_location=TensorProto.EXTERNAL)
        held.external_data.add(key="location", value="data.bin")
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    return folder / "m.onnx"


@pytest.mark.parametrize(("count", "dims", "words"), [
    (1, [4], "'w0' needs 16 bytes"), (9, [1 << 24], "more than 8 times as large")])
def test_nothing_is_read_that_no_tensor_is_made_of(tmp_path: Path, count: int, dims: list[int],
                                                   words: str) -> None:
    path = lying(tmp_path, count, *dims)
    tracemalloc.start()
    try:
        with pytest.raises(fw.ImportModelError, match=words):
            fw.onnx.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_data_of_functions_and_of_empty_tensors_are_not_read(with_data: Path) -> None:
    """Neither has a place where it would be looked at before."""
    empty = TensorProto(name="k", data_type=FLOAT, dims=[0], data_location=TensorProto.EXTERNAL)
    empty.external_data.add(key="location", value="/etc/hostname")
    own = helper.make_function("own", "F", ["a"], ["b"], [
        node("Constant", "", "b", value=empty)], [helper.make_opsetid("", 18)])
    call = helper.make_node("F", ["x"], ["y"], domain="own")
    made = model([call], {"x": [2]}, ["y"], functions=[own])
    (with_data / "f.onnx").write_bytes(made.SerializeToString())
    for given in (with_data / "f.onnx", made):
        with pytest.raises(fw.ImportModelError, match="the data of tensor 'k'"):
            fw.onnx.load(given)


@pytest.mark.parametrize("name", ["None", "class", "3 d", "", "../x", "Модель"])
def test_any_name_of_a_graph(name: str) -> None:
    made = model([node("Relu", "x", "y")], {"x": [2]}, ["y"])
    made.graph.name = name
    assert fw.onnx.load(made)(fw.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["forward", "a..b", "_x", "training", "lambda", "parameters.x",
                                  "self", "w'];print(1);[", "é", "a.b", "a"])
def test_any_name_of_a_parameter(name: str) -> None:
    made = model([helper.make_node("Add", ["x", name], ["h"]), node("Add", "h a.b.c", "y")],
                 {"x": [2]}, ["y"], {name: np.float32([1, 2]), "a.b.c": np.float32([1, 1])})
    loaded = fw.onnx.load(made)
    assert loaded(fw.zeros(2)).tolist() == [2, 3]
    assert len(list(loaded.parameters())) == 2
    again = fw.onnx.load(made)
    again.load_state_dict(loaded.state_dict())


def test_data_that_are_too_short(with_data: Path) -> None:
    (with_data / "data.bin").write_bytes(b"1234")
    with pytest.raises(fw.ImportModelError, match="tensor 'w'"):
        fw.onnx.load(with_data / "m.onnx")


def test_bytes_have_no_folder(with_data: Path) -> None:
    with pytest.raises(fw.ImportModelError, match="load the model by its path"):
        fw.onnx.load((with_data / "m.onnx").read_bytes())


# ---- sizes
@pytest.mark.parametrize(("nodes", "wanted"), [
    ([node("Split", "s", "a b", split=[1, 1]), node("Mul", "a b", "t"),
      node("Reshape", "x t", "y")], (6,)),
    ([node("Constant", "", "k", value_ints=[0, 5]), node("Max", "s k", "m"),
      node("Expand", "x1 m", "y")], (2, 5)),
    ([node("Size", "x", "n"), node("Constant", "", "k", value_int=4), node("Div", "n k", "d"),
      node("Unsqueeze", "d", "d1", axes=[0]), node("ConstantOfShape", "d1", "y")], (1,)),
    ([node("ReduceProd", "s", "n"), node("Reshape", "x n", "y")], (6,)),
])
def test_computed_shapes(nodes: list[onnx.NodeProto], wanted: tuple[int, ...]) -> None:
    made = model([node("Shape", "x", "s"), *nodes], {"x": [2, 3]}, ["y"],
                 {"x1": np.ones((2, 1), np.float32)}, opset=12)
    assert fw.onnx.load(made)(x(2, 3)).shape == wanted


def test_batch_norm_in_training_before_version_14_is_refused() -> None:
    ones = np.ones(3, np.float32)
    made = model([node("BatchNormalization", "x a b c d", "y m v sm sv")], {"x": [2, 3, 4]}, ["y"],
                 dict.fromkeys("abcd", ones), opset=9)
    with pytest.raises(fw.ImportModelError, match="supported in inference"):
        fw.onnx.load(made)(x(2, 3, 4))
