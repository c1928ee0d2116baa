"""A stable argsort of rows, and their largest elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusewire as fw

from ..peers import pure
from ..workload import Inputs, Workload
from .weights import normal

ROWS, COLUMNS = 256, 1000
LONG = 1_000_000
WORDS, LARGEST = 32_000, 50

_TOP = f"""top (float[64,{WORDS}] x) => (float[64,{LARGEST}] y, int64[64,{LARGEST}] places)
<int64[1] k = {{{LARGEST}}}> {{
    y, places = TopK<axis=-1>(x, k)
}}"""


def _drawn(*shape: int) -> Callable[[], Inputs]:
    return lambda: {"x": normal(11, *shape)}


def order(x: Any) -> Any:
    return fw.argsort(x)


def top(x: Any) -> Any:
    return tuple(fw.topk(x, LARGEST))


def torch_order() -> Any:
    import torch

    return lambda x: torch.argsort(x, stable=True)


def torch_top() -> Any:
    import torch

    return lambda x: tuple(torch.topk(x, LARGEST))


def jax_order() -> Any:
    import jax

    return lambda x: jax.numpy.argsort(x, stable=True)


def jax_top() -> Any:
    import jax

    return lambda x: tuple(jax.lax.top_k(x, LARGEST))


def _workload(name: str, about: str, shape: tuple[int, ...], makers: Any) -> Workload:
    size = 1
    for n in shape:
        size *= n
    return Workload(name, about, _drawn(*shape), makers, size=12 * size)


_ORDER = pure(order, torch_order, jax_order)

WORKLOADS = [
    _workload("argsort_rows", f"the order of each of {ROWS} rows of {COLUMNS}, stably",
              (ROWS, COLUMNS), _ORDER),
    _workload("argsort_long", f"the order of {LONG} numbers, stably", (LONG,), _ORDER),
    _workload("topk_rows", f"the largest {LARGEST} of each of 64 rows of {WORDS}", (64, WORDS),
              pure(top, torch_top, jax_top, _TOP)),
]
