"""Rows of the ops that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, b1, f4, f8, i8, row, strided, u1

import fusewire as fw
from fusewire.eager.core.dispatch import apply
from fusewire.eager.ops.shape import take, view, window
from fusewire.eager.ops.shape.concat import concat_same_dtype
from fusewire.eager.ops.transfer import transfer_op

X = [arrays((2, 3, 4)), arrays((2, 3, 4), dtypes=b1)]


# ---- on another device: the same elements
row("transfer", lambda x: apply(transfer_op, (x,), {"device": x.device}), X, lambda x: x)


# ---- reshape, permute_dims, broadcast_to
for shape in ((4, 6), (24,), (-1, 8), (2, 1, 12), (1, 2, 3, 2, 2, 1)):
    row("reshape", lambda x, s=shape: view.reshape(x, s), X, lambda x, s=shape: x.reshape(s),
        label=f"{shape}")
row("reshape", lambda x: view.reshape(x, (3, -1)), [strided(1), arrays((0, 3)), arrays((3,))],
    lambda x: x.reshape(3, -1), label="strided and empty", errors=(
        Bad(lambda: fw.zeros(2, 3).reshape(4, 2), "reshape: 6 elements of shape (2, 3) do not fit"),
        Bad(lambda: fw.zeros(2, 3).reshape(-1, -1), "reshape: 6 elements"),
        Bad(lambda: fw.zeros(2, 3).reshape(3, 2.0), "reshape: a shape is made of whole numbers")))
row("reshape", lambda x: view.reshape(x, ()), [arrays((1, 1)), arrays((1,), dtypes=i8)],
    lambda x: x.reshape(()), label="()")
row("reshape", lambda x: view.expand_dims(x, -1), [arrays(()), arrays((2,))],
    lambda x: np.expand_dims(x, -1), label="expand_dims", errors=(
        Bad(lambda: view.expand_dims(fw.zeros(2), 3), "expand_dims: axis 3 is out of range"),))
row("reshape", lambda x: view.squeeze(x), [arrays((1, 3, 1)), arrays((1, 1))], np.squeeze,
    label="squeeze", errors=(
        Bad(lambda: view.squeeze(fw.zeros(2, 3), 0), "squeeze: axis 0 of shape (2, 3) has"),))
row("reshape", lambda x: view.flatten(x, 1), [arrays((2, 3, 4)), arrays((2, 1, 0))],
    lambda x: x.reshape(2, x[0].size), label="flatten", errors=(
        Bad(lambda: view.flatten(fw.zeros(2, 3), 1, 0), "flatten: start_dim 1 comes after"),))
for axes in ((2, 0, 1), (1, 0, 2), (-1, -2, -3)):
    row("permute_dims", lambda x, a=axes: view.permute_dims(x, a), [*X, arrays((2, 0, 3))],
        lambda x, a=axes: x.transpose(a), label=f"{axes}", errors=(
            Bad(lambda: view.permute_dims(fw.zeros(2, 3), (0, 0)), "permute_dims: (0, 0) is not"),
            Bad(lambda: fw.zeros(2, 3, 4).T, ".T needs a matrix"),
            Bad(lambda: fw.zeros(2).mT, "matrix_transpose: needs two axes or more")))
row("broadcast_to", lambda x: view.broadcast_to(x, (2, 3, 4)),
    [arrays((3, 1)), arrays((1, 1, 1)), arrays(()), arrays((4,), dtypes=i8), arrays((2, 1, 4))],
    lambda x: np.broadcast_to(x, (2, 3, 4)), errors=(
        Bad(lambda: view.broadcast_to(fw.zeros(2), (3,)), "broadcast_to: shapes (2,) and (3,)"),
        Bad(lambda: view.broadcast_to(fw.zeros(2, 3), (3,)), "broadcast_to: shape (2, 3) does")))
row("broadcast_to", lambda x: view.broadcast_to(x, (0, 3)), [arrays((1, 3)), arrays(())],
    lambda x: np.broadcast_to(x, (0, 3)), label="to nothing")

# ---- slice, unslice, put_slice
for index in (np.s_[1], np.s_[:, 1:], np.s_[..., ::2], np.s_[::-1, 2:0:-1, -3:], np.s_[1:1],
              np.s_[..., None, 1, 3:0:-2], np.s_[-1, -2, -3], np.s_[5:9], np.s_[::-1, 9:5:-1],
              np.s_[..., -9:-20:-1]):
    row("slice", lambda x, i=index: x[i], X, lambda x, i=index: x[i], label=f"{index}".replace(
        "slice", ""), errors=(
            Bad(lambda: fw.zeros(2, 3)[2], "index 2 is out of range for axis 0 of shape (2, 3)"),
            Bad(lambda: fw.zeros(2, 3)[0, 0, 0], "too many indices: 3 for a tensor with 2 axes"),
            Bad(lambda: fw.zeros(2, 3)["x"], "cannot index with 'x'"),
            Bad(lambda: fw.zeros(2, 3)[::0], "the step of a slice cannot be 0")))
row("slice", lambda x: view.flip(x, 1), X, lambda x: np.flip(x, 1), label="flip")
row("unslice", lambda x: view.pad(x, [(1, 0), (0, 2), (0, 0)], 7), [*X[:1], arrays((0, 2, 1))],
    lambda x: np.pad(x, [(1, 0), (0, 2), (0, 0)], constant_values=7), label="pad", errors=(
        Bad(lambda: view.pad(fw.zeros(2), [(1,)]), "pad: needs (before, after)"),
        Bad(lambda: view.pad(fw.zeros(2), [(1, -1)]), "pad: needs (before, after), not negative")))


def holes(x: Array) -> Array:
    out = np.zeros((7, 5), x.dtype)
    out[5::-2, 1:4] = x
    return out


row("unslice", lambda x: view.unslice(x, (7, 5), (5, 1), (-2, 1)), [arrays((3, 3), dtypes=f8)],
    holes, label="with holes, turned round")


def assigned(index: Any) -> tuple[Any, Any]:
    """x[index] = v for our tensors, and for NumPy's arrays."""
    def ours(x: Any, v: Any) -> Any:
        out = fw.eager.ops.elementwise.pointwise.alias(x)
        out[index] = v
        return out

    def numpys(x: Array, v: Array) -> Array:
        out = x.copy()
        out[index] = v
        return out

    return ours, numpys


def set_row(x: fw.Tensor, value: fw.Tensor) -> None:
    x[1] = value


for index, shape in ((np.s_[1], (4,)), (np.s_[:, ::-2], (3, 2)), (np.s_[...], ()),
                     (np.s_[0, 1], ()), (np.s_[2:], (1, 4)), (np.s_[3:3], (0, 4)),
                     (np.s_[-1, None, 1:3], (1, 2))):
    ours, numpys = assigned(index)
    row("put_slice", ours, [arrays((3, 4), shape), arrays((3, 4), shape, dtypes=(f8, f8)),
                            arrays((3, 4), shape, dtypes=(i8, u1))], numpys,
        label=f"{index}".replace("slice", ""), errors=(
            Bad(lambda: set_row(fw.zeros(3, 4), fw.zeros(3)), "broadcast_to: shapes (3,)"),))


# ---- concat, take, add_at
for axis in (0, 1):
    row("concat", lambda *xs, a=axis: concat_same_dtype(xs, a),
        [arrays((2, 3), (2, 3)), arrays((1, 2), (1, 2), (1, 2), dtypes=i8), arrays((0, 0), (0, 0)),
         strided(3)],
        lambda *xs, a=axis: np.concatenate(xs, a), label=f"axis={axis}", errors=(
            Bad(lambda: concat_same_dtype([fw.zeros(2, 3), fw.zeros(3, 2)], 0),
                "concat: shapes (2, 3) and (3, 2) differ in more than axis 0"),))
row("concat", lambda *xs: concat_same_dtype(xs, 1), [arrays((2, 1), (2, 0), (2, 3))],
    lambda *xs: np.concatenate(xs, 1), label="unequal")
TAKE = [arrays((4, 5, 6), (3,), dtypes=(f4, i8)), arrays((4, 5, 6), (2, 3), dtypes=(f8, i8)),
        arrays((4, 5, 6), (), dtypes=(f8, i8)), arrays((4, 4, 4), (7,), dtypes=(f8, u1)),
        arrays((4, 5, 6), (0,), dtypes=(f8, i8))]
for axis in (0, 1, -1):
    row("take", lambda x, i, a=axis: take.take(x, i, a), TAKE,
        lambda x, i, a=axis: np.take(x, i, a), label=f"axis={axis}", errors=(
            Bad(lambda: take.take(fw.zeros(3), fw.tensor([3])), "take: index 3 is out of range"),
            Bad(lambda: take.take(fw.zeros(3), fw.tensor([-4])), "take: index -4 is out of range"),
            Bad(lambda: take.take(fw.zeros(3), fw.tensor([0.5])), "take: indices must be integers"),
            Bad(lambda: take.take(fw.zeros(()), fw.tensor([0])), "take: axis 0 is out of range")))
row("take", lambda x, i, j: x[i, j], [arrays((4, 5), (3, 1), (2,), dtypes=(f8, i8, i8))],
    lambda x, i, j: x[i, j], label="x[i, j]")


def scattered(axis: int) -> Any:
    def reference(v: Array, i: Array) -> Array:
        lead = v.shape[:axis]
        out = np.zeros((*lead, 5, *v.shape[axis + i.ndim:]), v.dtype)
        np.add.at(out, (*[slice(None)] * axis, i), v)
        return out

    return reference


for axis in (0, 1):
    lead = (2,) * axis
    row("add_at", lambda v, i, a=axis: take.add_at(v, i, 5, a),
        [arrays((*lead, 6, 3), (6,), dtypes=(f4, i8), low=0),
         arrays((*lead, 6), (6,), dtypes=(f8, i8), low=0),
         arrays((*lead, 2, 9), (2, 9), dtypes=(i8, u1)),
         arrays((*lead, 0, 3), (0,), dtypes=(f8, i8)),
         arrays((*lead, 3), (), dtypes=(f8, i8), low=0)],
        scattered(axis), label=f"axis={axis}", errors=(
            Bad(lambda: take.add_at(fw.zeros(2), fw.tensor([0, 5]), 5), "add_at: index"),
            Bad(lambda: take.add_at(fw.zeros(3), fw.tensor([0, 1]), 5), "add_at: values"),
            Bad(lambda: take.add_at(fw.zeros(1), fw.tensor([0.0]), 5),
                "add_at: indices must be integers, not float32")))


# ---- windows
def windows(x: Array, kernel: Any, out: Any, stride: Any, dilation: Any, pad: Any, spread: Any,
            fill: float) -> Array:
    """Element by element, from the definition."""
    made = np.full((*x.shape[:-2], *out, *kernel), fill, x.dtype)
    for place in np.ndindex(*out, *kernel):
        at = [place[a] * stride[a] + place[2 + a] * dilation[a] - pad[a] for a in (0, 1)]
        if all(p % s == 0 and 0 <= p // s < n for p, s, n in zip(at, spread, x.shape[-2:])):
            made[(..., *place)] = x[(..., at[0] // spread[0], at[1] // spread[1])]
    return made


WINDOWS: dict[str, tuple[Any, ...]] = {  # kernel, out, stride, dilation, pad, spread, fill
    "plain": ((2, 3), (4, 2), (1, 1), (1, 1), (0, 0), (1, 1), 0.0),
    "stride": ((2, 2), (2, 2), (2, 2), (1, 1), (0, 0), (1, 1), 0.0),
    "pad and dilation": ((3, 2), (5, 3), (1, 2), (2, 1), (2, 1), (1, 1), 7.0),
    "spread": ((2, 2), (10, 7), (1, 1), (1, 1), (1, 1), (2, 2), 0.0),
    "cut": ((1, 2), (3, 4), (2, 1), (1, 1), (-1, 1), (1, 2), 0.0),
}
for label, params in WINDOWS.items():
    row("window", lambda x, p=params: window.window(x, *p), [arrays((1, 2, 5, 4)), strided(1)][:1],
        lambda x, p=params: windows(x, *p), label=label)
    if params[-1] == 0:
        kernel, out, *rest, _ = params
        lead = (2, *out, *kernel)
        row("unwindow", lambda g, k=kernel, r=tuple(rest): window.unwindow(g, (5, 4), k, *r),
            [arrays(lead, dtypes=f8)],
            lambda g, k=kernel, o=out, r=tuple(rest): unwound(g, k, o, r), label=label)
        row("rewindow", lambda x, o=out, k=kernel, r=tuple(rest): window.rewindow(x, o, k, *r),
            [arrays((2, 5, 4, *kernel), dtypes=f8)],
            lambda x, o=out, k=kernel, r=tuple(rest): rewound(x, k, o, r), label=label)


def unwound(g: Array, kernel: Any, out: Any, rest: Any) -> Array:
    """Sends each element of g to the element of x that it would have been read from."""
    places = windows(np.arange(20.0).reshape(5, 4), kernel, out, *rest, -1.0).astype(int)
    made = np.zeros((2, 20, *kernel))
    for p in np.ndindex(*out, *kernel):
        if places[p] >= 0:
            made[(slice(None), places[p], *p[2:])] = g[(slice(None), *p)]
    return made.reshape(2, 5, 4, *kernel)


def rewound(x: Array, kernel: Any, out: Any, rest: Any) -> Array:
    """Reads each window's element at its position in the window."""
    made = np.zeros((2, *out, *kernel))
    for w in np.ndindex(*kernel):
        made[(..., *w)] = windows(x[(..., *w)], kernel, out, *rest, 0.0)[(..., *w)]
    return made
