"""Rows of contractions and of composites: matmul, convolution, softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, b1, f4, f8, i4, i8, row, special, strided, u1

import fusewire as fw
from fusewire.eager.ops.layers import conv
from fusewire.eager.ops.products import contract
from fusewire.eager.ops.reduction import softmax

# ---- matmul and its kin
SHAPES = [((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)),
          ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((0, 4), (4, 3)),
          ((3, 0), (0, 2)), ((1, 1), (1, 1)), ((2, 0, 3, 4), (4, 5))]
row("contract", contract.matmul,
    [*[arrays(*s, dtypes=f8) for s in SHAPES], arrays((3, 4), (4, 5)),
     arrays((3, 4), (4, 5), dtypes=i8), arrays((3, 4), (4, 5), dtypes=(f4, f8)),
     lambda rng: (strided(1)(rng)[0].T, strided(1)(rng)[0])],
    np.matmul, label="matmul", tolerance=5e-6, errors=(
        Bad(lambda: fw.zeros(2, 3) @ fw.zeros(2, 3),
            "matmul: inner sizes differ: left (2, 3) ends in 3, right (2, 3) needs 2"),
        Bad(lambda: fw.zeros(2, 3) @ fw.zeros(()), "matmul: does not take 0-d tensors"),
        Bad(lambda: fw.zeros(2, 2, 3) @ fw.zeros(3, 3, 2),
            "matmul of (2, 2, 3) and (3, 3, 2): the axes before"),
        Bad(lambda: contract.matmul(fw.zeros(2, 3), [1]), "matmul: takes tensors, not list")))
for spec in ("abc,cd->abd", "nk,mk->mn", "ab,ab->", "ab,c->cba", "bik,bkj->jbi", "ab,b->ab"):
    sizes = dict(zip("abcdknmij", (2, 3, 4, 5, 4, 3, 2, 3, 2)))
    left, right = spec.split("->")[0].split(",")
    shapes = [tuple(sizes[c] for c in part) for part in (left, right)]
    row("contract", lambda x, y, s=spec: contract.contract(x, y, s), [arrays(*shapes, dtypes=f8)],
        lambda x, y, s=spec: np.einsum(s, x, y), label=spec)
row("contract", lambda x, y: contract.tensordot(x, y, 2), [arrays((2, 3, 4), (3, 4, 5), dtypes=f8)],
    lambda x, y: np.tensordot(x, y, 2), label="tensordot", errors=(
        Bad(lambda: contract.tensordot(fw.zeros(2, 3), fw.zeros(2, 3), 1),
            "tensordot: axis 1 of (2, 3) has"),
        Bad(lambda: contract.tensordot(fw.zeros(2), fw.zeros(2), 2), "tensordot: axes 2 for")))


# ---- convolution, from its definition
def padded(x: Array, pad: Any, value: float = 0.0) -> Array:
    return np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]], constant_values=value)


def each_window(x: Array, kernel: Any, stride: Any, dilation: Any) -> Any:
    """Positions of windows, and the windows (n, channels, *kernel) there."""
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, stride)]
    for at in np.ndindex(*counts):
        begins = [p * s for p, s in zip(at, stride)]
        yield at, x[(..., *[slice(b, b + r, d) for b, r, d in zip(begins, reach, dilation)])]


def collected(found: list[Any]) -> Array:
    """Values (n, c) at positions, as one array (n, c, *positions)."""
    counts = [max(at[a] for at, _ in found) + 1 for a in range(len(found[0][0]))]
    out = np.empty((*found[0][1].shape, *counts))
    for at, value in found:
        out[(..., *at)] = value
    return out


def convolved(x: Array, w: Array, stride: Any, dilation: Any, pad: Any) -> Array:
    return collected([(at, np.tensordot(part, w, (range(1, w.ndim), range(1, w.ndim))))
                      for at, part in each_window(padded(x, pad), w.shape[2:], stride, dilation)])


CONVOLUTIONS: list[tuple[Any, Any, Any]] = [  # x, w, (stride, dilation, pad)
    ((2, 3, 5, 6), (4, 3, 3, 2), ((1, 1), (1, 1), (0, 0))),
    ((1, 2, 7, 6), (3, 2, 3, 3), ((2, 2), (1, 1), (1, 1))),
    ((1, 2, 8, 7), (2, 2, 2, 3), ((1, 2), (2, 1), (2, 0))),
    ((2, 3, 9), (2, 3, 4), ((3,), (1,), (2,))),
    ((1, 2, 4, 4, 5), (2, 2, 2, 2, 2), ((1, 1, 2), (1, 1, 1), (0, 1, 0))),
    ((2, 1, 5, 5), (2, 1, 1, 1), ((1, 1), (1, 1), (0, 0)))]
for x, w, params in CONVOLUTIONS:
    row("conv", lambda x, w, p=params: conv.conv(x, w, *p), [arrays(x, w), arrays(x, w, dtypes=f8)],
        lambda x, w, p=params: convolved(x, w, *p), label=f"{x} {w}", tolerance=1e-5, errors=(
            Bad(lambda: conv.conv(fw.zeros(1, 2, 4), fw.zeros(1, 3, 2), (1,), (1,), (0,)),
                "conv: input (1, 2, 4) does not fit the weight (1, 3, 2)"),
            Bad(lambda: conv.conv(fw.zeros(1, 2, 4), fw.zeros(1, 2, 5), (1,), (1,), (0,)),
                "conv: a window of 5 does not fit into an axis of size 4")))
for name, reference in (("argmax", np.argmax), ("argmin", np.argmin)):
    for axis, keepdims in ((None, False), (0, False), (-1, True), (1, False), (None, True)):
        row("argmax", lambda x, f=name, a=axis, k=keepdims: getattr(fw, f)(x, a, k),
            [*[arrays((3, 4, 2), dtypes=d) for d in (f4, i4, u1, b1)],
             lambda rng: (np.array([[1.0, np.nan, 3.0], [2.0, 0.0, np.nan]]),),
             lambda rng: (np.array([[-128, 127], [0, -128]], np.int8),)],
            lambda x, f=reference, a=axis, k=keepdims: f(x, axis=a, keepdims=k),
            label=f"{name} axis={axis}{', keepdims' * keepdims}", grad=False, errors=(
                Bad(lambda f=name: getattr(fw, f)(fw.zeros(2, 0), 1), f"{name}: axis 1 of shape"),
                Bad(lambda f=name: getattr(fw, f)(fw.zeros(2), 3), f"{name}: axis 3 is out of")))


# ---- softmax and cross entropy
def softmaxed(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis, keepdims=True)


LOGITS = [arrays((3, 5)), arrays((2, 3, 4), dtypes=f8), arrays((3, 4), low=500, high=1000),
          strided(1), lambda rng: (np.array([[1.0, -np.inf], [-np.inf, 2.0]]),)]
for axis in (-1, 0):
    row("softmax", lambda x, a=axis: softmax.softmax(x, a), [*LOGITS, special(1)],
        lambda x, a=axis: softmaxed(x, a), label=f"axis={axis}", tolerance=1e-5, errors=(
            Bad(lambda: softmax.softmax(fw.zeros(2), 1), "softmax: axis 1 is out of range"),
            Bad(lambda: softmax.softmax(fw.arange(3)), "softmax: takes real floating")))
    row("log_softmax", lambda x, a=axis: softmax.log_softmax(x, a), [*LOGITS, special(1)],
        lambda x, a=axis: np.log(softmaxed(x, a)), label=f"axis={axis}", tolerance=1e-4)
