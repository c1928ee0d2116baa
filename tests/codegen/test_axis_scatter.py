"""Scatters along an axis are kernels of the program itself: `scatter` with every reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import interpreted, recorded

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.program.executable import Executable
from fusewire.codegen.runtime.target import named
from fusewire.eager.errors import IndexingError

SHAPES = [  # the array, the indices, and their axis
    ((5, 7), (3, 7), 0), ((5, 7), (9, 4), 0), ((5, 7), (5, 20), 1), ((3, 20, 33), (2, 9, 33), 1),
    ((50,), (80,), 0), ((3, 1, 2), (3, 4, 2), 1), ((6, 130), (9, 130), 0), ((3, 4), (0, 4), 0),
    ((0, 4), (0, 4), 1)]
REDUCTIONS = [None, "add", "prod", "amax", "amin"]


def drawn(shape: tuple[int, ...], below: int, dtype: str = "int64") -> fw.Tensor:
    numbers = np.random.default_rng(len(shape)).integers(0, below, shape)
    return fw.from_numpy(numbers.astype(dtype))


def assert_equal(function: Any, *args: Any, target: str = "") -> Executable:
    """Compiled, and interpreted for a small machine: the numbers of NumPy, without a library."""
    graph, arrays = recorded(function, *args)
    program, (want,) = compile_graph(graph, named(target)), evaluate(graph, arrays)
    assert isinstance(program, Executable)
    for (got,) in program(list(arrays)), interpreted(graph, arrays, Machine(8, 8)):
        np.testing.assert_array_equal(got, want)
    return program


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize(("array", "places", "axis"), SHAPES)
def test_every_shape(array: Any, places: Any, axis: int, reduce: str | None) -> None:
    assert_equal(lambda x, i, v: fw.scatter(x, axis, i, v, reduce), drawn(array, 5, "float32"),
                 drawn(places, max(1, array[axis])), drawn(places, 4, "float32"))


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "uint8", "bool"])
def test_every_dtype(dtype: str, reduce: str | None) -> None:
    assert_equal(lambda x, i, v: fw.scatter(x, 0, i, v, reduce), drawn((6, 20), 2, dtype),
                 drawn((9, 20), 6), drawn((9, 20), 2, dtype))


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_rows_have_one_index_each(reduce: str | None) -> None:
    """Lanes run along a row, as in ONNX's ScatterND."""
    assert_equal(lambda x, i, v: fw.scatter(x * 2, 0, fw.broadcast_to(i, v.shape), v + 1, reduce),
                 drawn((4, 300), 5, "float32"), drawn((9, 1), 4),
                 drawn((9, 300), 4, "float32"), target="x86-64-v3")


def test_of_several_values_for_one_place_the_last_stays() -> None:
    last = fw.compile(lambda x, i, v: fw.scatter(x, 0, i, v))
    for _ in range(3):
        out = last(fw.zeros(3), fw.tensor([1, 0, 1]), fw.tensor([1.0, 2.0, 3.0]))
        assert out.tolist() == [2, 3, 0]


@pytest.mark.filterwarnings("ignore:invalid value")  # of NumPy
@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_nan_wins(reduce: str) -> None:
    assert_equal(lambda x, i, v: fw.scatter(x, 0, i, v, reduce), fw.zeros(2),
                 fw.tensor([0, 0, 1]), fw.tensor([1.0, float("nan"), 2.0]))


def test_an_index_out_of_range_is_an_error() -> None:
    scattered = fw.compile(lambda x, i: fw.scatter(x, 0, i, fw.ones(2), "amax"))
    for _ in range(3):
        assert scattered(fw.zeros(3), fw.tensor([0, 2])).tolist() == [1, 0, 1]
    with pytest.raises(IndexingError):
        scattered(fw.zeros(3), fw.tensor([0, 3]))


def test_what_depends_on_weights_alone_is_computed_once() -> None:
    """A mask written by scatters, as in models that export windows of attention: its memory is
    filled by a kernel that reads nothing."""
    module, x = fw.nn.Module(), fw.ones((64, 8))
    module.register_buffer("places", fw.tensor([[0, 2, 5]]))
    module.register_buffer("values", fw.tensor([[1.0, 2.0, 3.0]]))

    def masked(x: fw.Tensor) -> fw.Tensor:
        mask = fw.scatter(fw.zeros((1, 8)), 1, module.places, module.values)
        return x + fw.softmax(mask, -1)

    want, compiled = masked(x).numpy(), fw.compile(masked)
    for _ in range(4):
        np.testing.assert_allclose(compiled(x).numpy(), want, 1e-6)
    assert [row["name"].endswith("prepacked") for row in compiled.kernels()].count(False) == 1
