"""Rows of numbers of 8 bits: from floats, and products of them, in whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, f4, row
from rows.whole import convolved

import fusewire as fw
from fusewire.eager.ops.layers import quantized
from fusewire.eager.ops.products.grouped_product import grouped_product

i1, u1 = np.dtype("int8"), np.dtype("uint8")


def codes(rng: Any, shape: Any, dtype: Any) -> Array:
    """Numbers of the whole range, the ends among them where there is room."""
    info = np.iinfo(dtype)
    found = rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
    if found.size > 1:
        found.flat[0], found.flat[-1] = info.min, info.max
    return found


def rounded(x: Array, scale: Array, zero: Array) -> Array:
    info = np.iinfo(zero.dtype)
    x = np.nan_to_num(x, nan=-np.inf)
    return np.clip(np.rint(x / scale) + zero, info.min, info.max).astype(zero.dtype)


def floats(shape: Any, dtype: Any, scale: float, zero: int, spread: float = 3.0) -> Any:
    return lambda rng: (np.asarray(rng.standard_normal(shape) * spread, f4), np.array(scale, f4),
                        np.array(zero, dtype))


halves = np.array([-0.5, 0.5, 1.5, 2.5, -1.5, -2.5, np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30], f4)
row("quantize_linear", quantized.quantize_linear,
    [floats((3, 5), u1, 0.02, 100), floats((2, 3, 4), i1, 0.11, -7), floats((), i1, 0.25, 0),
     floats((0, 4), u1, 1.0, 0), lambda rng: (halves, np.array(1.0, f4), np.array(-3, i1)),
     lambda rng: (np.arange(12, dtype=f4).reshape(3, 4).T, np.array(0.5, f4), np.array(255, u1)),
     lambda rng: (rng.standard_normal((4, 3)).astype(f4), np.array([0.1, 0.2, 0.3], f4),
                  np.array([0, 5, -5], i1))],
    rounded, grad=False, errors=(
        Bad(lambda: quantized.quantize_linear(fw.zeros(2, dtype=fw.float16), fw.tensor(1.0),
                                              fw.tensor(0, dtype=fw.int8)),
            "quantize_linear: takes float32, a scale of float32 and a zero of int8 or uint8, not "
            "float16"),))


# ---- the range of an input itself
def own_scale(x: Array) -> Array:
    span = max(0.0, x.max()) - min(0.0, x.min())
    return np.float32(span) / np.float32(255) if span else 1.0


def own_zero(x: Array) -> Array:
    return np.clip(np.rint(-min(0.0, x.min()) / own_scale(x)), 0, 255).astype(u1)


whole_inputs = [lambda rng, s=s, m=m: (np.asarray(rng.uniform(-1, 2, s) + m, f4),)
                for s, m in (((4, 5), 0), ((7,), 3), ((2, 3, 2), -4), ((), 0))]
whole_inputs.append(lambda rng: (np.zeros((3, 2), f4),))
for name, place, reference in (("dynamic_scale", 1, own_scale), ("dynamic_zero", 2, own_zero)):
    row(name, lambda x, place=place: quantized.dynamic(x)[place], whole_inputs, reference,
        grad=False, errors=(Bad(lambda: quantized.dynamic(fw.zeros(2, dtype=fw.float16)),
                                "dynamic_scale: takes float32, not float16"),))


# ---- products
def scaled(sums: Array, scale: Array, w_scale: Array, bias: Any, space: int) -> Array:
    def along(x: Array) -> Array:
        return x.reshape(-1, *[1] * space) if x.ndim else x

    if bias and bias[0].dtype == np.int32:
        sums, bias = sums + along(bias[0]), ()
    out = sums * along(scale * w_scale)
    return out + along(bias[0]) if bias else out


def factors(x: Any, w: Any, dtype: Any, bias: Any = None, one: bool = False) -> Any:
    def make(rng: Any) -> Any:
        channels = () if one else (w[0],)
        found = [codes(rng, x, dtype), np.array(0.02, f4), np.array(3, dtype), codes(rng, w, i1),
                 rng.uniform(0.01, 0.02, channels).astype(f4)]
        if bias is not None:
            found.append(rng.integers(-999, 999, w[:1]).astype(bias))
        return tuple(found)

    return make


row("quantized_linear", lambda *x: quantized.quantized_linear(*x),
    [factors((4, 6), (5, 6), u1), factors((2, 3, 6), (5, 6), i1, np.int32),
     factors((6,), (1, 6), u1, f4), factors((0, 6), (5, 6), i1, np.int32),
     factors((4, 700), (3, 700), u1, np.int32), factors((2, 4), (3, 4), i1, None, True)],
    lambda q, s, z, w, ws, *b: scaled(
        (q.astype(np.int64) - z) @ w.astype(np.int64).T, s, ws, b, 0),
    grad=False, errors=(
        Bad(lambda: quantized.quantized_linear(*[fw.from_numpy(x) for x in factors(
            (4, 6), (5, 7), u1)(np.random.default_rng(0))]),
            "quantized_linear: input (4, 6) does not fit the weight (5, 7)"),
        Bad(lambda: quantized.quantized_linear(fw.zeros(2, 3), fw.tensor(1.0),
                         fw.tensor(0), fw.zeros(2, 3), fw.tensor(1.0)),
            "quantized_linear: takes int8 or uint8 and a weight of int8, not float32")))


def conv_of(q: Array, s: Array, z: Array, w: Array, ws: Array, *b: Array, groups: int, **how: Any
            ) -> Array:
    x, w = q.astype(np.float64) - z, w.astype(np.float64)
    parts = [convolved(p, v, how["stride"], how["dilation"], [b for b, _ in how["pad"]])
             for p, v in zip(np.split(x, groups, 1), np.split(w, groups, 0))]
    return scaled(np.concatenate(parts, 1), s, ws, b, w.ndim - 2)


for x, w, groups, stride, dilation, pad, bias in (
        ((2, 3, 5, 6), (4, 3, 3, 2), 1, (1, 1), (1, 1), (0, 0), None),
        ((1, 4, 7, 6), (4, 2, 3, 3), 2, (2, 2), (1, 1), (1, 1), np.int32),
        ((2, 3, 9), (2, 3, 4), 1, (3,), (1,), (2,), f4),
        ((1, 2, 4, 4, 5), (2, 1, 2, 2, 2), 2, (1, 1, 2), (1, 2, 1), (0, 1, 0), np.int32)):
    how: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": groups,
                           "pad": tuple((p, p) for p in pad)}
    row("quantized_conv", lambda *x, how=how: quantized.quantized_conv(*x, **how),
        [factors(x, w, u1, bias), factors(x, w, i1, bias)],
        lambda *x, how=how: conv_of(*x, **how), label=f"{x} {w}", grad=False, errors=(
            Bad(lambda how=how, x=x, w=w: quantized.quantized_conv(*[
                fw.from_numpy(a) for a in factors(x, (w[0], w[1] + 1, *w[2:]), u1)(
                    np.random.default_rng(0))], **how), "does not fit the weight"),))


# ---- a matrix of few bits, with a scale for each group
def few_bits(dtype: Any, *shape: int, bits: int, outputs: int = 3, groups: int = 2) -> Any:
    """Rows of this shape, codes, scales and least numbers."""
    def make(rng: Any) -> Any:
        inputs = shape[-1]
        return (rng.standard_normal(shape).astype(dtype),
                codes(rng, (outputs, inputs * bits // 8), u1),
                *(rng.standard_normal((outputs, groups)).astype(f4) for _ in range(2)))

    return make


def times_few_bits(x: Array, whole: Array, scale: Array, least: Array, bits: int) -> Array:
    if bits == 4:
        whole = np.concatenate([whole & 15, whole >> 4], axis=1)
    scale, least = (np.repeat(t, x.shape[-1] // t.shape[1], axis=1) for t in (scale, least))
    return x @ (whole.astype(np.float64) * scale + least).T


for bits in (4, 8):
    row("grouped_product", lambda *x, bits=bits: grouped_product(*x, bits=bits),
        [few_bits(f4, 2, 32, bits=bits), few_bits(f4, 32, bits=bits),
         few_bits(f4, 2, 3, 8, bits=bits), few_bits(f4, 0, 8, bits=bits)],
        lambda *x, bits=bits: times_few_bits(*x, bits=bits), label=f"{bits} bits",
        tolerance=1e-5, grad=False)
