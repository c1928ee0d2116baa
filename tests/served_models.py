"""Small models that tests serve."""

from __future__ import annotations

from typing import Any

import numpy as np

import fusewire as fw
from fusewire.serving import Model

DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float16", "float64")


def net() -> Any:
    """A network of four inputs and three outputs."""
    fw.manual_seed(0)
    return fw.nn.Sequential(fw.nn.Linear(4, 16), fw.nn.Tanh(), fw.nn.Linear(16, 3))


def sum_and_product(x: Any, y: Any) -> Any:
    return {"sum": x + y, "product": x * y}


def models() -> dict[str, Model]:
    """Models by name: one for each dtype, and one for each kind of interface."""
    table = fw.arange(10.0)
    same = {dtype: np.zeros((1, 3), dtype) for dtype in DTYPES}
    same["bfloat16"] = fw.zeros(1, 3, dtype=fw.bfloat16)
    return {f"same_{dtype}": Model(lambda x: x, {"x": x}, max_batch=2)
            for dtype, x in same.items()} | {
        "net": Model(net(), {"input": fw.zeros(1, 4)}, max_batch=8),
        "look_up": Model(lambda x: table[x] * 2, {"x": np.zeros((1,), np.int64)}, max_batch=8),
        "two": Model(sum_and_product, {"x": fw.zeros(1, 2), "y": fw.zeros(1, 2)}, max_batch=4),
        "whole": Model(lambda x: x.sum(), {"x": fw.zeros(5)}, max_batch=0)}
