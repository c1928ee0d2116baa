"""Rows of the ops that look for order."""

from __future__ import annotations

import numpy as np
from rows.row import Array, Bad, arrays, b1, f4, f8, i4, i8, row, strided, u1

import fusewire as fw

X = [arrays((3, 4, 5)), arrays((3, 4, 5), dtypes=f8), arrays((3, 4, 5), dtypes=i8),
     arrays((3, 4, 5), dtypes=u1), arrays((3, 4, 5), dtypes=b1), arrays((2, 0, 3)), strided(1)]


def falling(x: Array, axis: int) -> Array:
    """The indices that sort in descending order, equal elements in their order."""
    found = x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(found, axis)


BAD = (Bad(lambda: fw.argsort(fw.zeros(2), axis=1), "argsort: axis 1 is out of range"),
       Bad(lambda: fw.sort(fw.zeros(2, dtype=fw.complex64)), "sort: complex numbers have no order"),
       Bad(lambda: fw.topk(fw.zeros(2), 3), "topk: k=3 elements of axis 0 of shape (2,)"),
       Bad(lambda: fw.kthvalue(fw.zeros(2), 0), "kthvalue: k=0 of axis 0 of shape (2,)"))
for axis in (0, 1, -1):
    row("argsort", lambda x, a=axis: fw.argsort(x, axis=a), X,
        lambda x, a=axis: np.argsort(x, a, kind="stable"), label=f"axis={axis}", errors=BAD)
    row("argsort", lambda x, a=axis: fw.argsort(x, axis=a, descending=True), X,
        lambda x, a=axis: falling(x, a), label=f"axis={axis}, descending")
for axis in (0, 1, -1):
    row("sort", lambda x, a=axis: fw.sort(x, axis=a), X, lambda x, a=axis: np.sort(x, a),
        label=f"axis={axis}")
row("sort", lambda x: fw.sort(x, descending=True), X, lambda x: np.flip(np.sort(x), -1),
    label="descending")
row("argsort", lambda x: fw.topk(x, 2).values, X[:2], lambda x: -np.sort(-x)[..., :2], label="topk")
for k in (1, 7, 60):  # few of many are not found by sorting all of them
    row("argsort", lambda x, k=k: fw.topk(x, k, axis=0, largest=False).indices,
        [arrays((100, 3), dtypes=d) for d in (f8, i8, u1)],
        lambda x, k=k: np.argsort(x, 0, kind="stable")[:k], label=f"{k} smallest of 100")
    row("argsort", lambda x, k=k: fw.topk(x, k).indices,
        [arrays((3, 100), dtypes=d) for d in (f8, i8, u1, b1)],
        lambda x, k=k: falling(x, -1)[:, :k], label=f"{k} largest of 100")
row("argsort", lambda x: fw.kthvalue(x, 2).values, X[:2], lambda x: np.sort(x)[..., 1],
    label="kthvalue")


def sorted_and(count: int, values: int, dtype: np.dtype = f4) -> object:
    """Makes `count` sorted numbers, and `values` to look for, some of them equal to one."""
    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        x = np.sort(np.asarray(rng.integers(0, 9, count), dtype))
        return x, np.asarray(rng.integers(0, 10, (2, values)), dtype)

    return make


for side in ("left", "right"):
    row("searchsorted", lambda x, v, s=side: fw.searchsorted(x, v, side=s),
        [sorted_and(7, 5), sorted_and(8, 3, f8), sorted_and(1, 4, i4), sorted_and(0, 2, i8),
         arrays((1,), ())],
        lambda x, v, s=side: np.searchsorted(x, v, s), label=side, errors=(
            Bad(lambda: fw.searchsorted(fw.zeros(2, 2), 1.0), "searchsorted: the sorted values"),
            Bad(lambda: fw.searchsorted(fw.zeros(2), 1.0, side="up"), "searchsorted: side='up'")))
row("searchsorted", lambda x, v: fw.searchsorted(x, v),
    [lambda rng: (np.array([-np.inf, 0.0, 1.0, np.inf, np.nan], f4),
                  np.array([np.nan, np.inf, -np.inf, 0.5], f4))],
    np.searchsorted, label="nan and inf")
for right in (False, True):
    row("searchsorted", lambda x, v, r=right: fw.bucketize(v, x, r), [sorted_and(7, 5)],
        lambda x, v, r=right: np.digitize(v, x, right=not r), label=f"bucketize, right={right}",
        errors=(Bad(lambda: fw.bucketize(1.0, fw.zeros(2, 2)), "the sorted values have 2 axes"),))
