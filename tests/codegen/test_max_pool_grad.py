"""The backward of max pooling is one kernel of the program: gradients go to the first maxima."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from oracle import interpreted, recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.ir.target_info import Machine

POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def gradient(x: fw.Tensor, axes: int, **how: Any) -> fw.Tensor:
    """The gradient of a weighted sum of the pooled values."""
    x = x.detach().requires_grad_()
    pooled = POOL[axes](x, **how)
    weights = fw.arange(pooled.size, dtype=x.dtype).reshape(pooled.shape) % 7 + 1
    (pooled * weights).sum().backward()
    return x.grad


def assert_equal(x: fw.Tensor, axes: int, **how: Any) -> Any:
    """Compiled, and interpreted for a small machine: the numbers of NumPy."""
    graph, arrays = recorded(lambda x: gradient(x, axes, **how), x)
    program, (wanted,) = compile_graph(graph), evaluate(graph, arrays)
    for (result,) in program(list(arrays)), interpreted(graph, arrays, Machine(8, 8)):
        np.testing.assert_array_equal(result, wanted)
    return program


def geometry(rng: random.Random) -> tuple[tuple[int, ...], int, dict[str, Any]]:
    """The shape of an input, the number of pooled axes, and the parameters of a pooling."""
    axes = rng.randint(1, 3)
    kernel = [rng.randint(1, 3) for _ in range(axes)]
    dilation = [rng.randint(1, 2) for _ in range(axes)]
    sizes = [(k - 1) * r + rng.randint(1, 9) for k, r in zip(kernel, dilation)]
    how = {"kernel_size": tuple(kernel), "stride": tuple(rng.randint(1, 3) for _ in range(axes)),
           "padding": tuple(rng.randint(0, k // 2) for k in kernel), "dilation": tuple(dilation)}
    return (rng.randint(1, 3), rng.randint(1, 4), *sizes), axes, how


@pytest.mark.parametrize("seed", range(60))
def test_windows_of_all_kinds(seed: int) -> None:
    rng = random.Random(seed)
    shape, axes, how = geometry(rng)
    values = np.random.default_rng(seed).integers(-3, 4, shape)  # equal ones, too
    x = fw.from_numpy(values.astype(rng.choice(["float32", "float64"])))
    assert_equal(x, axes, **how)


def test_the_backward_is_one_kernel() -> None:
    program = assert_equal(fw.randn(2, 3, 8, 8), 2, kernel_size=3, stride=2, padding=1)
    assert sum("max_pool_back" in row["name"] for row in program.rows()) == 1


@pytest.mark.parametrize("value", [float("nan"), -float("inf"), float("inf")])
def test_special_values(value: float) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (2, 2, 9, 9)).astype(np.float32)
    x[:, :, 2:6, 1:7] = value
    assert_equal(fw.from_numpy(x), 2, kernel_size=3, stride=2, padding=1)
    assert_equal(fw.full((1, 1, 4, 4), value), 2, kernel_size=2)


def test_any_number_of_samples() -> None:
    compiled = fw.compile(lambda x: gradient(x * 2, 2, kernel_size=3, stride=2, padding=1),
                          dynamic=True)
    for n in (3, 1, 8, 17, 5):
        x = fw.randn(n, 2, 9, 7)
        np.testing.assert_array_equal(
            compiled(x).numpy(), gradient(x * 2, 2, kernel_size=3, stride=2, padding=1).numpy())
    assert compiled.stats.recordings <= 2
