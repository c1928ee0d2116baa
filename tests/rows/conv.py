"""Rows of convolution in groups, and of its two derivatives, from their definitions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, f8, row
from rows.whole import convolved

import fusewire as fw
from fusewire.eager.ops.layers import conv


def in_groups(x: Array, w: Array, stride: Any, dilation: Any, pad: Any, groups: int) -> Array:
    """A convolution of each group by itself."""
    parts = zip(np.split(x, groups, 1), np.split(w, groups, 0))
    return np.concatenate([convolved(a, b, stride, dilation, pad) for a, b in parts], 1)


def uneven(x: Array, w: Array, before: int, after: int) -> Array:
    """A convolution along one axis with other zeros before than after it."""
    return convolved(np.pad(x, [(0, 0), (0, 0), (before, after)]), w, (1,), (1,), (0,))


def transposed(y: Array, w: Array, stride: Any, dilation: Any, pad: Any, more: Any, groups: int
               ) -> Array:
    """Every element of `y` times the weight, added where its window stands."""
    parts = zip(np.split(y, groups, 1), np.split(w, groups, 0))
    reach = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation)]
    size = [(n - 1) * s + r + m for n, s, r, m in zip(y.shape[2:], stride, reach, more)]
    made = []
    for values, weight in parts:
        out = np.zeros((y.shape[0], w.shape[1], *size))
        for at in product(*map(range, y.shape[2:])):
            for k in product(*map(range, w.shape[2:])):
                place = [a * s + i * d for a, s, i, d in zip(at, stride, k, dilation)]
                out[(..., *place)] += values[(..., *at)] @ weight[(..., *k)]
        made.append(out[(..., *[slice(p, n - p) for p, n in zip(pad, size)])])
    return np.concatenate(made, 1)


def by_weight(x: Array, y: Array, kernel: Any, stride: Any, dilation: Any, pad: Any, groups: int
              ) -> Array:
    """The gradient of sum(y * convolution of x) by the weight, one element after the other."""
    out = np.empty((y.shape[1], x.shape[1] // groups, *kernel))
    for at in np.ndindex(*out.shape):
        one = np.zeros(out.shape)
        one[at] = 1
        out[at] = (in_groups(x, one, stride, dilation, pad, groups) * y).sum()
    return out


CASES: list[tuple[Any, Any, Any, int]] = [  # x, w, (stride, dilation, pad), groups
    ((2, 4, 5), (6, 2, 3), ((1,), (1,), (1,)), 2), ((1, 3, 6, 5), (3, 1, 3, 2), (
        (2, 1), (1, 2), (1, 0)), 3),
    ((2, 2, 4, 4), (4, 1, 2, 2), ((1, 3), (1, 1), (0, 1)), 2), ((2, 3, 4, 3), (2, 3, 1, 1), (
        (1, 1), (1, 1), (0, 0)), 1), ((1, 2, 5, 3), (3, 2, 1, 1), ((2, 1), (1, 1), (0, 1)), 1),
    ((1, 2, 3, 4, 3), (4, 1, 2, 2, 1), ((1, 2, 1), (1, 1, 1), (0, 0, 1)), 2)]
for x, w, params, groups in CASES:
    label = f"{x} {w} groups={groups}"
    out = in_groups(np.zeros(x), np.zeros(w), *params, groups).shape
    row("conv", lambda x, w, p=params, g=groups: conv.conv(x, w, *p, g),
        [arrays(x, w), arrays(x, w, dtypes=f8)],
        lambda x, w, p=params, g=groups: in_groups(x, w, *p, g), label=label, tolerance=1e-5,
        errors=(Bad(lambda: conv.conv(fw.zeros(1, 4, 4), fw.zeros(3, 2, 2), (1,), (1,), (0,), 2),
                    "conv: input (1, 4, 4) does not fit the weight (3, 2, 2) in 2 groups"),))
    more = tuple(max(s, d) - 1 for s, d in zip(*params[:2]))
    row("conv_transpose", lambda y, w, p=params, m=more, g=groups: conv.conv_transpose(y, w, *p, m,
                                                                                       g),
        [arrays(out, w), arrays(out, w, dtypes=f8)],
        lambda y, w, p=params, m=more, g=groups: transposed(y, w, *p, m, g), label=label,
        tolerance=1e-5, errors=(
            Bad(lambda: conv.conv_transpose(fw.zeros(1, 4, 4), fw.zeros(3, 2, 2), (1,), (1,), (0,),
                                            (0,)),
                "conv_transpose: input (1, 4, 4) does not fit the weight (3, 2, 2)"),
            Bad(lambda: conv.conv_transpose(fw.zeros(1, 3, 2), fw.zeros(3, 2, 2), (1,), (1,), (2,),
                                            (0,)),
                "conv_transpose: input (1, 3, 2) gives the sizes (-1,)")))
    row("conv_weight", lambda x, y, k=w[2:], p=params, g=groups: conv.conv_weight(x, y, k, *p, g),
        [arrays(x, out), arrays(x, out, dtypes=f8)],
        lambda x, y, k=w[2:], p=params, g=groups: by_weight(x, y, k, *p, g), label=label,
        tolerance=1e-5, errors=(
            Bad(lambda: conv.conv_weight(fw.zeros(1, 4, 4), fw.zeros(1, 2, 4), (2,), (1,), (1,),
                                         (0,)),
                "conv_weight: input (1, 4, 4) and windows (1, 2, 4)"),))
for before, after in ((0, 1), (1, 2), (2, 0)):
    row("conv", lambda x, w, p=((before, after),): conv.conv(x, w, (1,), (1,), p),
        [arrays((2, 2, 5), (3, 2, 4), dtypes=f8)],
        lambda x, w, b=before, a=after: uneven(x, w, b, a), label=f"pad=({before}, {after})")
