"""Attention on a GPU and its gradients, in the emulator, which finds races: sizes around those of
tiles, masks, groups, few queries; what there is no kernel for; and what the kernels take of a GPU.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from attentions import Case, distances, exact
from compiled_for_cuda import compile_on, program_of
from cuda_kernels import Taken
from emulated import EmulatedDevice
from emulated_gpu import emulated_gpus
from oracle import assert_same, interpreted, recorded, tensors
from samples import ROWS, Row

import fusewire as fw
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.cuda.program import CUDA_LOWERING, GPU_MACHINE
from fusewire.codegen.cuda.runtime import nvrtc

WAY_BACK = ["attention_back_logs", "attention_back_along", "attention_back_queries",
            "attention_back_keys"]
BOUND = 3e-6  # of an error, beside the largest element

CASES = {
    "whole tiles": Case(64, 64, 16, 16, heads=1, causal=True),
    "one more than a tile": Case(65, 33, 8, 8, heads=1),
    "one more than a tile, causal": Case(65, 65, 8, 8, heads=1, causal=True),
    "widths that are no quads": Case(20, 40, 7, 5, heads=1, mask="nothing"),
    "wide": Case(5, 17, 256, 200, heads=1),
    "wide, in tiles of 32": Case(33, 33, 128, 128, heads=1, causal=True),
    "fewer keys": Case(40, 9, 8, 8, heads=1, causal=True),
    "many heads, fewer keys": Case(40, 9, 8, 8, heads=64),
    "many heads, groups, causal": Case(33, 35, 8, 8, heads=64, groups=2, causal=True),
    "many heads, mask": Case(20, 37, 8, 5, heads=64, mask="nothing"),
    "one query": Case(1, 33),
    "one query, groups": Case(1, 50, 8, 8, heads=4, groups=2),
    "few queries, groups, causal": Case(5, 50, 8, 8, heads=6, groups=3, causal=True),
    "groups": Case(20, 20, 8, 8, heads=6, groups=3, causal=True),
    "a mask": Case(20, 37, 8, 8, mask="bool"),
    "a causal mask": Case(37, 37, 8, 8, mask="bool", causal=True, groups=2),
    "numbers added": Case(21, 40, 8, 8, mask="numbers"),
    "numbers added, causal": Case(40, 40, 8, 8, mask="numbers", causal=True),
    "queries that look at nothing": Case(21, 40, 8, 8, mask="nothing"),
    "long keys": Case(1, 300, 8, 8),
    "long keys, groups, causal": Case(3, 300, 8, 8, heads=4, groups=2, causal=True),
    "long keys, mask": Case(2, 300, 8, 12, mask="nothing"),
}


def graph_of(case: Case, arrays: list[Any] | None = None) -> tuple[Graph, list[Any]]:
    """The attention of a case and its gradients."""
    return recorded(case.function(), *map(fw.from_numpy, arrays or case.arrays()))


def names(graph: Graph) -> list[str]:
    functions = program_of(graph).module.functions
    return [k.name.split("_", 1)[1] for f in functions for k in f.kernels]


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_close_to_float64(name: str) -> None:
    case = CASES[name]
    graph, given = graph_of(case)
    program = compile_on(graph, EmulatedDevice(len(name) % 3))
    assert max(distances(program(list(given)), exact(case, case.arrays()))) < BOUND


@pytest.mark.parametrize("name", ["a causal mask", "long keys, mask"])
def test_the_order_of_threads_does_not_matter(name: str) -> None:
    graph, given = graph_of(CASES[name])
    found = [compile_on(graph, EmulatedDevice(order))(list(given)) for order in (0, 1, 7)]
    assert all((a == b).all() for other in found[1:] for a, b in zip(found[0], other))


@pytest.mark.parametrize("name", ["widths that are no quads", "fewer keys"])
def test_kernels_mean_the_same_to_the_interpreter(name: str) -> None:
    case = CASES[name]
    graph, given = graph_of(case)
    found = interpreted(graph, given, GPU_MACHINE, CUDA_LOWERING)
    assert max(distances(found, exact(case, case.arrays()))) < BOUND


@pytest.mark.parametrize("row", [r for r in ROWS if r.op.startswith("attention")], ids=str)
def test_samples_give_what_numpy_gives(row: Row) -> None:
    """Those in float64 are opened."""
    given = [tensors(a) for a in row.inputs(np.random.default_rng(0))]
    call = row.call
    graph, arrays = recorded(lambda given: [call(*xs) for xs in given], given)
    want = evaluate(graph, [np.copy(a) for a in arrays])
    found = compile_on(graph, EmulatedDevice())([np.copy(a) for a in arrays])
    for a, b in zip(found, want):
        assert_same(a, b, row.tolerance / 2e-6)


@pytest.mark.parametrize("dtype", [fw.float16, fw.bfloat16], ids=str)
@pytest.mark.parametrize("case", [
    Case(20, 37, 8, 8, heads=4, groups=2, mask="bool"), Case(21, 40, 7, 5, mask="numbers"),
    Case(40, 40, 8, 8, causal=True, mask="numbers"), Case(5, 17, 8, 12, mask="nothing")])
def test_floats_of_16_bits_are_read_as_they_lie(case: Case, dtype: Any) -> None:
    """What lies between is float32, and is rounded once, as NumPy has it."""
    graph, given = graph_of(case, case.arrays(dtype=dtype))
    first, *then = names(graph)
    assert first == "attention" and {*then} == {*WAY_BACK, "cast"}
    found = compile_on(graph, EmulatedDevice())(list(given))
    for a, b in zip(found, evaluate(graph, list(given)), strict=True):
        assert a.dtype == b.dtype == dtype
        unit = float(fw.finfo(dtype).eps)
        np.testing.assert_allclose(a.astype(float), b.astype(float), unit, BOUND)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_compiled_functions_on_a_gpu_run_them(dtype: Any) -> None:
    case = Case(20, 20, 8, 8, causal=True)
    given = list(map(fw.from_numpy, case.arrays(dtype=dtype)))
    right = case.function()(*given)
    compiled = fw.compile(case.function())
    with emulated_gpus() as gpus:
        for _ in range(3):
            found = compiled(*[x.cuda() for x in given])
        for a, b in zip(found, right, strict=True):
            assert (a.device, a.dtype) == ("cuda:0", b.dtype)
            np.testing.assert_allclose(
                a.cpu().numpy(), b.numpy(), 2 * float(fw.finfo(b.dtype).eps), BOUND)
    ran = [name.split("_", 1)[1] for name in gpus[0].launches]
    last = [n for n in ran if n.startswith("attention")][-5:]
    assert sorted(last) == sorted(["attention", *WAY_BACK])  # two do not need each other
    assert not compiled.refusals


@pytest.mark.parametrize("why, case, kernels", [
    ("both ways", Case(70, 70), ["attention", *WAY_BACK]),
    ("keys are shared", Case(1, 300), ["attention", "attention_total", *WAY_BACK]),
    ("the widest heads both ways", Case(70, 70, 168, 168), ["attention", *WAY_BACK]),
    ("no shared memory for the way back", Case(70, 70, 176, 168), ["attention"]),
    ("none for so wide heads at all", Case(70, 70, 400, 8), [])])
def test_which_have_kernels(why: str, case: Case, kernels: list[str]) -> None:
    found = [n for n in names(graph_of(case)[0]) if n.startswith("attention")]
    assert sorted(found) == sorted(kernels)


def test_nan_stays_in_its_row_and_infinite_scores_are_nan() -> None:
    case = Case(20, 80, 8, 8)
    arrays = case.arrays()
    arrays[0][0, 0, 3, 0] = np.nan
    arrays[0][1, 1, 5] = np.inf
    graph, given = graph_of(case, arrays)
    found = compile_on(graph, EmulatedDevice())(list(given))
    with np.errstate(invalid="ignore"):
        right = evaluate(graph, list(given))
    assert all((np.isnan(a) == np.isnan(b)).all() for a, b in zip(found, right, strict=True))
    gone = np.isnan(found[0])
    assert gone[0, 0, 3].all() and gone[1, 1, 5].all() and gone.sum() == 2 * 8


def test_scores_of_a_whole_tile_may_be_minus_infinity() -> None:
    """They weigh nothing beside those that come later; where all are, there is no weight."""
    case = Case(2, 80, 8, 8, heads=1)
    q, k, v, g = case.arrays()
    q[:] = abs(q)
    k[0, :, :64] = -np.inf
    k[1] = -np.inf
    with np.errstate(invalid="ignore"):
        graph, given = graph_of(case, [q, k, v, g])
        out, *_ = compile_on(graph, EmulatedDevice())(list(given))
        right, *_ = case.function()(*map(fw.from_numpy, (q, k, v, g)))
    assert_same(out, right.numpy(), 1e-5 / 2e-6)
    assert np.isnan(out[1]).all() and np.isfinite(out[0]).all()


def test_rows_behind_the_last_one_take_nothing() -> None:
    """Not even beside a last row whose scores are so low that others would be infinite powers."""
    case = Case(21, 40, 8, 8)
    arrays = case.arrays()
    arrays[0][:, :, -1], arrays[1] = 100, -abs(arrays[1])
    graph, given = graph_of(case, arrays)
    found = compile_on(graph, EmulatedDevice())(list(given))
    assert max(distances(found, exact(case, arrays))) < 10 * BOUND


def test_gradients_of_what_looks_at_nothing_are_not_looked_at() -> None:
    """Whatever comes back to such a query, nan as well, goes nowhere."""
    case = Case(21, 40, 8, 8, mask="nothing")
    arrays = case.arrays()
    right = exact(case, arrays)
    arrays[3][:, :, case.queries // 2] = np.nan
    graph, given = graph_of(case, arrays)
    assert max(distances(compile_on(graph, EmulatedDevice())(list(given)), right)) < BOUND


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("case", [
    Case(256, 256, 64, 64, heads=32, causal=True), Case(250, 250, 128, 128, mask="bool"),
    Case(1, 2048, 64, 64, heads=8, groups=4)])
def test_threads_keep_all_they_need_in_registers(case: Case, arch: str) -> None:
    module = program_of(graph_of(case)[0]).module
    made = nvrtc.compile(module.source, arch).resources
    for f in module.functions:
        assert made[f.name].stack == 0 and not Taken(f.block, made[f.name]).too_much


@pytest.mark.parametrize("case", [Case(600, 500, 8, 8), Case(500, 600, 8, 8, mask="nothing")])
def test_scores_never_lie_in_memory(case: Case) -> None:
    """Neither way has so much as one head's matrix of scores, with all that it works in."""
    program = program_of(graph_of(case)[0])
    assert program.arena + program.scratch < 4 * case.queries * case.keys
