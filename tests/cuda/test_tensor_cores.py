"""Products of floats of 16 bits go to tensor cores: who has which of them, their numbers, and what
they are read from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from choosing import Noting
from compiled_for_cuda import compile_on, program_of
from emulated import EmulatedDevice
from oracle import assert_same, interpreted, recorded

import fusewire as fw
import fusewire.nn.functional as F
from emulator.emulator import AVAILABLE
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.cuda.program import CUDA_LOWERING, GPU_MACHINE
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.codegen.gpu.cost_model import (
    FIRST_CANDIDATE,
    REFERENCE_CHIP,
    CandidateChoice,
    chip_of,
)
from fusewire.codegen.gpu.gemm import configs
from fusewire.codegen.gpu.gemm.configs import TENSOR_TILES, TensorTile
from fusewire.codegen.ir.loop_ir import Kernel, Mma, walk

runs = pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")
in_16_bits = pytest.mark.parametrize("dtype", [fw.bfloat16, fw.float16])


def weight_gradient(x: fw.Tensor, w: fw.Tensor) -> Any:
    own = w.detach().requires_grad_()
    return fw.grad(F.conv2d(x, own, padding=1).sum(), own)


Function = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]

CASES: dict[str, tuple[Function, Shapes]] = {
    "sizes that are no tiles": (lambda x, y: x @ y, ((40, 71), (71, 50))),
    "with more behind it": (lambda x, y: fw.relu(x @ y + 1), ((130, 96), (96, 72))),
    "moved 8 at once": (lambda x, y: x @ y.mT, ((3, 64, 64), (3, 80, 64))),
    "moved 8 at once, not to the end of a block": (lambda x, y: x @ y.mT, ((33, 40), (35, 40))),
    "both across": (lambda x, y: x.T @ y, ((70, 40), (70, 50))),
    "few columns": (lambda x, y: x @ y, ((40, 70), (70, 6))),
    "computed while they are read": (lambda x, y: fw.tanh(x) @ (y * 2), ((20, 33), (33, 18))),
    "a convolution": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 8, 9, 9), (16, 8, 3, 3))),
    "its weight's gradient": (weight_gradient, ((2, 8, 9, 9), (16, 8, 3, 3))),
    "several letters": (lambda x, y: fw.einsum("bqhd,bkhd->bhqk", x, y),
                        ((2, 9, 3, 8), (2, 11, 3, 8))),
    "sums that are shared": (lambda x, y: x @ y, ((16, 2000), (2000, 24))),
}


def graph_of(function: Function, shapes: Shapes, dtype: Any) -> tuple[Graph, list[Any]]:
    rng = np.random.default_rng(0)
    given = [fw.tensor(rng.standard_normal(shape), dtype=dtype) for shape in shapes]
    graph, arrays = recorded(function, *given)
    return graph, list(arrays)


def by_tensor_cores(kernels: list[Kernel]) -> bool:
    return any(isinstance(s, Mma) for k in kernels for s in walk(k.body))


def kernels_of(graph: Graph, choice: CandidateChoice = FIRST_CANDIDATE) -> list[Kernel]:
    functions = program_of(graph, choice=choice).module.functions
    return [k for f in functions for k in f.kernels]


# ---- who has which
@pytest.mark.parametrize("tile", TENSOR_TILES, ids=str)
def test_every_element_of_a_tile_is_one_threads(tile: TensorTile) -> None:
    f = tile.fragments
    found = {(f.row(t, n), f.column(t, n)) for t in range(tile.threads)
             for n in range(tile.accumulators)}
    assert found == {(i, j) for i in range(tile.rows) for j in range(tile.columns)}
    assert len(found) == tile.threads * tile.accumulators


@pytest.mark.parametrize("tile", TENSOR_TILES, ids=str)
def test_a_threads_sums_come_in_pairs_of_neighbours(tile: TensorTile) -> None:
    f = tile.fragments
    for t in range(tile.threads):
        for n in range(0, tile.accumulators, tile.vector):
            assert (f.row(t, n + 1), f.column(t, n + 1)) == (f.row(t, n), f.column(t, n) + 1)


# ---- numbers
@runs
@in_16_bits
@pytest.mark.parametrize("name", CASES)
def test_products_are_those_of_numpy(name: str, dtype: Any) -> None:
    graph, arrays = graph_of(*CASES[name], dtype)
    program = compile_on(graph, EmulatedDevice(len(name) % 3))
    assert "fw_multiply<" in program.code.partition('extern "C"')[2]
    for got, wanted in zip(program(arrays), evaluate(graph, arrays)):
        assert_same(got, wanted, 4)


@in_16_bits
@pytest.mark.parametrize("name", ["sizes that are no tiles", "moved 8 at once"])
def test_kernels_mean_the_same_to_the_interpreter(name: str, dtype: Any) -> None:
    graph, arrays = graph_of(*CASES[name], dtype)
    for got, wanted in zip(interpreted(graph, arrays, GPU_MACHINE, CUDA_LOWERING),
                           evaluate(graph, arrays)):
        assert_same(got, wanted, 4)


@runs
def test_sums_are_float32() -> None:
    """In bfloat16, 1 could be added to 256 for ever."""
    program = compile_on(graph_of(lambda x: x @ x.T, ((17, 3000),), fw.bfloat16)[0],
                         EmulatedDevice())
    (got,) = program([np.ones((17, 3000), fw.bfloat16)])
    assert (got == np.array(3000, fw.bfloat16)).all()


@runs
def test_what_is_no_number_stays_in_its_rows_and_columns() -> None:
    """Elements behind the ends of operands are 0 in both: inf times 0 would be nan."""
    x, y = (np.ones(shape, np.float16) for shape in ((33, 45), (45, 41)))
    x[3, 44], y[44, 7], y[2, 9] = np.inf, -np.inf, np.nan
    graph, _ = recorded(lambda x, y: x @ y, fw.from_numpy(x), fw.from_numpy(y))
    (got,) = compile_on(graph, EmulatedDevice())([x, y])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, x @ y)


# ---- which products go there
@pytest.mark.parametrize(("dtypes", "where"), [
    ((fw.bfloat16, fw.bfloat16), True), ((fw.float16, fw.float16), True),
    ((fw.float32, fw.float32), False), ((fw.float16, fw.float32), False),
    ((fw.int16, fw.int16), False)])
def test_products_of_one_dtype_of_16_bits(dtypes: tuple[Any, Any], where: bool) -> None:
    graph, _ = recorded(lambda x, y: x @ y, *[fw.ones(40, 40, dtype=t) for t in dtypes])
    assert by_tensor_cores(kernels_of(graph)) is where


def test_a_gpu_may_have_none() -> None:
    """None that multiply bfloat16, before sm_80: then threads do."""
    graph, _ = graph_of(lambda x, y: x @ y, ((40, 40), (40, 40)), fw.bfloat16)
    assert chip_of("sm_75", 40) == replace(REFERENCE_CHIP, processors=40,
                                            tensor_core_products_per_cycle=0)
    assert not by_tensor_cores(kernels_of(graph, CandidateChoice(chip_of("sm_75", 40))))
    assert by_tensor_cores(kernels_of(graph, CandidateChoice(chip_of("sm_89", 40))))


# ---- what the kernels take
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["with more behind it", "moved 8 at once", "a convolution"])
def test_no_tile_spills(name: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "MEASURED_WITHIN", float("inf"))
    graph, _ = graph_of(*CASES[name], fw.bfloat16)
    for number in range(len(TENSOR_TILES)):
        source = program_of(graph, choice=Noting(number=number)).module.source
        taken = nvrtc.compile(source, arch).resources
        assert not any(r.spill_stores or r.spill_loads or r.stack for r in taken.values())
        assert all(r.shared <= 48 << 10 for r in taken.values())
