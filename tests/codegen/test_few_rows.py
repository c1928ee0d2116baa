"""Products of few rows with 16-bit weights convert each weight once, inside of the product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import recorded

import fusewire as fw
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.ir.target_info import Machine


def operands(rows: int, dtype: Any) -> list[fw.Tensor]:
    """Rows and a weight (outputs, inputs)."""
    rng = np.random.default_rng(rows)
    return [fw.Tensor(rng.standard_normal(shape).astype(np.float32)).astype(dtype)
            for shape in ((rows, 96), (50, 96))]


@pytest.mark.parametrize("dtype", [fw.bfloat16, fw.float16], ids=lambda d: d.name)
@pytest.mark.parametrize("rows", [2, 3, 4])
def test_the_weight_is_read_as_it_is(rows: int, dtype: Any) -> None:
    x, weight = operands(rows, dtype)
    graph, given = recorded(lambda x, w: x @ w.mT, x, weight)
    kernels = [x.kernel for x in lower_graph(graph, Machine())[1]]
    assert [k.name.split("_", 1)[1] for k in kernels] == ["cast", "sum_cast"]
    assert max(b.size for k in kernels for b in k.outputs) < weight.size
    found = compile_graph(graph)(list(given))[0].astype(np.float32)
    wanted = x.astype(fw.float32).numpy() @ weight.astype(fw.float32).numpy().T
    np.testing.assert_allclose(found, wanted, rtol=0.01, atol=0.05)


def test_many_rows_are_a_product() -> None:
    graph, _ = recorded(lambda x, w: x @ w.mT, *operands(32, fw.bfloat16))
    assert any("contract" in x.kernel.name for x in lower_graph(graph, Machine())[1])


@pytest.mark.parametrize(("outputs", "kernels"), [(64, ["sum"]), (2048, ["add", "sum"])])
def test_a_vector_is_computed_once_for_a_large_matrix(outputs: int, kernels: list[str]) -> None:
    """Each row of the matrix would compute it again."""
    rng = np.random.default_rng(0)
    x, weight = (fw.Tensor(rng.standard_normal(shape).astype(np.float32))
                 for shape in ((1, 512), (outputs, 512)))
    graph, given = recorded(lambda x, w: (x.exp() + 1) @ w.mT, x, weight)
    assert [x.kernel.name.split("_", 1)[1] for x in lower_graph(graph, Machine())[1]] == kernels
    wanted = (np.exp(x.numpy()) + 1) @ weight.numpy().T
    np.testing.assert_allclose(compile_graph(graph)(list(given))[0], wanted, rtol=1e-4, atol=1e-3)
