"""Reductions along an axis whose elements are far apart: blocks of rows are transposed first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.ir import loop_ir
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import named

TARGETS = ["", "x86-64-v3", "x86-64"]


def norm(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
    """A layer norm over the channels of an image."""
    return F.layer_norm(fw.permute_dims(x, (0, 2, 1)), w.shape, w)


def norm_of_sum(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
    """The same of two operands, of which one is contiguous already."""
    turned = fw.permute_dims(x, (0, 2, 1))
    return F.layer_norm(turned + fw.reshape(x, turned.shape), w.shape, w)


def softmax(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
    return fw.softmax(fw.permute_dims(x, (0, 2, 1)) * w, -1)


def transposes(fn: Any, *arrays: Any) -> int:
    """The blocks that the kernels of a function transpose, as statements."""
    graph, _ = recorded(fn, *map(fw.from_numpy, arrays))
    return sum(isinstance(s, loop_ir.Transpose) for x in lower_graph(graph, Machine())[1]
               for s in loop_ir.walk(x.kernel.body))


@pytest.mark.parametrize("shape", [(1, 96, 64), (2, 48, 49), (3, 17, 16), (1, 100, 35),
                                   (1, 270, 20)])
@pytest.mark.parametrize("fn", [norm, norm_of_sum, softmax])
def test_reductions_of_distant_elements(fn: Any, shape: tuple[int, int, int]) -> None:
    """With a last block of fewer rows, and rows that are no multiple of a vector."""
    rng = np.random.default_rng(sum(shape))
    x, w = (rng.standard_normal(s).astype("float32") for s in (shape, shape[1:2]))
    assert transposes(fn, x, w)
    graph, arrays = recorded(fn, fw.from_numpy(x), fw.from_numpy(w))
    want = fn(fw.from_numpy(x), fw.from_numpy(w))
    for target in TARGETS:
        assert_same(compile_graph(graph, named(target))(list(arrays))[0], want)
    assert_same(interpreted(graph, arrays)[0], want)


@pytest.mark.parametrize("shape", [(1, 96, 5), (1, 5, 96)])
def test_few_rows_and_short_ones_are_read_where_they_are(shape: tuple[int, int, int]) -> None:
    x, w = np.ones(shape, "float32"), np.ones(shape[1:2], "float32")
    assert not transposes(norm, x, w)
