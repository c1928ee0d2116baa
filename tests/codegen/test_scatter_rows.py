"""Rows written at indices known only at run time: in order, in place where nobody else reads the
array, and without any effect if an index is out of range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracle import interpreted, recorded

import fusewire as fw
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.graph.text import parse
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.program import native_threads
from fusewire.codegen.program.executable import Executable
from fusewire.eager.ops.indexing.index_put import index_put


def numbers(*shape: int, dtype: str = "float32") -> fw.Tensor:
    drawn = np.random.default_rng(len(shape)).integers(-99, 99, shape)
    return fw.from_numpy(drawn.astype(dtype))


def places(*shape: int, below: int) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(1).integers(0, below, shape))


def assert_equal(function: Callable[..., Any], *given: Any) -> Executable:
    """Compiled, and interpreted for a small machine: the numbers of NumPy."""
    graph, arrays = recorded(function, *given)
    program, wanted = compile_graph(graph), evaluate(graph, arrays)
    assert isinstance(program, Executable)
    for found in program(list(arrays)), interpreted(graph, arrays, Machine(8, 8)):
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, want)
    return program


# ---- what is written
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize(("x", "i"), [((5, 2), (3,)), ((4,), (2, 3)), ((3, 2), ()), ((3, 2), (0,)),
                                      ((2, 70), (9,)), ((9, 3, 17), (4, 1, 5)), ((1, 1), (6,))])
def test_rows_of_every_shape(x: tuple[int, ...], i: tuple[int, ...], dtype: str) -> None:
    assert_equal(index_put, numbers(*x, dtype=dtype), numbers(*i, *x[1:], dtype=dtype),
                 places(*i, below=x[0]))


def test_the_last_of_several_rows_for_a_place_stays() -> None:
    """Also where a row is so long that several tasks write it."""
    assert_equal(index_put, numbers(2, 40_000), numbers(6, 40_000), fw.tensor([1, 0, 1, 1, 0, 1]))


def test_of_what_is_computed_in_place_of_what_is_computed() -> None:
    def put(x: fw.Tensor, v: fw.Tensor, i: fw.Tensor) -> Any:
        return index_put(x.T * 2.0, v[::-1] + 1.0, (i * 2) % 3) * 3.0, x + 1.0

    assert_equal(put, numbers(4, 3), numbers(5, 4), places(5, below=3))


def test_rows_of_the_array_itself_are_read_before_any_is_written() -> None:
    assert_equal(lambda x, i: index_put(x, x, i), numbers(7, 3), fw.tensor([1, 2, 3, 4, 5, 6, 0]))


def test_behind_slices_and_beside_integers() -> None:
    def put(x: fw.Tensor, v: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
        x = x + 0.0
        x[:, 1, i] = v
        x[i, :, -1] = v[0, 0]
        return x

    assert_equal(put, numbers(3, 2, 4, 5), numbers(3, 2, 5), fw.tensor([-1, 0]))


def test_threads_change_nothing() -> None:
    graph, arrays = recorded(index_put, numbers(50, 3000), numbers(90, 3000), places(90, below=50))
    had, found = native_threads.get_num_threads(), []
    try:
        for count in (1, 2):
            native_threads.set_num_threads(count)
            found.append(compile_graph(graph)(list(arrays))[0])
    finally:
        native_threads.set_num_threads(had)
    np.testing.assert_array_equal(*found)


# ---- in place
def written_into(function: Callable[..., Any], *given: Any) -> bool:
    """Whether the first output, that of NumPy, lies where the first input did."""
    graph, arrays = recorded(function, *given)
    graph = replace(graph, donated={0: 0})
    wanted, place = evaluate(graph, [a.copy() for a in arrays]), arrays[0].ctypes.data
    program = compile_graph(graph)
    given_away = [a.copy() for a in arrays]
    place = given_away[0].ctypes.data
    found = program(given_away)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return bool(found[0].ctypes.data == place)




def cache(keys: fw.Tensor, new: fw.Tensor, position: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
    """A cache by heads and positions, and a sum of what is in it then."""
    places = fw.arange(6).reshape(2, 3)[:, position]
    keys = index_put(keys.reshape(6, 4), new, places).reshape(2, 3, 4)
    return keys, keys.sum(1)


def test_a_cache_is_written_where_it_lies() -> None:
    given = numbers(2, 3, 4), numbers(2, 1, 4)
    for position in (1, -1):
        assert written_into(cache, *given, fw.tensor([position]))


def test_what_is_read_afterwards_or_row_by_row_is_not_written_over() -> None:
    x, v, i = numbers(6, 4), numbers(3, 4), fw.tensor([5, 0, 5])
    assert written_into(index_put, x, v, i)
    assert not written_into(lambda x, v, i: (index_put(x, v, i), x * 2.0), x, v, i)
    assert not written_into(lambda x, v, i: index_put(x, x[::2] + v, i), x, v, i)
    assert not written_into(lambda x, v, i: index_put(x * 2.0, v, i), x, v, i)
    assert not written_into(lambda x, i: index_put(x, x, i), x, fw.tensor([1, 2, 3, 4, 5, 0]))


def test_a_place_that_is_computed_is_checked_before_rows_are_written_there() -> None:
    x, v, i = numbers(60, 4), numbers(3, 4), fw.tensor([5, 0, 5])
    assert written_into(lambda x, v, i: index_put(x, v, (i + 2) % 60), x, v, i)
    assert written_into(lambda x, v, i: index_put(x, v, cast(x[:3, 0])), x, v, i)


def test_several_writes_into_one_array_are_made_where_it_lies() -> None:
    x, v, i = numbers(6, 4), numbers(3, 4), fw.tensor([5, 0, 5])
    assert written_into(
        lambda x, v, i: index_put(index_put(x, v, i), v * 2.0, (i + 1) % 6), x, v, i)
    assert not written_into(lambda x, v, i: (index_put(y := index_put(x, v, i), v, (i + 1) % 6),
                                             y * 2.0), x, v, i)


def cast(x: fw.Tensor) -> fw.Tensor:
    return (x * 0.0).astype(fw.int64)


@pytest.mark.parametrize("position", [3, -4])
def test_a_place_out_of_range_leaves_everything_as_it_was(position: int) -> None:
    graph, arrays = recorded(cache, numbers(2, 3, 4), numbers(2, 1, 4), fw.tensor([0]))
    program = compile_graph(replace(graph, donated={0: 0}))
    held = fw.Tensor(arrays[0].copy())
    with pytest.raises(IndexError, match=rf"{position} is out of range for size 3"):
        program([held._data, arrays[1], np.array([position])])
    np.testing.assert_array_equal(held._data, arrays[0])


def test_a_computed_place_is_looked_at_before_anything_is_lost() -> None:
    graph = parse("""
        x = input()  # float32[3, 2]
        v = input()  # float32[1, 2]
        n = input()  # int64[1]
        i = multiply(n, int64(2))  # int64[1]
        p = index_put(x, v, i)  # float32[3, 2]
        return p""")
    program = compile_graph(Graph(graph.inputs, graph.outputs, {0: 0}))
    x = fw.zeros(3, 2)
    with pytest.raises(IndexError, match="index_put: index 4 is out of range for size 3"):
        program([x._data, np.ones((1, 2), np.float32), np.array([2])])
    assert x.tolist() == [[0.0, 0.0]] * 3
    assert program([x._data, np.ones((1, 2), np.float32), np.array([1])])[0][2].tolist() == [1, 1]


# ---- in layers
class Layers(fw.nn.Module):
    """Layers that each keep what they were given at some positions."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.steps = fw.nn.ModuleList([fw.nn.Linear(4, 4) for _ in range(count)])
        for n in range(count):
            self.register_buffer(f"cache{n}", fw.zeros(2, 9, 4))

    def forward(self, x: fw.Tensor, position: fw.Tensor) -> fw.Tensor:
        for n, step in enumerate(self.steps):
            kept = getattr(self, f"cache{n}")
            kept[:, position] = step(x)
            x = fw.tanh(x + kept.sum(1, keepdims=True))
        return x


def test_equal_layers_write_their_caches_where_they_lie() -> None:
    """They are lowered once, and the position is looked at before any of them runs."""
    fw.manual_seed(0)
    layers, eager = Layers(8).requires_grad_(False), Layers(8).requires_grad_(False)
    eager.load_state_dict(layers.state_dict())
    run = fw.compile(layers.forward, fullgraph=True)
    x = numbers(2, 1, 4) * 0.01
    for n in (0, 3, -1, 3, 2):
        np.testing.assert_allclose(run(x, fw.tensor([n])), eager(x, fw.tensor([n])), rtol=1e-5)
    for got, want in zip(layers.buffers(), eager.buffers(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    places = [b._data.ctypes.data for b in layers.buffers()]
    run(x, fw.tensor([1]))
    assert [b._data.ctypes.data for b in layers.buffers()] == places
    before = [np.array(b) for b in layers.buffers()]
    with pytest.raises(IndexError, match="index -10 is out of range for size 9"):
        run(x, fw.tensor([-10]))
    for now, then in zip(layers.buffers(), before, strict=True):
        np.testing.assert_array_equal(now, then)
