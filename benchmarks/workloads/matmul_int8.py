"""The product of matmul.py in int8, summed in int32 and scaled for each column, as in quantized
layers."""

from __future__ import annotations

from typing import Any

import numpy as np

import fusewire as fw

from ..peers import pure
from ..workload import Inputs, Workload
from .matmul import SIZE

GRAPH = f"""product (int8[{SIZE},{SIZE}] a, int8[{SIZE},{SIZE}] b, float[{SIZE}] scale)
=> (float[{SIZE},{SIZE}] y) {{
    sums = MatMulInteger(a, b)
    whole = Cast<to=1>(sums)
    y = Mul(whole, scale)
}}"""


def inputs() -> Inputs:
    rng = np.random.default_rng(12)
    a, b = (rng.integers(-127, 127, (SIZE, SIZE), dtype=np.int8, endpoint=True) for _ in range(2))
    return {"a": a, "b": b, "scale": rng.random(SIZE, dtype=np.float32)}


def product(a: Any, b: Any, scale: Any) -> Any:
    return (a.astype(fw.int32) @ b.astype(fw.int32)).astype(fw.float32) * scale


def torch() -> Any:
    import torch

    return lambda a, b, scale: torch._int_mm(a, b).float() * scale


def jax() -> Any:
    import jax

    def product(a: Any, b: Any, scale: Any) -> Any:
        sums = jax.lax.dot(a, b, preferred_element_type="int32")
        return sums.astype("float32") * scale

    return product


WORKLOADS = [Workload(
    name="matmul_int8_1024",
    about=f"a @ b of int8, {SIZE} by {SIZE}, summed in int32, times a scale for each column; the "
          "limit is that of float32's multiply-adds",
    inputs=inputs,
    makers=pure(product, torch, jax, GRAPH),
    flops=2 * SIZE**3,
    size=6 * SIZE**2,
)]
