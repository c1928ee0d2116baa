"""Branches and loops of plain Python in models: `If` and `Loop`, checked on every path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from deciding import DECIDE, OF_THREE, choose, counted, halved, nested, t

import fusewire as fw
from fusewire.export.onnx import export
from fusewire.export.onnx.verify import compare

HERE = Path(__file__).name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("example", [0, 1, 3])
@pytest.mark.parametrize("fn", DECIDE)
def test_one_example_is_enough_for_all_ways(fn: Any, example: int, path: Path) -> None:
    """What it does not take is forced; the model is right wherever inputs go by themselves."""
    report = export(fn, OF_THREE[example], path)
    run = compare.runner(path.read_bytes()).run
    for x in OF_THREE:
        wanted = fn(x)
        wanted = list(wanted.values()) if isinstance(wanted, dict) else wanted
        for have, want in zip(run({"x": x.numpy()}), wanted if isinstance(wanted, (list, tuple))
                              else [wanted], strict=True):
            np.testing.assert_allclose(have, want.numpy(), rtol=1e-5, err_msg=str(x))
    assert any("deciding.py:" in note and "no example takes the path" in note
               for note in report.notes)


def kinds(graph: Any) -> list[str]:
    """The operators of a graph and of those inside of it."""
    found = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            found += kinds(attribute.g)
    return found


def test_examples_take_the_other_ways(path: Path) -> None:
    report = export(choose, t(1, 2, 3), path, examples=[t(-1, -2, -3)])
    assert report.notes == ()
    model = onnx.load(path)
    assert kinds(model.graph) == ["ReduceSum", "Greater", "If", "Sub", "Mul"]
    assert model.graph.node[-1].doc_string.startswith("deciding.py")


def test_what_both_sides_compute_stands_before(path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        if x[0] > 0:
            return x.exp() + 1
        return x.exp() - 1

    export(fn, t(1, 2, 3), path)
    assert kinds(onnx.load(path).graph).count("Exp") == 1


def test_sizes_vary_inside(path: Path) -> None:
    def fn(x: fw.Tensor, y: fw.Tensor) -> Any:
        while (x @ y).max() > 1:
            x = x / 2
        if x.sum() > 0:
            return x.reshape(-1), y.sum(1)
        return (x + 1).reshape(-1), y[:, 0] * x.shape[0]

    args = (fw.ones(3, 4), fw.ones(4, 5))
    report = export(fn, args, path, dynamic_shapes={"x": {0: "n", 1: "k"}, "y": {0: "k"}})
    assert len(report.checked_sizes) >= 2
    run = compare.runner(path.read_bytes()).run
    for sign in (1, -1):
        x, y = fw.ones(6, 2) * sign, fw.ones(2, 5) * 3
        for have, want in zip(run({"x": x.numpy(), "y": y.numpy()}), fn(x, y), strict=True):
            np.testing.assert_allclose(have, want.numpy(), rtol=1e-6)


def test_shapes_may_differ_by_way(path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        return x[:2] if x.sum() > 0 else x

    export(fn, t(1, 2, 3), path, examples=[t(-1, 0, 0)])
    (dim,) = onnx.load(path).graph.output[0].type.tensor_type.shape.dim
    assert not dim.dim_value and not dim.dim_param


def test_weights_behind_a_branch_are_in_the_model_once(path: Path) -> None:
    layer = fw.nn.Linear(16, 16)

    def f(x: fw.Tensor) -> fw.Tensor:
        if x.mean() > 0:
            x = x * 2
        while x.max() > 1:
            x = x / 2
        return layer(x)

    fw.onnx.export(f, (fw.ones(3, 16),), str(path))
    large = [t.name for t in onnx.load(path).graph.initializer if len(t.raw_data) >= 16 * 16 * 4]
    assert len(large) == 1
    loaded = fw.onnx.load(str(path))
    assert sorted(p.shape for p in loaded.parameters()) == [(16,), (16, 16)]


def test_weights_inside_keep_their_names(path: Path) -> None:
    net = fw.nn.Sequential(fw.nn.Linear(3, 3), fw.nn.Linear(3, 3))

    def fn(x: fw.Tensor) -> fw.Tensor:
        while x.square().sum() > 1:
            x = net[0](x) / 4
        return net[1](x)

    export(fn, fw.ones(2, 3), path)
    names = {i.name for i in onnx.load(path).graph.initializer}
    assert any("0.weight" in n for n in names) and any("1.bias" in n for n in names)


def test_the_reference_runs_them_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare.importlib.util, "find_spec", lambda name: None)
    for fn in (choose, halved, counted, nested):
        assert "reference" in export(fn, OF_THREE[2], path).runner


# ---- what cannot be
def raises(x: fw.Tensor) -> fw.Tensor:
    if x.isnan().any():
        raise ValueError("nan")
    return x


def other_kind(x: fw.Tensor) -> fw.Tensor:
    return x if x.sum() > 0 else x.sum()


def other_dtype(x: fw.Tensor) -> fw.Tensor:
    return x if x.sum() > 0 else x.astype(fw.float64)


def not_forced(x: fw.Tensor) -> fw.Tensor:
    return x[fw.zeros(3)[7:].shape[0] - 9] if x.sum() < 0 else x


def other_number(x: fw.Tensor) -> Any:
    return x if x.sum() > 0 else (x, x)


@pytest.mark.parametrize(("fn", "words"), [
    (raises, "where this is True, the function raises ValueError, and a model cannot"),
    (other_kind, "the paths of this branch return results of different types: float32[3]"),
    (other_dtype, "give both the same dtype"),
    (not_forced, "no example takes the path where this is True, and tracing it"),
    (other_number,
     "the function returns different tensors on different paths: output and output, output_1"),
])
def test_refusals(fn: Any, words: str, path: Path) -> None:
    with pytest.raises(fw.ExportError) as caught:
        export(fn, t(1, 2, 3), path)
    assert words in str(caught.value) and "help: " in str(caught.value)
    if fn is not other_number:
        assert f"{HERE}:{fn.__code__.co_firstlineno + 1}" in str(caught.value)
    assert not path.exists()


def test_too_many_ways(path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        for i in range(70):
            if x.sum() > i:
                return x + i
        return x

    with pytest.raises(fw.ExportError, match="form more than 64 paths"):
        export(fn, fw.ones(7), path)


def test_examples_must_be_alike(path: Path) -> None:
    with pytest.raises(fw.ExportError, match=r"x is float32\[2\] in one example and float32\[3\]"):
        export(choose, t(1, 2, 3), path, examples=[t(1, 2)])
    with pytest.raises(fw.ExportError, match="differs from the others in more than the values"):
        export(lambda x, k: x * k, (t(1), 2), path, examples=[(t(1), 3)])


def swapped(a: fw.Tensor, b: fw.Tensor) -> Any:
    n = 0
    while (a > b).any():
        n += 1
        if n > 4:
            break
        a, b = b, a
    return a, b


def test_a_loop_that_hands_on_its_arguments(path: Path) -> None:
    """What a run returns has to be asked before another run gives these tensors other names."""
    export(swapped, (t(1, 2), t(3, 4)), path)
    run = compare.runner(path.read_bytes()).run
    for a, b in ((t(5, 6), t(7, 8)), (t(7, 8), t(5, 6)), (t(5, 8), t(7, 6))):
        for have, want in zip(run({"a": a.numpy(), "b": b.numpy()}), swapped(a, b), strict=True):
            np.testing.assert_array_equal(have, want.numpy())


def doubled(x: fw.Tensor) -> fw.Tensor:
    y = x
    while y.sum() < 10:
        y = fw.concat([y, y])
    return y


def appended(x: fw.Tensor) -> fw.Tensor:
    y = x
    while y.sum() < 10:
        y = fw.concat([y, x])
    return y


def bounded(x: fw.Tensor) -> fw.Tensor:
    y = x
    while y.sum() < 10 and y.shape[0] < 32:
        y = fw.concat([y, y])
    return y


def by_recursion(x: fw.Tensor) -> fw.Tensor:
    return x if x.sum() > 10 else by_recursion(fw.concat([x, x]))


@pytest.mark.parametrize("fn", [doubled, appended])
def test_a_loop_that_grows_a_tensor_names_it_before_memory_is_full(fn: Any, path: Path) -> None:
    with pytest.raises(fw.ExportError, match="each iteration changes `y` from shape") as caught:
        export(fn, (fw.ones(3),), path)
    assert caught.value.line == f"{HERE}:{fn.__code__.co_firstlineno + 2}"
    assert "made before the loop" in caught.value.help


def test_a_recursion_that_grows_a_tensor_ends_before_memory_is_full(path: Path) -> None:
    with pytest.raises(fw.ExportError, match="a path that no example takes computes a tensor of"):
        export(by_recursion, (fw.ones(3) * 9,), path)


def test_a_loop_that_a_size_bounds_is_unrolled(path: Path) -> None:
    export(bounded, (fw.ones(2),), path)
    run = compare.runner(path.read_bytes()).run
    for first in (20.0, 1.0, 0.1):
        x = fw.tensor([first, 0.0])
        np.testing.assert_array_equal(run({"x": x.numpy()})[0], bounded(x).numpy())
