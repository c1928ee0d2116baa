"""The error of sums grows neither with their length nor with the axis: eager, compiled, for a GPU.

`FUSEWIRE_TEST_WHOLE=1` takes longer sums and more seeds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled_for_cuda import compile_on
from emulated import EmulatedDevice
from oracle import recorded
from sampling import WHOLE
from sum_errors import SUMMING, Layout, layouts, numbers, of_bound, offsets

import fusewire as fw
from emulator.emulator import AVAILABLE
from fusewire.codegen.compile import compile_graph

LENGTHS = [100, 1000, 10_007, *([100_003, 1_000_000] if WHOLE else [])]
SEEDS = range(4 if WHOLE else 1)


def worst(name: str, layout: Layout, run: Any, dtype: Any = np.float32) -> float:
    """The largest error of results, as a share of what is allowed."""
    given = [numbers(layout, offset, dtype, seed) for offset in offsets(name) for seed in SEEDS]
    with np.errstate(all="ignore"):
        return max(of_bound(name, x, layout.axes, run(x)) for x in given)


def eager(name: str, layout: Layout) -> Any:
    return lambda x: SUMMING[name].run(fw.from_numpy(x), layout.axes).numpy()


def compiled(name: str, layout: Layout, dtype: Any, compiling: Any = compile_graph) -> Any:
    given = fw.from_numpy(np.zeros(layout.shape, dtype))
    graph, _ = recorded(lambda x: SUMMING[name].run(x, layout.axes), given)
    program = compiling(graph)
    return lambda x: np.asarray(program([x])[0])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", SUMMING)
def test_eager(name: str, length: int) -> None:
    found = {layout: worst(name, layout, eager(name, layout)) for layout in layouts(name, length)}
    assert max(found.values()) <= 1, found


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", SUMMING)
def test_compiled(name: str, length: int) -> None:
    found = {layout: worst(name, layout, compiled(name, layout, np.float32))
             for layout in layouts(name, length)}
    assert max(found.values()) <= 1, found


@pytest.mark.parametrize("name", ["sum", "var", "norm"])
def test_float64(name: str) -> None:
    for layout in layouts(name, LENGTHS[-1]):
        assert worst(name, layout, eager(name, layout), np.float64) <= 1, layout
        assert worst(name, layout, compiled(name, layout, np.float64), np.float64) <= 1, layout


@pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")
@pytest.mark.parametrize("name", SUMMING)
def test_on_a_gpu(name: str) -> None:
    for layout in layouts(name, 3001):
        run = compiled(name, layout, np.float32, lambda graph: compile_on(graph, EmulatedDevice()))
        assert worst(name, layout, run) <= 1, layout


def test_gradients_of_weights_over_many_rows() -> None:
    """Each row of a layer norm adds to the gradients of its weight and its bias."""
    def gradients(x: fw.Tensor, g: fw.Tensor) -> Any:
        weight, bias = (fw.nn.Parameter(fw.ones((33,))) for _ in range(2))
        (fw.nn.functional.layer_norm(x, (33,), weight, bias) * g).sum().backward()
        return weight.grad, bias.grad

    x = np.random.default_rng(0).standard_normal((50_000, 33)).astype(np.float32)
    g = np.full(x.shape, 0.1, np.float32)
    graph, arrays = recorded(gradients, fw.from_numpy(x), fw.from_numpy(g))
    for results in (compile_graph(graph)(arrays), gradients(*map(fw.from_numpy, (x, g)))):
        assert of_bound("sum", g, (0,), np.asarray(results[1])) <= 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits(dtype: str) -> None:
    """Sums are made in a wider dtype and rounded once."""
    x = fw.full((30_000, 3), 0.1).astype(dtype)
    exact = x.astype("float64").sum(0).numpy()
    graph, arrays = recorded(lambda x: x.sum(0), x)
    for got in (x.sum(0), fw.from_numpy(np.asarray(compile_graph(graph)(arrays)[0]))):
        rounded = fw.from_numpy(exact).astype(dtype)
        wide, wanted = (t.astype("float64").numpy() for t in (got, rounded))
        np.testing.assert_array_equal(wide, wanted)


def test_the_bits_do_not_depend_on_threads() -> None:
    x = numbers(Layout((300_000, 5), (0,)), 1e2, np.float32, 0)
    runs = [compiled("sum", Layout(x.shape, axes), np.float32) for axes in ((0,), (1,), (0, 1))]
    before, found = fw.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            fw.set_num_threads(threads)
            found.append([run(x).tobytes() for run in runs])
    finally:
        fw.set_num_threads(before)
    assert found[0] == found[1] == found[2]
