"""Softmax of rows: two reductions and a pass, all of which can read from the cache."""

from __future__ import annotations

from typing import Any

import fusewire as fw

from ..peers import pure
from ..workload import Workload
from .weights import normal

COLUMNS = 1024


def graph(rows: int) -> str:
    return f"""softmax (float[{rows},{COLUMNS}] x) => (float[{rows},{COLUMNS}] y) {{
    y = Softmax<axis=-1>(x)
}}"""


def fusewire(x: Any) -> Any:
    return fw.softmax(x, -1)


def torch() -> Any:
    import torch

    return lambda x: torch.softmax(x, -1)


def jax() -> Any:
    import jax

    return lambda x: jax.nn.softmax(x, -1)


def workload(rows: int) -> Workload:
    return Workload(
        name="softmax_rows",
        about=f"softmax over rows, {rows} by {COLUMNS}",
        inputs=lambda: {"x": normal(3, rows, COLUMNS, scale=3.0)},
        makers=pure(fusewire, torch, jax, graph(rows)),
        flops=25 * rows * COLUMNS,
        size=8 * rows * COLUMNS,
        kept=True,
    )


WORKLOADS, ON_GPU = [workload(8192)], [workload(1 << 16)]
