"""gelu(x * w + b) + x, which a compiler can make one pass over memory."""

from __future__ import annotations

from typing import Any

from fusewire.nn import functional as F

from ..peers import pure
from ..workload import Inputs, Workload
from .weights import normal

ROWS, COLUMNS = 8192, 1024

GRAPH = f"""fused (float[{ROWS},{COLUMNS}] x, float[{COLUMNS}] w, float[{COLUMNS}] b)
    => (float[{ROWS},{COLUMNS}] y) {{
    p = Mul(x, w)
    s = Add(p, b)
    g = Gelu<approximate="tanh">(s)
    y = Add(g, x)
}}"""


def inputs() -> Inputs:
    return {"x": normal(1, ROWS, COLUMNS), "w": normal(2, COLUMNS), "b": normal(3, COLUMNS)}


def fusewire(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(x * w + b, approximate="tanh") + x


def torch() -> Any:
    from torch.nn import functional

    return lambda x, w, b: functional.gelu(x * w + b, approximate="tanh") + x


def jax() -> Any:
    import jax

    return lambda x, w, b: jax.nn.gelu(x * w + b, approximate=True) + x


WORKLOADS = [Workload(
    name="gelu_bias_residual",
    about=f"gelu(x * w + b) + x, {ROWS} by {COLUMNS}",
    inputs=inputs,
    makers=pure(fusewire, torch, jax, GRAPH),
    flops=40 * ROWS * COLUMNS,
    size=8 * ROWS * COLUMNS,
    kept=True,
)]
