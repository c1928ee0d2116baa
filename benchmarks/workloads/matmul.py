"""A square matrix product, for which every library has its best code."""

from __future__ import annotations

from typing import Any

from ..peers import pure
from ..workload import Inputs, Workload
from .weights import normal

SIZE = 1024


def graph(size: int) -> str:
    square = f"float[{size},{size}]"
    return f"""product ({square} a, {square} b) => ({square} y) {{
    y = MatMul(a, b)
}}"""


def inputs(size: int = SIZE) -> Inputs:
    return {"a": normal(8, size, size), "b": normal(9, size, size)}


def product(a: Any, b: Any) -> Any:
    return a @ b


def factory() -> Any:
    return lambda a, b: a @ b


def workload(size: int) -> Workload:
    return Workload(
        name=f"matmul_{size}",
        about=f"a @ b, {size} by {size}",
        inputs=lambda: inputs(size),
        makers=pure(product, factory, factory, graph(size)),
        flops=2 * size**3,
        size=12 * size**2,
    )


WORKLOADS, ON_GPU = [workload(SIZE)], [workload(4096)]
