"""Every op, forward and backward, gives as CUDA C what NumPy gives, for all inputs of a row: the
first row of each op and a sample of the others, and a sample for floats of other sizes. In the
emulator, threads and blocks take turns in another order from row to row, and each access to memory
is looked at."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpus import from_here
from oracle import assert_same, recorded, units_apart
from row_programs import OF_FLOATS, TREES, backward, cases, cases_in, forward, weighted
from samples import ROWS, Row
from sampling import sample, sample_of_each

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.cuda.program import CUDA_LOWERING
from fusewire.codegen.partition.hybrid_executable import compile_hybrid
from fusewire.eager.arrays.dtypes import is_small

WHOLE = [row for row in ROWS if row not in TREES]
op_of = operator.attrgetter("op")
DTYPES = {"float16": fw.float16, "bfloat16": fw.bfloat16, "float64": fw.float64}
ORDERS = (0, 1, 2, 3, 4)  # of threads and blocks: forwards, backwards, by seeds


def check(make_device: Any, row: Row, fn: Callable[..., Any], *given: Any) -> None:
    """What a device computes is what NumPy computes, node by node."""
    graph, arrays = recorded(fn, *given)
    device = make_device(ORDERS[ROWS.index(row) % len(ORDERS)])
    program = compile_hybrid(graph, lambda part: from_here(part.graph, device),
                             lambda device: CUDA_LOWERING)
    wanted = evaluate(graph, [np.copy(a) for a in arrays])
    for got, expected in zip(program([np.copy(a) for a in arrays]), wanted, strict=True):
        if is_small(expected.dtype):  # one number off where it lies in the middle of two
            assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
            assert units_apart(got, expected).max(initial=0) <= 1
        else:
            assert_same(got, expected, row.tolerance / 2e-6)


@pytest.mark.parametrize("row", sample_of_each(WHOLE, op_of, 60, seed=4), ids=str)
def test_every_op(make_device: Any, row: Row) -> None:
    with np.errstate(all="ignore"):
        check(make_device, row, forward(row), cases(row))


@pytest.mark.parametrize("row", sample_of_each([r for r in WHOLE if r.grad], op_of, 40, seed=5),
                         ids=str)
def test_every_gradient(make_device: Any, row: Row) -> None:
    with np.errstate(all="ignore"):
        given, us = weighted(row, cases(row, requires_grad=True))
        if given:
            check(make_device, row, backward(row), given, us)


@pytest.mark.parametrize("row", sample(OF_FLOATS, 20, seed=2), ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_floats_of_other_sizes(make_device: Any, row: Row, dtype: str) -> None:
    with np.errstate(all="ignore"):
        given = cases_in(row, DTYPES[dtype])
        if given:
            check(make_device, row, forward(row), given)


@pytest.mark.parametrize("row", sample([r for r in OF_FLOATS if r.grad], 12, seed=3), ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_other_sizes(make_device: Any, row: Row, dtype: str) -> None:
    with np.errstate(all="ignore"):
        given, us = weighted(row, cases_in(row, DTYPES[dtype], requires_grad=True))
        if given:
            check(make_device, row, backward(row), given, us)
