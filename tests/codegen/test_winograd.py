"""Convolutions of 3 by 3 by tiles: sizes that fill no block, errors, and when there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from loop_kernels import TARGETS
from oracle import interpreted, recorded
from sampling import sample

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.cpu.winograd.matrices import SIZES, transforms
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import named
from fusewire.eager.settings import settings

BOUND = 5e-6  # of the error's norm, by that of the result
LAYERS = {  # x, filters, padding
    "blocks of rows": ((1, 32, 40, 40), 40, 1),
    "one image": ((1, 16, 16, 16), 16, 1),
    "odd sizes": ((3, 20, 17, 19), 37, 1),
    "a tile for each image": ((33, 24, 4, 4), 48, 1),
    "channels that fill no vector": ((5, 33, 7, 7), 65, 1),
    "channels that fill no task": ((16, 82, 4, 4), 16, 1),
    "no padding": ((8, 40, 8, 8), 32, 0),
    "wide rows": ((1, 16, 6, 150), 24, 2),
    "more padding on one side": ((20, 32, 12, 13), 32, (2, 0)),
    "more padding than windows": ((3, 16, 10, 9), 16, 3),
    "weights that pass by some channels at a time": ((17, 41, 8, 8), 70, 1),
}


@pytest.fixture(autouse=True)
def tiles_of_four() -> Iterator[None]:
    before = settings.winograd, settings.winograd_training
    settings.winograd = settings.winograd_training = 4
    yield
    settings.winograd, settings.winograd_training = before


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed + len(shape)).standard_normal(shape).astype(dtype)


def trained(padding: Any) -> Callable[..., Any]:
    """A layer with all that is fused to it, and its gradients."""
    def both_ways(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor, r: fw.Tensor, g: fw.Tensor) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        out = F.relu(F.conv2d(x, w, b, padding=padding) + r)
        dx, dw = fw.grad(out, [x, w], g)
        return out.detach(), dx * 2.0, w.detach() - dw * 0.5

    return both_ways


def arrays_of(shape: Any, filters: int, padding: Any) -> list[Any]:
    pads = padding if isinstance(padding, tuple) else (padding, padding)
    out = (shape[0], filters, *(n + 2 * p - 2 for n, p in zip(shape[2:], pads)))
    return [normal(*shape), normal(filters, shape[1], 3, 3), normal(filters), normal(*out),
            normal(*out, seed=1)]


def distance(got: Any, exact: Any) -> float:
    return float(np.linalg.norm(got.astype(np.float64) - exact) / np.linalg.norm(exact))


def names(function: Callable[..., Any], *arrays: Any) -> list[str]:
    """The kernels of a function."""
    graph, _ = recorded(function, *map(fw.from_numpy, arrays))
    return [x.kernel.name for x in lower_graph(
        graph, Machine(winograd=settings.winograd))[1]]


def by_tiles(function: Callable[..., Any], *arrays: Any) -> bool:
    return any(name.endswith(("_weights", "_tiles")) for name in names(function, *arrays))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layer, size", [*((layer, 4) for layer in LAYERS), ("odd sizes", 2)])
def test_a_layer_and_its_gradients_are_close_to_float64(layer: str, size: int, target: str) -> None:
    """Next to what the direct way gives in float64, whose relu has the same places."""
    settings.winograd = size
    function, arrays = trained(LAYERS[layer][2]), arrays_of(*LAYERS[layer])
    graph, given = recorded(function, *map(fw.from_numpy, arrays))
    found = compile_graph(graph, named(target))(list(given))
    exact = function(*(fw.from_numpy(a.astype(np.float64)) for a in arrays))
    for got, right in zip(found, exact):
        assert distance(got, right.numpy()) < BOUND


@pytest.mark.parametrize("layer", ["one image", "a tile for each image"])
def test_layers_and_gradients_are_computed_by_tiles(layer: str) -> None:
    found = names(trained(LAYERS[layer][2]), *arrays_of(*LAYERS[layer]))
    assert sum(name.endswith("_tiles") for name in found) == 2  # of the layer, and of dx
    assert sum(name.endswith("_back") for name in found) == 1  # of dw


def test_weights_that_change_are_transformed_where_they_are_used() -> None:
    """Others beforehand, as that need not be done in every call: the bits are the same."""
    x, w = normal(32, 40, 8, 8), normal(70, 40, 3, 3)
    graph, given = recorded(lambda x, w: F.conv2d(x, w, padding=1), *map(fw.from_numpy, (x, w)))
    kept = replace(graph, persistent=frozenset({1}))
    apart = [[x.kernel.name.endswith("_weights") for x in lower_graph(
        g, Machine(winograd_training=4))[1]]
             for g in (graph, kept)]
    assert [any(of) for of in apart] == [False, True]
    once, always = (compile_graph(g)(list(given))[0].copy() for g in (kept, graph))
    assert np.array_equal(once, always)


@pytest.mark.parametrize("machine, shape, padding", sample([
    (Machine(64, 32, 1, winograd=2), (1, 17, 7, 8), 1),
    (Machine(16, 16, 2, winograd=2), (4, 16, 4, 4), 1),
    (Machine(32, 16, 2), (1, 16, 13, 15), 1)], 1))
def test_kernels_mean_the_same_to_the_interpreter(machine: Machine, shape: Any, padding: int
                                                  ) -> None:
    """Scratch begins as 77s there: what nobody wrote is not read."""
    function, arrays = trained(padding), arrays_of(shape, 16, padding)
    graph, given = recorded(function, *map(fw.from_numpy, arrays))
    exact = function(*(fw.from_numpy(a.astype(np.float64)) for a in arrays))
    for got, right in zip(interpreted(graph, given, machine), exact):
        assert distance(got, right.numpy()) < BOUND


@pytest.mark.parametrize("size", SIZES)
def test_the_transforms_are_exact(size: int) -> None:
    """In whole numbers and fractions, results are those of the direct way."""
    made = transforms(size)
    d, g = list(range(3, 3 + made.side)), [2, -5, 7]

    def times(matrix: Any, vector: Any) -> list[Fraction]:
        return [sum(a * b for a, b in zip(row, vector)) for row in matrix]

    product = [a * b for a, b in zip(times(made.data, d), times(made.weights, g))]
    assert times(made.output, product) == [sum(g[k] * d[i + k] for k in range(3))
                                         for i in range(size)]


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    function, arrays = trained(1), arrays_of((32, 32, 8, 8), 64, 1)
    graph, given = recorded(function, *map(fw.from_numpy, arrays))
    before, found = fw.get_num_threads(), []
    for threads in (1, 2, 3):
        fw.set_num_threads(threads)
        found.append([a.copy() for a in compile_graph(graph)(list(given))])
    fw.set_num_threads(before)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other))


def test_not_a_number_spreads_in_its_tiles_only() -> None:
    """As documented: to the results of the tiles that read it, here the first of each image."""
    x, w = normal(2, 16, 32, 32), normal(16, 16, 3, 3)
    x[1, 3, 0, 0] = np.nan
    run = fw.compile(lambda x, w: F.conv2d(x, w, padding=1))
    tensors = fw.from_numpy(x), fw.from_numpy(w)
    out = [run(*tensors) for _ in range(2)][-1].numpy()
    assert np.isnan(out[1, :, :2, :2]).all()  # those of the direct way are among them
    lost = np.isnan(out)
    assert not lost[0].any() and not lost[1, :, 4:].any() and not lost[1, :, :, 4:].any()


@pytest.mark.parametrize("dtype, shape, weight, how", [
    (np.float64, (2, 16, 16, 16), (16, 16, 3, 3), {}),
    (np.float32, (2, 16, 20, 20), (16, 16, 3, 3), {"dilation": 2}),
    (np.float32, (2, 16, 16, 16), (16, 16, 3, 3), {"stride": 2}),
    (np.float32, (2, 32, 16, 16), (32, 16, 3, 3), {"groups": 2}),
    (np.float32, (2, 16, 16, 16), (16, 16, 5, 5), {}),
    (np.float32, (2, 8, 16, 16), (16, 8, 3, 3), {}),  # few channels
    (np.float32, (64, 16, 3, 3), (16, 16, 3, 3), {}),  # one result of each image
    (np.float32, (1, 64, 4, 4), (64, 64, 3, 3), {"padding": 1})])  # one tile
def test_others_are_computed_directly(dtype: Any, shape: Any, weight: Any, how: Any) -> None:
    assert not by_tiles(lambda x, w: F.conv2d(x, w, **how), normal(*shape, dtype=dtype),
                        normal(*weight, dtype=dtype))


def test_a_setting_chooses_the_direct_way() -> None:
    arrays = normal(2, 16, 16, 16), normal(16, 16, 3, 3)
    assert by_tiles(F.conv2d, *arrays)
    settings.winograd = 0
    assert not by_tiles(F.conv2d, *arrays)


def test_other_weights_give_other_results() -> None:
    """What was transformed once is transformed anew for them."""
    x = fw.from_numpy(normal(2, 16, 16, 16))
    layer = fw.nn.Conv2d(16, 16, 3).requires_grad_(False)
    run = fw.compile(lambda x: layer(x))
    for scale in (1.0, 2.0):
        layer.load_state_dict({"weight": fw.full((16, 16, 3, 3), scale), "bias": fw.zeros(16)})
        for _ in range(4):
            np.testing.assert_allclose(run(x).numpy(), layer(x).numpy(), 1e-4, 1e-4)
