"""Rows of the codes of dtypes that are only stored: ml_dtypes is the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, f4, f8, i8, row, u1

import fusewire as fw
from fusewire.eager.arrays.dtypes import STORED, finfo, iinfo, kind
from fusewire.eager.core.dispatch import apply
from fusewire.eager.ops.elementwise.codes import as_stored_op, decode_op, encode_op


def every_code(dtype: Any) -> Array:
    """The bytes of all numbers of a stored dtype."""
    bits = iinfo(dtype).bits if kind(dtype) in "iu" else finfo(dtype).bits
    return np.arange(2 ** bits, dtype=u1)


def near_ties(dtype: Any) -> Array:
    """float32 at, below and above each number and each middle of two neighbours, and the special
    ones."""
    numbers = every_code(dtype).view(dtype).astype(f8)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    exact = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2]).astype(f4)
    around = [np.nextafter(exact, f4.type(side)) for side in (-np.inf, np.inf)]
    tiny = np.array([0.0, -0.0, 1e-45, -1e-45, 2.0**-127, 2.0**-126, 1e-40], f4)
    huge = np.array([np.inf, -np.inf, np.nan, -np.nan, 3.4e38, -3.4e38, 1e9, 300.0, 464.0], f4)
    return np.concatenate([exact, *around, tiny, huge, -exact])


def whole(dtype: Any) -> Array:
    return np.arange(-40, 41)


def enter(dtype: Any) -> None:
    """Enters the rows of one dtype."""
    is_float = kind(dtype) == "f"
    many = near_ties(dtype) if is_float else (whole(dtype) * 0.37).astype(f4)

    def encoded(x: Array) -> Array:
        return np.asarray(x.astype(f4) if is_float else x).astype(dtype).view(u1)

    row("encode", lambda x: apply(encode_op, (x,), {"dtype": dtype}),
        [lambda rng: (many,), lambda rng: (many[:60].reshape(6, 10).T,),
         lambda rng: (np.asarray(many[3]),), lambda rng: (many[:0].reshape(0, 4),),
         lambda rng: (many[:400:7].astype(f8),), lambda rng: (whole(dtype).astype(i8),),
         lambda rng: (np.array([True, False]),)],
        encoded, label=dtype.name, grad=False)
    held = {"f": f4, "i": np.dtype("int8"), "u": u1}[kind(dtype)]
    codes = every_code(dtype)
    row("decode", lambda x: apply(decode_op, (x,), {"dtype": dtype}),
        [lambda rng: (codes,), lambda rng: (codes[-4:].reshape(2, 2).T,),
         lambda rng: (np.asarray(codes[1]),), lambda rng: (codes[:0],)],
        lambda x: np.asarray(x).view(dtype).astype(held), label=dtype.name, grad=False)


for each in STORED:
    enter(each)
# With the dtype of codes themselves, as the result is compared with NumPy's.
row("as_stored", lambda x: apply(as_stored_op, (fw.flip(x),), {"dtype": u1}),
    [lambda rng: (np.arange(256, dtype=u1),),
     lambda rng: (np.arange(12, dtype=u1).reshape(3, 4).T,)],
    np.flip, grad=False)
