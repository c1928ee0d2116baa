"""Axes that may vary: what stays symbolic, what is noted as a condition, what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.capture.sizes.symbolic_dim import ShapeEnv
from fusewire.eager.errors import GraphError
from fusewire.eager.ops.shape.concat import concat_same_dtype
from fusewire.eager.ops.shape.put_slice import put_slice
from fusewire.eager.ops.shape.view import slice_axes, unslice
from fusewire.export.onnx import export
from fusewire.export.onnx.verify import compare, verify

BATCH = {"x": {0: "batch"}}
HERE = Path(__file__).name


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


TWO = {"x": {0: "b", 1: "t"}}
SIZED: dict[str, tuple[Any, tuple[Any, ...], Any, list[Any]]] = {
    "reshape": (lambda x: x.reshape(x.shape[0] * 2, 3), (x(4, 6),), BATCH, ["2*batch", 3]),
    "minus one": (lambda x: x.reshape(-1, 2), (x(4, 6),), BATCH, ["3*batch", 2]),
    "split": (lambda x: x.reshape(x.shape[0], x.shape[1], 2, 3).permute_dims(0, 2, 1, 3),
              (x(4, 5, 6),), TWO, ["b", 2, "t", 3]),
    "merge": (lambda x: x.flatten(0, 1), (x(4, 5, 6),), TWO, ["b*t", 6]),
    "flatten": (nn.Flatten(), (x(4, 5, 6),), {"input": {0: "batch"}}, ["batch", 30]),
    "concat": (lambda x: concat_same_dtype([x, x * 2, fw.ones(3, 6)], 0), (x(4, 6),), BATCH,
               ["2*batch + 3", 6]),
    "broadcast": (lambda x: x[:, None] + x[None], (x(4, 6),), BATCH, ["batch", "batch", 6]),
    "expand": (lambda x: fw.ones(6).broadcast_to(x.shape) * fw.ones(x.shape[0], 1), (x(4, 6),),
               BATCH, ["batch", 6]),
    "sort": (lambda x: fw.sort(x, axis=0), (x(4, 6),), BATCH, ["batch", 6]),
    "roll": (lambda x: fw.roll(x, 1), (x(4, 6),), BATCH, ["batch", 6]),
    "median": (lambda x: fw.median(x, axis=0), (x(4, 6),), BATCH, [6]),
    "sums": (lambda x: fw.cumulative_sum(x, axis=0, include_initial=True), (x(4, 6),), BATCH,
             ["batch + 1", 6]),
    "zeros": (lambda x: x + fw.zeros_like(x), (x(4, 6),), BATCH, ["batch", 6]),
    "arange": (lambda x: x + fw.arange(x.shape[0])[:, None], (x(4, 6),), BATCH, ["batch", 6]),
    "mean": (lambda x: x.mean(0), (x(4, 6),), BATCH, [6]),
    "sum / n": (lambda x: (x * 2).sum(0) / x.shape[0] + x.size, (x(4, 6),), BATCH, [6]),
    "var": (lambda x: x.var(0, correction=1), (x(4, 6),), BATCH, [6]),
    "conv and pool": (
        nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.MaxPool2d(2), nn.Conv2d(4, 5, 3, padding=1)),
        (x(2, 3, 31, 29),), {"input": {0: "n", 2: "h", 3: "w"}},
        ["n", 5, "(h + 3)//4 - 1", "(w + 3)//4 - 1"]),
    "conv in groups, uneven": (nn.Conv2d(4, 6, (3, 4), padding="same", groups=2), (x(2, 4, 7, 6),),
                               {"input": {0: "n", 2: "h", 3: "w"}}, ["n", 6, "h", "w"]),
    "mirrored conv": (nn.Conv1d(2, 3, 3, padding=1, padding_mode="replicate"), (x(2, 2, 7),),
                      {"input": {0: "n"}}, ["n", 3, 7]),
    "transposed conv": (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1),
                        (x(2, 4, 7, 6),), {"input": {0: "n", 2: "h", 3: "w"}},
                        ["n", 6, "2*h", "2*w"]),
    "transposed conv and zeros": (
        nn.ConvTranspose1d(4, 6, 3, dilation=2, output_padding=1, groups=2), (x(2, 4, 7),),
        {"input": {0: "n", 2: "t"}}, ["n", 6, "t + 5"]),
    "pool": (lambda x: F.max_pool2d(x, 3, stride=2, padding=1), (x(1, 2, 11, 9),),
             {"x": {2: "h", 3: "w"}}, [1, 2, "(h + 1)//2", "(w + 1)//2"]),
    "average pool": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                     (x(1, 2, 11, 9),), {"x": {2: "h", 3: "w"}},
                     [1, 2, "(h + 1)//2", "(w + 1)//2"]),
    "average of all": (lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), (x(2, 3, 7, 5),),
                       {"x": {0: "n", 2: "h"}}, ["n", 3]),
    "norms": (nn.Sequential(nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.LocalResponseNorm(2)).eval(),
              (x(2, 4, 6, 5),), {"input": {0: "n", 2: "h"}}, ["n", 4, "h", 5]),
    "layer norm": (nn.LayerNorm(6), (x(4, 6),), {"input": {0: "batch"}}, ["batch", 6]),
    "flip": (lambda x: fw.flip(x, 0), (x(4, 6),), BATCH, ["batch", 6]),
    "pad": (lambda x: fw.pad(x, [(1, 2), (0, 1)], constant_values=3.0), (x(4, 6),), BATCH,
            ["batch + 3", 7]),
    "last": (lambda x: x[:, -1], (x(4, 5, 6),), TWO, ["b", 6]),
    "tail": (lambda x: slice_axes(x, (1, 0), (1, 1), (x.shape[0] - 1, 6)), (x(4, 6),), BATCH,
             ["batch - 1", 6]),
    "half": (lambda x: slice_axes(x, (x.shape[0] // 2, 0), (1, 1), (x.shape[0] // 2, 6)),
             (x(4, 6),), BATCH, ["batch//2", 6]),
    "every second from the back": (
        lambda x: slice_axes(x, (x.shape[0] - 1, 0), (-2, 1), ((x.shape[0] + 1) // 2, 6)),
        (x(4, 6),), BATCH, ["(batch + 1)//2", 6]),
    "put": (lambda x: put_slice(x, fw.ones(x.shape[0] // 2, 6), (0, 0), (2, 1)), (x(4, 6),), BATCH,
            ["batch", 6]),
    "holes": (lambda x: unslice(x, (x.shape[0] * 2, 6), (0, 0), (2, 1)), (x(4, 6),), BATCH,
              ["2*batch", 6]),
    "softmax": (lambda x: F.softmax(x, dim=0), (x(4, 6),), BATCH, ["batch", 6]),
    "rows by rows": (lambda x: x @ x.T, (x(4, 6),), BATCH, ["batch", "batch"]),
    "take": (lambda x, i: x.take(i, 0), (x(4, 6), fw.tensor([0, 1, -1])),
             {"x": {0: "b"}, "i": {0: "n"}}, ["n", 6]),
    "loss": (lambda x, y: F.mse_loss(x, y), (x(4, 6), x(4, 6)), {"x": {0: "b"}, "y": {0: "b"}}, []),
    "cut": (lambda x: x[:, 1:3] * 1.0, (x(4, 6),), BATCH, ["batch", 2]),
}


@pytest.mark.parametrize("name", SIZED)
def test_sizes_stay_symbolic(name: str, path: Path) -> None:
    fn, args, dynamic, want = SIZED[name]
    report = export(fn, args, path, dynamic_shapes=dynamic)
    assert len(report.checked_sizes) >= 2, report.notes
    assert list(shapes(onnx.load(path).graph.output).values()) == [want]


def test_mean_over_a_size_is_one_operator(path: Path) -> None:
    export(lambda x: x.mean(0), (x(4, 6),), path, dynamic_shapes=BATCH)
    assert ops(path) == ["ReduceMean"]


def test_reshapes_need_no_sizes_where_onnx_can_copy_them(path: Path) -> None:
    export(SIZED["split"][0], SIZED["split"][1], path, dynamic_shapes=TWO)
    assert ops(path) == ["Reshape", "Transpose"]


def test_conditions_are_reported_and_written_down(path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        assert x.shape[0] <= 512
        return x.reshape(-1, 12) if x.shape[0] > 2 else x

    report = export(fn, (x(4, 6),), path, dynamic_shapes=BATCH)
    assert set(report.conditions) >= {"batch < 513", "batch >= 3", "batch % 2 == 0"}
    checked = [sizes["batch"] for sizes in report.checked_sizes]
    assert all(n % 2 == 0 and 3 <= n < 513 for n in checked)
    (prop,) = onnx.load(path).metadata_props
    assert prop.key == "valid for" and "batch % 2 == 0" in prop.value
    assert "batch >= 3" in str(report)


TEN_ROWS = fw.rand(10, 3)


@pytest.mark.parametrize(("fn", "given", "conditions"), [
    (lambda x, i: F.embedding(i, TEN_ROWS), fw.ones(2, 4).astype(fw.int64), ("0 <= i < 10",)),
    (lambda x, i: TEN_ROWS[i], fw.ones(2, 4).astype(fw.int32), ("-10 <= i < 10",)),
    (lambda x, i: TEN_ROWS[fw.arange(x.shape[0])] * x, None, ("n < 11",)),
    (lambda x, i: TEN_ROWS[fw.arange(x.shape[0]) + 2].sum() * x, None, ("n < 9",)),
    (lambda x, i: x[i], fw.tensor([0, 1]), ("-n <= i < n",)),
    (lambda x, i: TEN_ROWS[i * 2 % 7], fw.tensor([1]), ("-10 <= index at FILE:LINE < 10",)),
    (lambda x, i: x[fw.arange(x.shape[0] - 1)], None, ()),
    (lambda x, i: TEN_ROWS[i] if x.sum() > 0 else TEN_ROWS[:2], fw.tensor([0, 1]),
     ("-10 <= i < 10",)),
])
def test_limits_of_tables_are_conditions(fn: Any, given: Any, conditions: Any, path: Path) -> None:
    call = (lambda x, i: fn(x, i)) if given is not None else (lambda x: fn(x, None))
    args = (fw.ones(4, 3), given)[:2 if given is not None else 1]
    report = export(call, args, path, dynamic_shapes={"x": {0: "n"}})
    place = f"{HERE}:{fn.__code__.co_firstlineno}"
    assert report.conditions == tuple(c.replace("FILE:LINE", place) for c in conditions)
    assert all(sizes["n"] < 11 for sizes in report.checked_sizes)


def test_needless_conditions_are_dropped(path: Path) -> None:
    """The function asks whether batch is 6, but does the same for both answers."""
    def fn(x: fw.Tensor) -> fw.Tensor:
        return x * 2 if x.shape[0] == 6 else x + x

    report = export(fn, (x(4, 6),), path, dynamic_shapes=BATCH)
    assert report.conditions == () and {"batch": 6} in report.checked_sizes


def test_conditions_that_matter_are_kept(path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        return x * 3 if x.shape[0] == 6 else x + x

    report = export(fn, (x(4, 6),), path, dynamic_shapes=BATCH)
    assert report.conditions == ("batch != 6",)


@pytest.mark.parametrize("changed, conditions", [
    (lambda x, flat, other: x, ("batch >= 2",)), (lambda x, flat, other: flat, ("batch >= 2",)),
    (lambda x, flat, other: other, ()), (lambda x, flat, other: flat * 1.0, ())])
def test_a_reshape_that_is_written_is_a_view_for_one_row_only(
        changed: Any, conditions: tuple[str, ...], path: Path) -> None:
    def fn(x: fw.Tensor) -> Any:
        x, other = x + 0.0, x * 3.0
        flat = x.T.reshape(-1)
        changed(x, flat, other).add_(1.0)
        return x, flat, other

    report = export(fn, (x(3, 4),), path, dynamic_shapes=BATCH)
    assert report.conditions == conditions


# ---- sizes that the code fixes
def fixed_by_range(x: fw.Tensor) -> fw.Tensor:
    return x * fw.tensor([[i] for i in range(x.shape[0])])  # range


def fixed_by_len(x: fw.Tensor) -> fw.Tensor:
    return x / len(x)  # len


def fixed_by_sqrt(x: fw.Tensor) -> fw.Tensor:
    return x / math.sqrt(x.shape[0])  # sqrt


def fixed_by_comparison(x: fw.Tensor) -> fw.Tensor:
    return x * 2 if x.shape[0] == 4 else x  # ==


def fixed_by_shape(x: fw.Tensor) -> fw.Tensor:
    return x + fw.ones(4, 6)  # ones


@pytest.mark.parametrize(("fn", "words"), [
    (fixed_by_range, "was fixed to 4 by a use that needs a plain int"),
    (fixed_by_len, "was fixed to 4 by a use that needs a plain int"),
    (fixed_by_sqrt, "was fixed to 4 by a use that needs a plain float"),
    (fixed_by_comparison, "valid only for batch == 4"),
    (fixed_by_shape, "valid only for batch == 4"),
])
def test_a_fixed_size_names_the_line(fn: Any, words: str, path: Path) -> None:
    with pytest.raises(fw.ExportError) as caught:
        export(fn, (x(4, 6),), path, dynamic_shapes=BATCH)
    assert words in str(caught.value) and "`batch`" in str(caught.value)
    line = fn.__code__.co_firstlineno + 1
    assert f"{HERE}:{line}, in {fn.__name__}" in str(caught.value)
    assert "help: " in str(caught.value) and not path.exists()


def test_two_names_for_one_size(path: Path) -> None:
    with pytest.raises(fw.ExportError, match="give both sizes one name"):
        export(lambda x, y: x + y, (x(4, 6), x(4, 6)), path,
               dynamic_shapes={"x": {0: "a"}, "y": {0: "b"}})
    with pytest.raises(fw.ShapeError, match="size 'a' is 4 in axis 0 of x and 5 in axis 0 of y"):
        export(lambda x, y: x.sum() + y.sum(), (x(4, 6), x(5, 6)), path,
               dynamic_shapes={"x": {0: "a"}, "y": {0: "a"}})


def test_other_sizes_meet_the_conditions() -> None:
    assert next(verify.other_sizes({"a": 8, "b": 5}, ())) == {"a": 5, "b": 7}
    sizes = ShapeEnv({"a": 5, "b": 64})
    with sizes.recording():
        assert sizes.named("b") % 16 == 0
    for found in verify.other_sizes(sizes.values, sizes.conditions.values()):
        assert found["a"] != 5 and found["b"] % 16 == 0 and found["b"] != 64


# ---- values that follow from sizes alone
TABLE = np.arange(40, dtype=np.float32)


@pytest.mark.parametrize("decides", [
    lambda v: fw.tensor(1.0) * v.shape[0] > 5.5, lambda v: fw.arange(v.shape[0]).sum() > 12,
    lambda v: fw.ones(v.shape[0]).sum().item() > 5.5,
    lambda v: fw.from_numpy(TABLE)[v.shape[0] - 1] > 4.5])
def test_decisions_about_them_stay_decisions(decides: Any, path: Path) -> None:
    """No input's value is in them, but another size gives another answer."""
    def fn(v: fw.Tensor) -> fw.Tensor:
        return v * 3 if decides(v) else v * 2

    export(fn, x(4, 3), path, dynamic_shapes={"v": {0: "n"}})
    run = compare.runner(path.read_bytes()).run
    for n in (1, 5, 6, 30):
        v = x(n, 3)
        np.testing.assert_allclose(run({"v": v.numpy()})[0], fn(v).numpy(), rtol=1e-6)


def test_their_values_stay_in_the_model(path: Path) -> None:
    with pytest.raises(fw.ExportError, match="hands a tensor's values to Python"):
        export(lambda v: v * (fw.tensor(1.0) * v.shape[0]).numpy(), x(4, 3), path,
               dynamic_shapes={"v": {0: "n"}})


def test_steps_enough_for_any_size(path: Path) -> None:
    """Places are found by halving, how often follows from the size: in the model, from the largest.
    """
    def fn(v: fw.Tensor, places: fw.Tensor) -> fw.Tensor:
        return fw.searchsorted(v, places)

    export(fn, (fw.sort(x(5)), x(4)), path, dynamic_shapes={"v": {0: "n"}, "places": {0: "m"}})
    run = compare.runner(path.read_bytes()).run
    for n in (1, 8, 300):
        v, places = fw.sort(x(n)), x(9)
        found, = run({"v": v.numpy(), "places": places.numpy()})
        np.testing.assert_array_equal(found, fn(v, places).numpy())


def test_no_size_is_fixed_when_the_run_has_ended() -> None:
    """As formulas of ops may do that are opened while the model is written."""
    sizes = ShapeEnv({"a": 5})
    sizes.closed = True
    for fixes in (int, float, range, lambda n: n.bit_length(), lambda n: n * 0.5):
        with pytest.raises(GraphError, match="would fix the size a to 5"):
            fixes(sizes.named("a"))


def test_windows_that_grow_are_refused(path: Path) -> None:
    with pytest.raises(fw.ExportError, match=r"max_pool .* ONNX: the attribute kernel_shape"):
        export(lambda v: F.adaptive_max_pool1d(v, 3), x(2, 4, 6), path,
               dynamic_shapes={"v": {2: "n"}})
    assert not path.exists()
