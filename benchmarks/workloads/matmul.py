"""A square matrix product, which every library gives to its best code."""

from __future__ import annotations

from typing import Any

from ..peers import pure
from ..workload import Inputs, Workload
from .weights import normal

SIZE = 1024
GRAPH = f"""product (float[{SIZE},{SIZE}] a, float[{SIZE},{SIZE}] b) => (float[{SIZE},{SIZE}] y) {{
    y = MatMul(a, b)
}}"""


def inputs() -> Inputs:
    return {"a": normal(8, SIZE, SIZE), "b": normal(9, SIZE, SIZE)}


def product(a: Any, b: Any) -> Any:
    return a @ b


def factory() -> Any:
    return lambda a, b: a @ b


WORKLOADS = [Workload(
    name="matmul_1024",
    about=f"a @ b, {SIZE} by {SIZE}",
    inputs=inputs,
    makers=pure(product, factory, factory, GRAPH),
    flops=2 * SIZE**3,
    size=12 * SIZE**2,
)]
