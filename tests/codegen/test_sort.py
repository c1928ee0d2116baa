"""The order of elements in native code: NumPy's stable order, for every dtype, axis and length."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import interpreted, recorded

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.cpu import argsort
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.program.executable import Executable
from fusewire.eager.ops.indexing.scatter import sorting

DTYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32",
          "float64"]
SPECIAL = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45, 5e-324]


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers of which many are equal, the extreme ones among them."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-20, 20, shape)
    if dtype[0] == "f":
        special = rng.choice(SPECIAL, shape)
        return np.where(rng.random(shape) < 0.2, special, x / 8).astype(dtype)
    if dtype == "bool":
        return x > 0
    info = np.iinfo(dtype)
    low, high = np.array(info.min, dtype), np.array(info.max, dtype)
    return np.where(x > 15, high, np.where(x < -15, low, abs(x).astype(dtype)))


def wanted(x: np.ndarray, axis: int, descending: bool, count: int) -> np.ndarray:
    """By NumPy; turned round twice where it goes down, so that equal elements stay in order."""
    order = x.argsort(axis, kind="stable")
    if descending:
        order = x.shape[axis] - 1 - np.flip(np.flip(x, axis).argsort(axis, kind="stable"), axis)
    return order.take(range(count), axis)


def assert_sorted(cases: list[tuple[np.ndarray, int, bool, int]], interpret: bool = False) -> None:
    """Compiled, and interpreted if asked for, the order is NumPy's."""
    asked = [case[1:] for case in cases]

    def all_of(xs: list[fw.Tensor]) -> list[fw.Tensor]:
        return [sorting(x, *how) for x, how in zip(xs, asked)]

    graph, arrays = recorded(all_of, [fw.from_numpy(case[0]) for case in cases])
    program = compile_graph(graph)
    assert isinstance(program, Executable)
    found = [program(list(arrays))]
    found += [interpreted(graph, arrays, Machine(8, 8))] if interpret else []
    for got in found:
        for order, case in zip(got, cases):
            np.testing.assert_array_equal(order, wanted(*case), str(case[1:]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_every_dtype_both_ways(dtype: str) -> None:
    few, many = drawn((3, 11), dtype), drawn((2, 70), dtype)
    assert_sorted([(x, 1, down, x.shape[1]) for x in (few, many) for down in (False, True)],
                  interpret=True)


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_the_first_few(dtype: str) -> None:
    assert_sorted([(drawn((3, n), dtype, n), 1, down, count) for n in (9, 60, 400, 5000)
                   for count in (1, 2, 8) for down in (False, True)])


def test_along_every_axis_of_views() -> None:
    x = drawn((6, 50, 9), "float32")
    assert_sorted([(x, axis, False, x.shape[axis]) for axis in range(3)])

    def of_views(x: fw.Tensor) -> list[fw.Tensor]:
        return [sorting(v, 0) for v in (x.T, fw.flip(x, axis=0), x[1::2], x * 2.0 - 1.0)]

    graph, arrays = recorded(of_views, fw.from_numpy(drawn((120, 70), "float32")))
    for got, want in zip(compile_graph(graph)(list(arrays)), evaluate(graph, arrays)):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("length", [1, 2, 47, 48, 49, 255, 256, 257])
def test_rows_of_lengths_around_what_the_method_depends_on(length: int) -> None:
    assert_sorted([(drawn((4, length), "float32", length), 1, down, length)
                   for down in (False, True)])


def test_all_alike_and_already_in_order() -> None:
    alike, ordered = np.full((2, 300), 7, np.int32), np.arange(600).reshape(2, 300)
    assert_sorted([(x, 1, down, 300) for x in (alike, ordered) for down in (False, True)])


def test_more_than_scratch_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argsort, "_MAX_SCRATCH_BYTES", 1 << 10)
    x = drawn((40, 1000), "float64")
    assert_sorted([(x, 1, False, 1000), (x, 1, True, 5), (x[0], 0, False, 1000)])


def test_any_number_of_rows_but_of_those_that_are_very_long(
        monkeypatch: pytest.MonkeyPatch) -> None:
    for scratch in (argsort._MAX_SCRATCH_BYTES, 1 << 10):
        monkeypatch.setattr(argsort, "_MAX_SCRATCH_BYTES", scratch)
        compiled = fw.compile(lambda x: fw.argsort(x * 2.0, axis=1))
        for rows in (3, 5, 9, 70, 5, 2, 100):
            x = drawn((rows, 200), "float32", rows)
            got = compiled(fw.from_numpy(x)).numpy()
            np.testing.assert_array_equal(got, wanted(x, 1, False, 200))


def test_keys_are_in_the_order_of_numbers() -> None:
    """All of float16, which float32 holds: as NumPy puts them in order."""
    x = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    assert_sorted([(x, 0, False, x.size), (x.astype(np.float32), 0, True, x.size)])


def test_one_order_at_any_number_of_threads() -> None:
    x, before = drawn((64, 3000), "float32"), fw.get_num_threads()
    found = []
    for threads in (1, 2):
        fw.set_num_threads(threads)
        found.append(fw.argsort(fw.from_numpy(x)).numpy())
    fw.set_num_threads(before)
    np.testing.assert_array_equal(*found)


def test_eager_and_compiled_top_of_many() -> None:
    x = drawn((70, 4000), "float32")
    compiled = fw.compile(lambda t: fw.topk(t, 20))
    for _ in range(3):
        values, places = compiled(fw.from_numpy(x))
        eager = fw.topk(fw.from_numpy(x), 20)
        order = wanted(x, 1, True, 20)
        for got in (places, eager.indices):
            np.testing.assert_array_equal(got.numpy(), order)
        for got in (values, eager.values):
            np.testing.assert_array_equal(got.numpy(), np.take_along_axis(x, order, 1))
