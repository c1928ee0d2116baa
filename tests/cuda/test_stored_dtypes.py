"""CUDA C casts, moves and compares dtypes that are only stored as eager does, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpus import from_here
from oracle import recorded
from stored_functions import FUNCTIONS, leaves, numbers

import fusewire as fw
from fusewire.capture.passes.stored_dtypes import encode_stored
from fusewire.codegen.cuda.program import CUDA_LOWERING
from fusewire.codegen.partition.hybrid_executable import compile_hybrid
from fusewire.eager.arrays.dtypes import STORED


@pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["round trip", "move", "compare", "where", "write"])
def test_functions(name: str, dtype: Any, make_device: Any) -> None:
    x, q = (fw.tensor(t[:9, :6]) for t in numbers(dtype))
    graph, arrays = recorded(FUNCTIONS[name], x, q)
    device = make_device(0)
    program = compile_hybrid(encode_stored(graph), lambda part: from_here(part.graph, device),
                             CUDA_LOWERING)
    outputs = program([np.ascontiguousarray(a) for a in arrays])
    for got, expected in zip(outputs, leaves(FUNCTIONS[name](x, q)), strict=True):
        np.testing.assert_array_equal(got.view(np.uint8), expected.numpy().view(np.uint8))
