"""Models that ask for too much: loading and running end in time, with an error that names the
limit."""

from __future__ import annotations

import copy
import os
import pickle
import re
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import fusewire as fw
from fusewire.eager import interpreter
from fusewire.export.onnx.load.runtime.pattern import Pattern

FLOAT, INT64, BOOL, TEXT = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL,
                            TensorProto.STRING)
FEW = fw.onnx.Limits(seconds=2, bytes=1 << 24, nodes=5000)


def node(kind: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def value(name: str, kind: int = FLOAT, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: Any, weights: dict[str, Any] | None = None, functions: Any = (),
          inputs: Any = (("x", FLOAT, ["n"]),), opset: int = 20) -> onnx.ModelProto:
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in (weights or {}).items()]
    graph = helper.make_graph(nodes, "net", [value(*v) for v in inputs],
                              [helper.make_empty_tensor_value_info("y")], held)
    return helper.make_model(graph, functions=list(functions), opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid("own", 1)])


def calling(depth: int, times: int = 2) -> onnx.ModelProto:
    """Functions that call each other's next one, each so many times."""
    def function(i: int) -> onnx.FunctionProto:
        names = [f"t{k}" for k in range(times)] + ["b"]
        body = [helper.make_node(f"F{i + 1}", [a], [b], domain="own")
                for a, b in zip(["a", *names], names[:-1])] if i < depth else []
        last = "a" if i == depth else names[-2]
        return helper.make_function("own", f"F{i}", ["a"], ["b"], [
            *body, helper.make_node("Relu", [last], ["b"])],
            [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)])

    return model([helper.make_node("F0", ["x"], ["y"], domain="own")],
                 functions=map(function, range(depth + 1)))


def loop(body: Any, carried: Any, scanned: Any = (), weights: dict[str, Any] | None = None,
         start: str = "x", kind: int = FLOAT) -> onnx.ModelProto:
    """A loop without a last iteration, whose value begins as `start`."""
    inner = helper.make_graph(
        body, "body", [value("i", INT64, []), value("go", BOOL, []), value("v", kind)],
        [value("go", BOOL, []), value(carried, kind), *[value(n, kind) for n in scanned]])
    kept = helper.make_node("Identity", ["go"], ["more"])
    inner.node.append(kept)
    inner.output[0].name = "more"
    outputs = ["y", *[f"s{i}" for i in range(len(scanned))]]
    return model([helper.make_node("Loop", ["", "", start], outputs, body=inner)], weights)


# ---- loading
LOADING: dict[str, tuple[onnx.ModelProto, str]] = {
    "functions that call the next one twice, 18 deep": (calling(18), "nodes"),
    "the same, 40 deep": (calling(40), "nodes"),
    "a hundred times, 5 deep": (calling(5, 100), "nodes"),
    "more nodes than may be": (model([node("Relu", "x", "y")] * 5001), "nodes"),
    "more numbers in an attribute": (
        model([node("Constant", "", "y", value_ints=range(5001 * 16))]), "nodes"),
    "more bytes than may be": (model([node("Add", "x w")], {"w": np.zeros(1 << 22, np.float32)}),
                               "bytes"),
}


@pytest.mark.parametrize("case", LOADING)
def test_what_takes_too_much_to_load(case: str) -> None:
    made, limit = LOADING[case]
    with pytest.raises(fw.LimitError) as caught:
        fw.onnx.load(made.SerializeToString(), limits=FEW)
    assert caught.value.limit == limit and f"Limits({limit}=...)" in caught.value.help


@pytest.mark.parametrize("depth", [18, 40])
def test_the_usual_limits_hold_for_calls_too(depth: int) -> None:
    with pytest.raises(fw.LimitError, match="more than 200000 nodes"):
        fw.onnx.load(calling(depth, 3 if depth == 18 else 2).SerializeToString())


def test_the_time_of_loading_is_limited(monkeypatch: Any) -> None:
    times = iter(range(10 ** 9))
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    with pytest.raises(fw.LimitError, match="longer than 20 s"):
        fw.onnx.load(model([node("Relu", "x")] * 100), limits=fw.onnx.Limits(seconds=20))


def test_functions_deeper_than_onnx_can_follow() -> None:
    with pytest.raises(fw.ImportModelError, match="more than 50 levels deep"):
        fw.onnx.load(calling(60, 1))


EQUATIONS = ["a.b", ".", "..", "a..", "....", "a....b", "...a...", "i.j->ij", "ij->i.", "a,b.c->"]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations_that_onnx_never_comes_back_from(equation: str) -> None:
    made = model([helper.make_node("Einsum", ["x"], ["y"], equation=equation)])
    with pytest.raises(fw.ImportModelError, match="not a valid equation of Einsum"):
        fw.onnx.load(made.SerializeToString())


@pytest.mark.parametrize("equation", ["a.b", "i->i"])
def test_an_equation_that_a_call_gives(equation: str) -> None:
    """By an attribute of the function, of whatever name."""
    inner = helper.make_node("Einsum", ["a"], ["b"])
    inner.attribute.add(name="equation", ref_attr_name="text", type=onnx.AttributeProto.STRING)
    function = helper.make_function("own", "F", ["a"], ["b"], [inner], [
        helper.make_opsetid("", 20)], attributes=["text"])
    made = model([helper.make_node("F", ["x"], ["y"], domain="own", text=equation)],
                 functions=[function])
    if equation == "a.b":
        with pytest.raises(fw.ImportModelError, match="not a valid equation of Einsum"):
            fw.onnx.load(made)
    else:
        assert fw.onnx.load(made)(fw.ones(3)).tolist() == [1.0] * 3


def test_parts_that_a_number_asks_for() -> None:
    made = model([helper.make_node("Split", ["x"], ["y"], num_outputs=1 << 33)])
    tracemalloc.start()
    try:
        fw.onnx.load(made)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", [lambda i: f"w{i}", lambda i: f"a.b.w{i}", lambda i: "",
                                  lambda i: "w", lambda i: "x." * (i % 90), lambda i: "a" * 70])
def test_many_small_initializers(name: Callable[[int], str]) -> None:
    """Names cost no more the more there are: with a search through all of them, the clock, which
    stands still between looks, would be looked at as often, but this test would take minutes."""
    made = model([node("Relu", "x")])
    made.graph.initializer.extend(numpy_helper.from_array(np.float32([i]), name(i))
                                  for i in range(5000))
    state = fw.onnx.load(made, limits=fw.onnx.Limits(seconds=60)).state_dict()
    assert len(state) == 5000 and sorted(v.item() for v in state.values()) == [*range(5000)]


def test_many_values_of_one_name() -> None:
    chain = ["x", *["a b c".replace(" ", "/" * (i + 1)) for i in range(2000)], "y"]
    made = model([helper.make_node("Relu", [a], [b]) for a, b in pairwise(chain)])
    assert fw.onnx.load(made)(fw.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(fw.ImportModelError, match="is not a regular file"):
        fw.onnx.load(tmp_path / "m.onnx")


# ---- running
def of_texts(nodes: Any, **weights: Any) -> onnx.ModelProto:
    return model(nodes, {k: np.array(v, object) for k, v in weights.items()})


RUNNING: dict[str, tuple[onnx.ModelProto, str]] = {
    "doubled for ever": (loop([node("Concat", "v v", "w", axis=0)], "w"), "bytes"),
    "a square for ever": (loop([node("Unsqueeze", "v ax", "u"), node("Mul", "u v", "m"),
                                node("Reshape", "m flat", "w")], "w",
                               weights={"ax": np.int64([1]), "flat": np.int64([-1])}), "bytes"),
    "nothing, for ever": (loop([], "v"), "seconds"),
    "something, for ever": (loop([node("Sin", "v", "w")], "w"), "seconds"),
    "values that stay, for ever": (loop([node("Tile", "v r", "w")], "v", ["w"],
                                        {"r": np.int64([1000])}), "bytes or seconds"),
    "numbers that stay, for ever": (
        loop([node("Identity", "i", "w")], "v", ["w"]), "bytes or seconds"),
    "an outer product": (model([node("Unsqueeze", "h ax", "u"), node("Add", "u h", "y"),
                                ], {"ax": np.int64([1]), "h": np.ones(9000, np.float32)}), "bytes"),
    "twelve operands": (model([node("Einsum", "w " * 12, equation=",".join(
        "abcdefghijkl"))], {"w": np.ones(10, np.float32)}), "bytes"),
    "texts doubled for ever": (loop([node("StringConcat", "v v", "w")], "w", start="s", kind=TEXT,
                                    weights={"s": np.array(["ab"], object)}), "bytes"),
    "every text with every other": (of_texts([node("Reshape", "s shape", "r"), node(
        "StringConcat", "r s", "y")], s=["a"] * 5000), "bytes"),
}
RUNNING["every text with every other"][0].graph.initializer.append(
    numpy_helper.from_array(np.int64([5000, 1]), "shape"))


@pytest.mark.parametrize("case", RUNNING)
@pytest.mark.parametrize("compiled", [False, True])
def test_what_takes_too_much_to_run(case: str, compiled: bool) -> None:
    made, limit = RUNNING[case]
    loaded = fw.onnx.load(made, limits=FEW)
    run = fw.compile(loaded) if compiled else loaded
    for _ in range(2):
        with pytest.raises(fw.LimitError) as caught, fw.no_grad():
            run(fw.ones(2))
        assert caught.value.limit in limit
    assert interpreter.STATE.limiting is None


def test_sizes_do_not_grow_in_a_loop_as_numbers_of_python_do() -> None:
    """They are of 64 bits, and long vectors of them are tensors."""
    for kind, start in (("Mul", np.int64(3)), ("Concat", np.int64([1, 2]))):
        step = node("Mul", "v v", "w") if kind == "Mul" else node("Concat", "v v", "w", axis=0)
        made = loop([step], "w", start="s", kind=INT64, weights={"s": start})
        with pytest.raises(fw.LimitError):
            fw.onnx.load(made, limits=FEW)(fw.ones(2))


def test_numbers_beyond_64_bits_begin_anew() -> None:
    made = model([node("Mul", "a a", "b"), node("Mul", "b b", "c"), node("Cast", "c", "y", to=7)],
                 {"a": np.int64(2 ** 20 + 1)})
    with np.errstate(all="ignore"):
        wanted = np.int64(2 ** 20 + 1) ** 4
    assert fw.onnx.load(made)(fw.ones(1)).item() == wanted


def test_limits_that_suffice_change_nothing() -> None:
    made = loop([node("Sin", "v", "w")], "w")
    made.graph.node[0].input[0] = "k"
    made.graph.initializer.append(numpy_helper.from_array(np.int64(50), "k"))
    usual, few = (fw.onnx.load(made, limits=limits)(fw.ones(5)) for limits in (None, FEW))
    assert usual.tolist() == few.tolist()


def test_what_is_gone_does_not_count() -> None:
    """A chain of many results, of which two live at a time."""
    names = ["x", *[f"v{i}" for i in range(40)], "y"]
    made = model([helper.make_node("Sin", [a], [b]) for a, b in pairwise(names)])
    looping = loop([node("Sin", "v", "w")], "w")
    looping.graph.node[0].input[0] = "k"
    looping.graph.initializer.append(numpy_helper.from_array(np.int64(40), "k"))
    x = fw.ones(1 << 20)  # 4 MiB of 16
    with pytest.raises(fw.LimitError), fw.no_grad():
        fw.onnx.load(made, limits=FEW)(x)  # the names of its source hold all of them
    with fw.no_grad():
        assert fw.onnx.load(looping, limits=FEW)(x).shape == x.shape


def test_calls_leave_no_limits_behind() -> None:
    loaded = fw.onnx.load(model([node("Relu", "x")]), limits=FEW)
    copied, again = copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))
    assert copied._limits == again._limits == FEW
    assert loaded(fw.ones(2)).tolist() == [1, 1] and interpreter.STATE.limiting is None
    assert fw.ones(1 << 23).sum().item() == 1 << 23


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"bytes": -1}, {"nodes": "many"},
                                   {"seconds": float("nan")}, {"nodes": True}])
def test_limits_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(fw.ArgumentError, match="is not a positive number"):
        fw.onnx.Limits(**wrong)
    with pytest.raises(fw.ArgumentError, match="got 3"):
        fw.onnx.load(b"", limits=3)


# ---- regular expressions
PATTERNS = [
    "", "a", "abc", "a|b", "(a|b)*c", "a*", "a+b?", "[a-c]+", "[^a-c]", ".", ".*b.*", "^ab$", "$",
    r"\d+\.\d*", r"\w+@\w+", r"\bab\b", r"\Ba", "(?i)AB+", "(?s).a", "(?m)^a$", "a{2}", "^",
    "a{1,3}b", "(ab){0,2}c?", "(?:a|)b", "(?P<n>a)b", r"[\d\s]x", "(a?){3}", "()*a", "a*?b",
    r"\Aa\Z", "(a|ab)(c|bcd)", r"\x41|\u0062", "(?i:[a-b])c", "(^a|b)*"]


def test_patterns_fit_what_pythons_own_fit() -> None:
    letters, rng = "abcABx1. \n@", np.random.default_rng(1)
    texts = ["", *["".join(rng.choice([*letters], rng.integers(1, 6))) for _ in range(300)]]
    for pattern in PATTERNS:
        ours, theirs = Pattern(pattern), re.compile(pattern)
        for text in [*texts, "ab", "abc", "aaab", "1.5", "a@b", "a\n", "abcd", "aab"]:
            wanted = theirs.fullmatch(text) is not None
            if "$" in pattern and text.endswith("\n") and "(?m)" not in pattern:
                continue  # RE2's `$` is the end of the text, Python's the place before a last line
            assert ours.matches(text) == wanted, (pattern, text)


CATASTROPHIC = ["(a+)+b", "(a*)*b", "(a|aa)+b", "(a|a?)+b", "(.*)*b", "a*" * 20 + "b",
                ".*" * 12 + "=", "(a?){30}a{30}b", "((a+)+)+b", r"(\w+\s?)+!"]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_patterns_take_time_in_proportion_to_the_text(pattern: str) -> None:
    made = of_texts([node("RegexFullMatch", "s", pattern=pattern)], s=["a" * 20_000])
    assert fw.onnx.load(made)(fw.ones(1)).tolist() == [False]


def test_patterns_that_are_none() -> None:
    for pattern in ("(", "[", "a**", r"(a)\1", "(?=a)b", "(?<!a)b", "(?P<x>a)(?P=x)"):
        with pytest.raises(fw.ImportModelError, match="pattern"):
            Pattern(pattern)
    for pattern in ("((a{100}){100}){100}", "a{1000000}"):
        with pytest.raises(fw.LimitError, match="states"):
            Pattern(pattern)
