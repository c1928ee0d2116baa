"""Files that are damaged or meant ill: `fw.onnx.load` refuses them with one kind of error."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import fusewire as fw

FLOAT = TensorProto.FLOAT


def model(nodes: Any, weights: Any = (), functions: Any = (), opset: int = 18) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", FLOAT, ["n"])],
                              [helper.make_empty_tensor_value_info("y")], list(weights))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def node(kind: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def tensor(shape: Any, kind: int = FLOAT, data: bytes = b"\0" * 16) -> onnx.TensorProto:
    return TensorProto(name="w", dims=shape, data_type=kind, raw_data=data)


def nested(depth: int) -> onnx.NodeProto:
    """If inside of If."""
    def branch(inner: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph([inner], "g", [], [helper.make_tensor_value_info(
            inner.output[0], FLOAT, ["n"])])

    inner = node("Relu", "x", "r")
    for i in range(depth):
        inner = node("If", "c", f"r{i}" if i < depth - 1 else "y", then_branch=branch(inner),
                     else_branch=branch(node("Relu", "x", f"e{i}")))
    return inner


def circle() -> list[onnx.FunctionProto]:
    """Two functions that call each other."""
    return [helper.make_function("own", name, ["a"], ["b"], [helper.make_node(
        other, ["a"], ["b"], domain="own")], [helper.make_opsetid("own", 1)])
        for name, other in (("A", "B"), ("B", "A"))]


def referring() -> onnx.NodeProto:
    """A node that refers to an attribute of a function, where there is none."""
    made = node("LeakyRelu", "x")
    made.attribute.add(name="alpha", ref_attr_name="beta", type=AttributeProto.FLOAT)
    return made


CASES = {
    "a cycle": (model([node("Add", "x y", "h"), node("Relu", "h")]), "used before it is computed"),
    "a name nobody gives": (model([node("Relu", "z")]), "'z' is used before"),
    "a name that onnx does not bear": (
        model([node("EyeLike", "z", dtype=1)], opset=22), "'z' is used"),
    "an output nobody gives": (model([node("Relu", "x", "h")]), "'y' is used before"),
    "no such operator": (model([node("Nonsense", "x")]), "operator Nonsense does not exist"),
    "a version to come": (model([node("Relu", "x")], opset=10 ** 6), "model uses opset 1000000"),
    "a domain without version": (model([helper.make_node("F", ["x"], ["y"], domain="other")]),
                                 "no opset import for the domain 'other'"),
    "too few inputs": (model([node("Add", "x")]), "2 to 2 inputs, not 1"),
    "too many outputs": (model([node("Relu", "x", "y z")]), "1 to 1 outputs, not 2"),
    "an unknown attribute": (model([node("Relu", "x", alpha=1.0)]), "no attribute 'alpha'"),
    "an attribute of another kind": (model([node("Softmax", "x", axis="one")]), "has the type"),
    "no attribute": (model([node("Cast", "x")]), "needs the attribute 'to'"),
    "a type that is none": (model([node("Cast", "x", to=77)]), "element type 77"),
    "too little data": (model([node("Add", "x w")], [tensor([2 ** 40])]), "16 bytes, but needs"),
    "a shape below zero": (model([node("Add", "x w")], [tensor([-1])]), "negative size in shape"),
    "texts as bytes": (model([node("Add", "x w")], [tensor([4], TensorProto.STRING, bytes(32))]),
                       "0 numbers, but needs 4"),
    "a tensor without type": (model([node("Add", "x w")], [tensor([4], 0)]), "element type 0"),
    "functions in a circle": (model([helper.make_node("A", ["x"], ["y"], domain="own")],
                                    functions=circle()), "calls itself"),
    "graphs too deep": (model([node("Constant", "", "c", value=numpy_helper.from_array(
        np.array(True))), nested(20)]), "nested more than 15 levels deep"),
    "a graph that is none": (model([node("Cast", "x", "c", to=9), node("If", "c")]),
                             "needs the attribute"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be(case: str) -> None:
    made, words = CASES[case]
    with pytest.raises(fw.ImportModelError, match=words):
        fw.onnx.load(made.SerializeToString())


@pytest.mark.parametrize("data", [b"", b"\x08", b"no model at all", bytes(1000)])
def test_what_is_no_model(data: bytes) -> None:
    with pytest.raises(fw.ImportModelError, match="not an ONNX model"):
        fw.onnx.load(data)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(fw.ImportModelError, match="cannot be read"):
        fw.onnx.load(tmp_path / "none.onnx")
    with pytest.raises(fw.ImportModelError, match="takes a path"):
        fw.onnx.load(3)


def test_an_attribute_that_refers_to_nothing_is_the_usual_one() -> None:
    assert fw.onnx.load(model([referring()]))(fw.full((1,), -1.0)).item() == pytest.approx(-0.01)


HUGE = 10 ** 13
ASKING = {
    "ConstantOfShape": [node("Constant", "", "s", value_ints=[HUGE]), node(
        "ConstantOfShape", "s", "h"), node("Add", "h x")],
    "Expand": [node("Constant", "", "s", value_ints=[HUGE, 1]), node("Expand", "x s")],
    "Tile": [node("Constant", "", "s", value_ints=[HUGE]), node("Tile", "x s")],
    "Range": [node("Constant", "", "a", value_int=0), node("Constant", "", "b", value_int=HUGE),
              node("Constant", "", "c", value_int=1), node("Range", "a b c", "r"),
              node("Cast", "r", "y", to=1)],
    "Pad": [node("Constant", "", "s", value_ints=[0, HUGE]), node("Pad", "x s")],
    "RandomNormal": [node("RandomNormal", "", "y", shape=[HUGE])],
    "OneHot": [node("Constant", "", "d", value_int=HUGE), node(
        "Constant", "", "v", value_floats=[0.0, 1.0]), node("OneHot", "x d v")],
    "EyeLike": [node("Constant", "", "s", value_ints=[10 ** 6, 10 ** 6]), node(
        "ConstantOfShape", "s", "h"), node("EyeLike", "h")],
}


@pytest.mark.parametrize("name", ASKING)
def test_nothing_huge_is_made(name: str) -> None:
    loaded = fw.onnx.load(model(ASKING[name]))
    tracemalloc.start()
    try:
        with pytest.raises(fw.FusewireError):
            loaded(fw.ones(2))
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_bytes_changed_at_random() -> None:
    """Whatever becomes of a model: it loads and runs, or an error of ours says why not."""
    body = helper.make_graph(
        [node("Mul", "v w", "v2"), node("ReduceSum", "v2", "s", keepdims=0),
         node("Less", "s x", "m"), node("Cast", "m", "more", to=9)], "body",
        [helper.make_tensor_value_info(*v) for v in
         (("i", 7, []), ("go", 9, []), ("v", FLOAT, [1]))],
        [helper.make_tensor_value_info(*v) for v in (("more", 9, []), ("v2", FLOAT, [1]))])
    whole = model([helper.make_node("Loop", ["k", "", "x"], ["h"], body=body),
                   node("Softmax", "h", "p", axis=0), node("Shape", "p", "s"),
                   node("Reshape", "p s", "y")],
                  [numpy_helper.from_array(np.float32([1.5]), "w"),
                   numpy_helper.from_array(np.int64(3), "k")]).SerializeToString()
    assert fw.onnx.load(whole)(fw.ones(1)).tolist() == [1.0]
    rng = random.Random(0)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 2, 5])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[:rng.randrange(len(data))] if rng.random() < 0.2 else data
        try:
            fw.onnx.load(bytes(data))
        except fw.ImportModelError:
            pass


@pytest.mark.skipif(not onnx.defs.has("FlexAttention", "ai.onnx.preview"), reason="needs onnx 1.21")
def test_names_that_onnx_cannot_write_as_text() -> None:
    """It makes the function of this operator so."""
    score = helper.make_graph(
        [node("Constant", "", "h"), helper.make_node("Mul", ["s", "h"], ["made"])], "g",
        [helper.make_tensor_value_info("s", FLOAT, [1, 1, "t", "t"])],
        [helper.make_tensor_value_info("made", FLOAT, [1, 1, "t", "t"])],
        [numpy_helper.from_array(np.float32(2), "a half, or (")])
    attend = helper.make_node("FlexAttention", ["q", "q", "q"], ["y"], domain="ai.onnx.preview",
                              score_mod=score)
    graph = helper.make_graph(
        [attend], "net", [helper.make_tensor_value_info("q", FLOAT, [1, 1, "t", 4])],
        [helper.make_empty_tensor_value_info("y")])
    made = helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", 25), helper.make_opsetid("ai.onnx.preview", 1)])
    with pytest.raises(fw.ImportModelError, match="onnx cannot expand FlexAttention to a function"):
        fw.onnx.load(made)
