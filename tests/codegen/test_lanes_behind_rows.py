"""What follows the sums of rows is computed for several rows at once, and is what it was."""

import numpy as np
import pytest

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.graph.text import parse
from fusewire.codegen.compile import compile_native, lower_graph
from fusewire.codegen.ir.loop_ir import For, walk
from fusewire.codegen.ir.target_info import Machine

ROWS = [1, 7, 16, 17, 64, 100, 1000, 5000]


def activated(x):
    return fw.tanh(x.sum(axis=1) * 0.1 + 0.5)


def of_two(x):
    """Two sums at once, one of which is a result as well."""
    total = x.sum(axis=-1)
    return fw.exp(total - x.max(axis=-1)), total


def squeezed(x):
    return fw.sigmoid(x.mean(axis=(1, 2)))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", [fw.float32, fw.float64, fw.bfloat16])
def test_it_gives_what_eager_gives(rows, dtype):
    x = fw.tensor(np.random.default_rng(rows).normal(size=(rows, 12)), dtype=dtype)
    compiled, places = fw.compile(activated), 1e-2 if dtype == fw.bfloat16 else 1e-5
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).astype(fw.float64).numpy(),
                                   activated(x).astype(fw.float64).numpy(), places, places)


@pytest.mark.parametrize("rows", ROWS)
def test_several_sums_and_results(rows):
    x = fw.tensor(np.random.default_rng(rows).normal(size=(rows, 12)).astype("float32"))
    compiled = fw.compile(of_two)
    for _ in range(3):
        for got, want in zip(compiled(x), of_two(x)):
            np.testing.assert_allclose(got.numpy(), want.numpy(), 2e-5, 1e-6)


@pytest.mark.parametrize("shape", [(40, 3, 5), (40, 5, 1), (17, 1, 9)])
def test_sums_over_several_axes(shape):
    x = fw.tensor(np.random.default_rng(0).normal(size=shape).astype("float32"))
    compiled = fw.compile(squeezed)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), squeezed(x).numpy(), 1e-5)


TEXT = """
    x = input()  # float32[64, 32]
    y = input()  # float32[64]
    v1 = sum(x, axis=(1,), keepdims=False)  # float32[64]
    v2 = add(v1, y)  # float32[64]
    v3 = {op}(v2)  # float32[64]
    return v3"""


@pytest.mark.parametrize("op, on_lanes", [("tanh", True), ("negative", False)])
def test_only_what_takes_long_is_kept_for_later(op, on_lanes):
    """A sum that little is done with is stored at once."""
    graph = parse(TEXT.format(op=op))
    _, launches = lower_graph(graph, Machine(64, 32, 2))
    loops = [s for s in walk(launches[0].kernel.body) if isinstance(s, For)]
    assert len(launches) == 1 and len(loops) == (3 if on_lanes else 2)
    x, y = np.ones((64, 32), "float32") / 100, np.arange(64, dtype="float32")
    np.testing.assert_allclose(compile_native(graph)([x, y])[0], evaluate(graph, [x, y])[0], 1e-5)
