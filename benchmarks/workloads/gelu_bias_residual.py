"""gelu(x * w + b) + x, which a compiler can fuse into one pass over memory."""

from __future__ import annotations

from typing import Any

from fusewire.nn import functional as F

from ..peers import pure
from ..workload import Inputs, Workload
from .weights import normal

COLUMNS = 1024


def graph(rows: int) -> str:
    return f"""fused (float[{rows},{COLUMNS}] x, float[{COLUMNS}] w, float[{COLUMNS}] b)
    => (float[{rows},{COLUMNS}] y) {{
    p = Mul(x, w)
    s = Add(p, b)
    g = Gelu<approximate="tanh">(s)
    y = Add(g, x)
}}"""


def fusewire(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(x * w + b, approximate="tanh") + x


def torch() -> Any:
    from torch.nn import functional

    return lambda x, w, b: functional.gelu(x * w + b, approximate="tanh") + x


def jax() -> Any:
    import jax

    return lambda x, w, b: jax.nn.gelu(x * w + b, approximate=True) + x


def workload(rows: int) -> Workload:
    def inputs() -> Inputs:
        return {"x": normal(1, rows, COLUMNS), "w": normal(2, COLUMNS), "b": normal(3, COLUMNS)}

    return Workload(
        name="gelu_bias_residual",
        about=f"gelu(x * w + b) + x, {rows} by {COLUMNS}",
        inputs=inputs,
        makers=pure(fusewire, torch, jax, graph(rows)),
        flops=40 * rows * COLUMNS,
        size=8 * rows * COLUMNS,
        kept=True,
    )


WORKLOADS, ON_GPU = [workload(8192)], [workload(1 << 16)]
