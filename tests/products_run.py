"""Runs products of matrices of all small sizes, every array beside a guard page.

    python tests/products_run.py <processor> <end|start> <products of a dtype> [seed]

It runs in a process of its own; the last line that it prints names the product that crashed. The
values are small integers, so sums are exact in every dtype and equal those of NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from guarded import Run
from oracle import recorded, tensors

from fusewire.eager.arrays.dtypes import bfloat16

MOST = 70
DTYPES = [np.dtype(name) for name in ("float32", "float64", "float16", "int8", "int32", "int64")]
DTYPES.append(bfloat16)
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "a @ b": lambda a, b: a @ b,
    "a @ b.T": lambda a, b: a @ b.T,
    "a.T @ b": lambda a, b: a.T @ b,
    "abs(a @ b) + 1": lambda a, b: abs(a @ b) + 1,
}


def product(form: str, m: int, n: int, k: int, dtype: Any, rng: np.random.Generator, cpu: str,
            at_end: bool) -> None:
    """Runs one product and compares it with NumPy's."""
    a, b = _numbers((m, k), dtype, rng), _numbers((k, n), dtype, rng)
    operands = [np.ascontiguousarray(x) for x in
                (a.T if form.startswith("a.T") else a, b.T if "b.T" in form else b)]
    graph, arrays = recorded(FORMS[form], *tensors(operands))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    expected = abs(exact) + 1 if form.startswith("abs") else exact
    got = Run(graph, cpu, at_end)(arrays)[0]
    np.testing.assert_array_equal(got.astype(np.float64), expected, f"{form} {m, n, k} {dtype}")


def _numbers(shape: tuple[int, int], dtype: Any, rng: np.random.Generator) -> Any:
    """Random numbers -1, 0 and 1. Sums of 70 of their products fit into every dtype."""
    return rng.integers(-1, 2, shape).astype(dtype)


def sizes(count: int, rng: np.random.Generator) -> list[tuple[int, int, int]]:
    """Sizes M, N and K: half of them one more than whole vectors."""
    sizes_mnk = rng.integers(1, MOST + 1, (count, 3))
    sizes_mnk[::2, 1] = rng.choice([1, 5, 9, 17, 33, 49, 65], len(sizes_mnk[::2]))
    return [tuple(map(int, row)) for row in sizes_mnk]


def main(cpu: str, where: str, count: str, seed: str = "0") -> None:
    rng, products = np.random.default_rng(int(seed)), 0
    for dtype in DTYPES:
        for m, n, k in sizes(int(count), rng):
            form = str(rng.choice(list(FORMS)))
            print(form, m, n, k, dtype, flush=True)
            product(form, m, n, k, dtype, rng, cpu, where == "end")
            products += 1
    print(products)


if __name__ == "__main__":
    main(*sys.argv[1:])
