"""Rows of the reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Bad, arrays, b1, c8, f2, f4, f8, i4, i8, row, special, strided, u1

import fusewire as fw
from fusewire.eager.ops.reduction import reduce

AXES: list[tuple[Any, bool]] = [(None, False), (0, False), (-1, True), ((0, 2), False),
                                ((2, 1), True), (None, True)]


def reduction(name: str, reference: Any, dtypes: Any, low: float = -3, high: float = 3,
              **more: Any) -> None:
    """Rows of the function `name` over all kinds of axes, and over 0-d and empty tensors."""
    call = getattr(reduce, name)
    bad = (Bad(lambda: call(fw.zeros(2, 3), 2), f"{name}: axis 2 is out of range for a tensor"),
           Bad(lambda: call(fw.zeros(2, 3), (0, -2)), f"{name}: an axis is given twice"),
           Bad(lambda: call(fw.zeros(2, 3), 1.0), f"{name}: an axis is an int, not 1.0"),
           Bad(lambda: call([1, 2]), f"{name}: takes tensors, not list"), *more.pop("errors", ()))
    for axis, keepdims in AXES:
        makers = [arrays((2, 3, 4), dtypes=d, low=low, high=high) for d in dtypes]
        makers += [arrays((1, 3, 1), dtypes=dtypes[0], low=low, high=high),
                   arrays((2, 0, 3), dtypes=dtypes[0])] if axis == (0, 2) else []
        row(name, lambda x, a=axis, k=keepdims: call(x, a, k), makers,
            lambda x, a=axis, k=keepdims: reference(x, axis=a, keepdims=k),
            label=f"axis={axis}{', keepdims' if keepdims else ''}", errors=bad, **more)
    row(name, call, [arrays((), low=low, high=high), strided(1, low=low, high=high),
                     arrays((130, 9), low=low, high=high), special(1), special(1, f8)],
        reference, label="all", **{**more, "tolerance": 1e-5})


reduction("sum", np.sum, (f4, f8, c8, i4, u1, b1))
row("sum", reduce.sum, [arrays((0,)), arrays((0,), dtypes=i8)], np.sum, label="of nothing")
row("sum", reduce.sum, [arrays((5000,), dtypes=f2, low=0.9, high=1)], np.sum, label="float16",
    tolerance=1e-3, grad=False)
row("sum", lambda x: reduce.sum(x, dtype=fw.float64), [arrays((9,))], np.sum, label="dtype=float64",
    grad=False)
reduction("prod", np.prod, (f4, f8, c8, i8, b1), low=0.5, high=2, tolerance=1e-5)
row("prod", lambda x: reduce.prod(x, 1),
    [lambda rng: (np.array([[2.0, 0, 3], [0, 0, 5], [1, 2, 3]]),)],
    lambda x: np.prod(x, 1), label="with zeros")
EMPTY = (Bad(lambda: reduce.max(fw.zeros(2, 0), 1), "max: axis 1 of shape (2, 0) is empty"),
         Bad(lambda: reduce.max(fw.zeros(2, dtype=fw.complex64)), "max: complex numbers have no"))
reduction("max", np.max, (f4, f8, i4, u1, b1), smooth=False, errors=EMPTY)
reduction("min", np.min, (f4, f8, i4, u1, b1), smooth=False)
row("max", lambda x: reduce.max(x, 0), [arrays((2, 0)), arrays((1, 0, 3))], lambda x: np.max(x, 0),
    label="nothing of nothing", smooth=False)
reduction("any", np.any, (b1, f4, i4), grad=False)
reduction("all", np.all, (b1, f4, i4), grad=False)
for part, name in enumerate(("min", "max")):
    row(name, lambda x, p=part: fw.aminmax(x)[p], [arrays((2, 3)), special(1)],
        getattr(np, name), label="of aminmax", smooth=False)
    row(name, lambda x, p=part: fw.aminmax(x, 0, True)[p],
        [arrays((2, 3)), arrays((3,), dtypes=i4)],
        lambda x, f=name: getattr(np, f)(x, axis=0, keepdims=True), label="of aminmax along 0",
        smooth=False, errors=(Bad(lambda: fw.aminmax(fw.zeros(0)), "aminmax: axis"),
                              Bad(lambda: fw.aminmax(fw.tensor([1j])), "aminmax: complex")))
