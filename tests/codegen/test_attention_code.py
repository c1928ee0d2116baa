"""Attention in one kernel: sizes that fill no tile, masks, groups, layouts; and when not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attentions import Case, distances, exact
from loop_kernels import TARGETS
from oracle import interpreted, recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import named

BOUND = 3e-6  # of an error, beside the largest element


CASES = {
    "whole tiles": Case(64, 64, 32, 32, causal=True),
    "one more than a block": Case(65, 65, causal=True),
    "several blocks": Case(150, 150, causal=True),
    "fewer queries": Case(9, 70, 48, 80),
    "fewer queries, causal": Case(9, 70, 33, 17, causal=True),
    "fewer keys": Case(70, 9, 7, 5),
    "fewer keys, causal": Case(70, 9, 24, 40, causal=True),
    "keys in an arena": Case(24, 5000, 16, 24, heads=1),
    "four queries": Case(4, 33),
    "one query": Case(1, 33),  # these two are opened
    "three queries": Case(3, 20, groups=2, mask="bool"),
    "groups": Case(20, 20, heads=6, groups=3, causal=True),
    "a mask": Case(20, 37, mask="bool"),
    "a causal mask": Case(37, 37, mask="bool", causal=True, heads=4, groups=2),
    "numbers added": Case(21, 40, mask="numbers"),
    "queries that look at nothing": Case(21, 40, mask="nothing"),
}


def names(function: Callable[..., Any], *arrays: Any) -> list[str]:
    """The kernels of a function."""
    graph, _ = recorded(function, *map(fw.from_numpy, arrays))
    return [x.kernel.name for x in lower_graph(graph, Machine())[1]]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_close_to_float64(name: str, target: str) -> None:
    case = CASES[name]
    arrays = case.arrays()
    graph, given = recorded(case.function(), *map(fw.from_numpy, arrays))
    found = compile_graph(graph, named(target))(list(given))
    assert max(distances(found, exact(case, arrays))) < BOUND


@pytest.mark.parametrize("name", ["whole tiles", "groups", "a mask"])
def test_there_is_one_kernel_each_way(name: str) -> None:
    found = names(CASES[name].function(), *CASES[name].arrays())
    assert [n.split("_", 1)[1] for n in found][:2] == ["attention", "attention_back"]
    assert not any("contract" in n or "exp" in n for n in found)


@pytest.mark.parametrize("machine", [Machine(), Machine(32, 16, 1), Machine(16, 16, 2)])
@pytest.mark.parametrize("case", [
    Case(13, 11, 5, 3, causal=True), Case(9, 20, 4, 4, mask="nothing"),
    Case(12, 9, 3, 5, heads=2, groups=2)])
def test_kernels_mean_the_same_to_the_interpreter(case: Case, machine: Machine) -> None:
    """Scratch begins as 77s there: what nobody wrote is not read."""
    arrays = case.arrays()
    graph, given = recorded(case.function(), *map(fw.from_numpy, arrays))
    found = interpreted(graph, given, machine)
    assert max(distances(found, exact(case, arrays))) < BOUND


def test_heads_are_read_where_projections_left_them() -> None:
    """Query, key and value are parts of one product, with heads behind positions."""
    def layer(x: Any, w: Any) -> Any:
        n, t, width = x.shape
        q, k, v = (part.reshape(n, t, 4, -1).permute_dims((0, 2, 1, 3))
                   for part in (x @ w).chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.permute_dims((0, 2, 1, 3)).reshape(n, t, width)

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 30, 32), (32, 96)))
    assert names(layer, x, w) == ["k0_contract", "k1_attention", "k2_permute_dims"]
    right = layer(*(fw.from_numpy(a.astype(np.float64)) for a in (x, w))).numpy()
    assert abs(fw.compile(layer)(fw.from_numpy(x), fw.from_numpy(w)).numpy() - right).max() < 1e-4


def test_results_do_not_depend_on_threads() -> None:
    case = Case(130, 130, heads=1, causal=True)
    before = fw.get_num_threads()
    graph, given = recorded(case.function(), *map(fw.from_numpy, case.arrays()))
    results = []
    try:
        for threads in (1, 2):
            fw.set_num_threads(threads)
            results.append(compile_graph(graph)(list(given)))
    finally:
        fw.set_num_threads(before)
    assert all((a == b).all() for a, b in zip(*results))


def test_nan_stays_in_its_row_and_infinite_scores_are_nan() -> None:
    arrays = Case(16, 16).arrays()
    arrays[0][0, 0, 3, 0] = np.nan
    arrays[0][1, 1, 5] = np.inf
    attention = fw.compile(F.scaled_dot_product_attention)
    for _ in range(2):
        out = attention(*map(fw.from_numpy, arrays[:3])).numpy()
    gone = np.isnan(out)
    assert gone[0, 0, 3].all() and gone[1, 1, 5].all() and gone.sum() == 2 * 16


@pytest.mark.parametrize("why, case, dtype", [
    ("float64", Case(32, 32), np.float64), ("a few queries", Case(3, 32), np.float32),
    ("keys that no stack has room for", Case(8, 70000, 4, 4), np.float32)])
def test_others_are_opened(why: str, case: Case, dtype: Any) -> None:
    def forward(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v)

    arrays = [a.astype(dtype) for a in case.arrays()[:3]]
    assert not any("attention" in name for name in names(forward, *arrays))


def test_a_second_derivative_is_that_of_its_ops() -> None:
    def gap(q: Any) -> Any:
        out = F.scaled_dot_product_attention(q, q * 2, q + 1, is_causal=True)
        first = fw.grad((out * out).sum(), [q], create_graph=True)[0]
        return fw.grad((first * first).sum(), [q])[0]

    array = np.random.default_rng(0).standard_normal((1, 2, 12, 4))
    right = gap(fw.from_numpy(array).requires_grad_()).numpy()
    x = fw.from_numpy(array.astype(np.float32)).requires_grad_()
    compiled = fw.compile(gap)
    for _ in range(2):
        found = compiled(x).numpy()
    assert abs(found - right).max() < 1e-4 * abs(right).max()


def test_eager_takes_the_same_kernels() -> None:
    case = Case(256, 256, 64, 64, heads=4, causal=True)
    tensors = [fw.from_numpy(a) for a in case.arrays()]
    found = case.function()(*tensors)
    graph, given = recorded(case.function(), *tensors)
    assert all((a.numpy() == b).all() for a, b in zip(found, compile_graph(graph)(list(given))))


def test_native_parts_beside_calls_of_a_library_keep_it_whole() -> None:
    def mixed(q: Any, k: Any, v: Any) -> Any:
        return fw.sort(F.scaled_dot_product_attention(q, k, v, is_causal=True), axis=-1)

    tensors = [fw.from_numpy(a) for a in Case(16, 16).arrays()[:3]]
    graph, _ = recorded(mixed, *tensors)
    rows = compile_graph(graph).rows(1)
    assert any("attention" in row["name"] for row in rows)


def test_a_mask_of_large_negative_numbers_hides_keys() -> None:
    """Weights too small for normal numbers are 0: products with them would take far longer."""
    rng = np.random.default_rng(0)
    q, k, v = (fw.from_numpy(rng.standard_normal((1, 2, 70, 16), np.float32)) for _ in range(3))
    hidden = rng.random((70, 70)) < 0.5
    masks = [np.where(hidden, x, 0).astype(np.float32) for x in (-100, -np.inf)]
    attend = fw.compile(lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask))
    for _ in range(3):
        large, infinite = (attend(q, k, v, fw.from_numpy(mask)).numpy() for mask in masks)
    np.testing.assert_array_equal(large, infinite)
