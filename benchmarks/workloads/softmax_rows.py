"""Softmax of rows: two reductions and a pass, which can all read from the cache."""

from __future__ import annotations

from typing import Any

import fusewire as fw

from ..peers import pure
from ..workload import Inputs, Workload
from .weights import normal

ROWS, COLUMNS = 8192, 1024

GRAPH = f"""softmax (float[{ROWS},{COLUMNS}] x) => (float[{ROWS},{COLUMNS}] y) {{
    y = Softmax<axis=-1>(x)
}}"""


def inputs() -> Inputs:
    return {"x": normal(3, ROWS, COLUMNS, scale=3.0)}


def fusewire(x: Any) -> Any:
    return fw.softmax(x, -1)


def torch() -> Any:
    import torch

    return lambda x: torch.softmax(x, -1)


def jax() -> Any:
    import jax

    return lambda x: jax.nn.softmax(x, -1)


WORKLOADS = [Workload(
    name="softmax_rows",
    about=f"softmax over rows, {ROWS} by {COLUMNS}",
    inputs=inputs,
    makers=pure(fusewire, torch, jax, GRAPH),
    flops=25 * ROWS * COLUMNS,
    size=8 * ROWS * COLUMNS,
    kept=True,
)]
