"""Large products of matrices that lie in memory say so, and are what a library computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from compiled_for_cuda import compile_on
from emulated import EmulatedDevice
from oracle import assert_same, recorded, tensors

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.gpu.gemm import library_pattern
from fusewire.codegen.ir.loop_ir import Product


class Case(NamedTuple):
    """A function of arrays of these shapes; the sizes of the product that it is, and how far its
    left matrix steps from row to row and column to column; None where it is none."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[int, int, int, int] | None  # batch, rows, columns, depth
    steps: tuple[int, int] = (0, 0)


CASES = {
    "plain": Case(lambda x, y: x @ y, ((40, 70), (70, 50)), (1, 40, 50, 70), (70, 1)),
    "with more behind it": Case(
        lambda x, y: fw.relu(x @ y + 1), ((40, 70), (70, 50)), (1, 40, 50, 70), (70, 1)),
    "turned": Case(lambda x, y: x.T @ y, ((70, 40), (70, 50)), (1, 40, 50, 70), (1, 40)),
    "batched": Case(lambda x, y: x @ y.mT, ((3, 40, 70), (3, 50, 70)), (3, 40, 50, 70), (70, 1)),
    "rows of a larger matrix": Case(
        lambda x, y: x[10:] @ y, ((40, 70), (70, 50)), (1, 30, 50, 70), (70, 1)),
    "heads side by side": Case(
        lambda x, y: fw.einsum("bqhd,bkhd->bhqk", x, y), ((2, 9, 3, 8), (2, 11, 3, 8)), None),
    "computed while it is read": Case(
        lambda x, y: F.conv2d(x, y), ((2, 8, 9, 9), (16, 8, 3, 3)), None),
}


def product_in(case: Case, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> Product | None:
    """What the program of a case says; its numbers, and the library's, are NumPy's."""
    monkeypatch.setattr(library_pattern, "MIN_LIBRARY_OPERATIONS", 1)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(dtype) for shape in case.shapes]
    graph, arrays = recorded(case.function, *tensors(given))
    program = compile_on(graph, EmulatedDevice())
    for got, wanted in zip(program(list(arrays)), evaluate(graph, arrays)):
        assert_same(got, wanted, 10)
    return program.program.module.functions[0].product


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_product_says_where_its_matrices_lie(name: str, dtype: str,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    found = product_in(case, dtype, monkeypatch)
    if case.sizes is None:
        assert found is None
        return
    assert found is not None
    assert (found.batch, found.rows, found.columns, found.depth) == case.sizes
    assert (found.left.row, found.left.column) == case.steps


def test_small_products_are_not_worth_a_call() -> None:
    graph, _ = recorded(lambda x, y: x @ y, fw.ones(40, 70), fw.ones(70, 50))
    program = compile_on(graph, EmulatedDevice())
    assert program.program.module.functions[0].product is None
