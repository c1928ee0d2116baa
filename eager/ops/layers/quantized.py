"""Numbers of 8 bits in the place of floats: q stands for (q - zero) * scale, as in ONNX.

Products are summed in int32, which is exact, and scaled once: so eager, compiled code and other
runtimes give the same sums, and differ in the rounding of floats at most. Weights are int8 from
-127 to 127 with a scale for each channel of the result and no zero; activations int8 or uint8 with
one scale and one zero. A bias of int32 counts in units of both scales; one of float32 is added to
the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import cpu_kernels, dtypes
from ...arrays.shapes import TensorType, broadcast, product
from ...core.dispatch import apply, type_of
from ...core.op import Op, define
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError
from ..create import ones
from ..elementwise.composite import composite
from ..elementwise.pointwise import cast, clip, divide, equal, maximum, minimum, round, where
from ..products.contract import LETTERS, contract, contract_op
from ..reduction.reduce import max as max_of
from ..reduction.reduce import min as min_of
from ..reduction.reduce import sum as sum_of
from .conv import conv, conv_op

__all__: list[str] = []

MOST_PRODUCTS = 1 << 15  # of a sum, which with a bias up to 2**30 then fits in int32
LARGEST_BIAS = 1 << 30
_STEPS = 255  # between the least and the largest number of 8 bits
_EXACT = {np.float32: 1 << 24, np.float64: 1 << 53}  # which whole numbers a float holds
_FLOATS = (dtypes.float32, dtypes.float64)
_NO_GRADIENT = "whole numbers do not change by small amounts"


# ---- floats to numbers of 8 bits
def limits(dtype: Any) -> tuple[int, int]:
    """The least and the largest number of a dtype of 8 bits."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _rounded(k: Any, x: Any, scale: Any, zero: Any) -> Any:
    """Half to even, and what lies outside to the nearest limit; nan to the least."""
    low, high = limits(zero.dtype)
    rounded = k.round(x / scale) + k.cast(zero, x.dtype)
    rounded = k.where(rounded > low, rounded, float(low))
    return k.cast(k.minimum(rounded, float(high)), zero.dtype)


def _rounded_result(x: TensorType, scale: TensorType, zero: TensorType) -> TensorType:
    if x.dtype != scale.dtype or x.dtype not in _FLOATS or not _is_small(zero):
        raise DTypeError(
            f"quantize_linear: takes float32, a scale of float32 and a zero of int8 or uint8, not "
            f"{x.dtype.name}, {scale.dtype.name} and {zero.dtype.name}",
            "cast the input first: x.astype(fw.float32)")
    return TensorType(broadcast("quantize_linear", x.shape, scale.shape, zero.shape), zero.dtype)


def _is_small(x: TensorType) -> bool:
    return x.dtype in (dtypes.int8, dtypes.uint8)


quantize_op = define(Op("quantize_linear", "pointwise", _rounded_result, _rounded, _rounded,
                        why={"vjp": _NO_GRADIENT}, precision="full", passes=6))


def quantize_linear(x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """round(x / scale) + zero in the dtype of `zero`, int8 or uint8; off the tape."""
    return _checked(quantize_op, x.detach(), scale, zero)


def _checked(op: Op, *inputs: Tensor, **params: Any) -> Tensor:
    """The result of an op on tensors that fit it; NumPy would take others as well."""
    op.result(*map(type_of, inputs), **params)
    return apply(op, inputs, params)


# ---- scale and zero of what is there
def _span(x: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the largest number of `x` and 0."""
    return minimum(min_of(x), 0.0), maximum(max_of(x), 0.0)


def _scale(x: Tensor) -> Tensor:
    low, high = _span(x)
    scale = divide(high - low, float(_STEPS))
    return where(equal(scale, 0.0), 1.0, scale)


def _zero(x: Tensor) -> Tensor:
    low, _ = _span(x)
    return cast(clip(round(divide(-low, _scale(x))), 0, _STEPS), dtypes.uint8)


def _scale_result(x: TensorType) -> TensorType:
    if x.dtype not in _FLOATS:
        raise DTypeError(f"dynamic_scale: takes float32, not {x.dtype.name}",
                         "cast the input first: x.astype(fw.float32)")
    return TensorType((), x.dtype)


scale_op = composite("dynamic_scale", _scale, _scale_result)
zero_op = composite("dynamic_zero", _zero, lambda x: TensorType((), dtypes.uint8))


def dynamic(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`x` in uint8, with the scale and the zero that its own least and largest number give."""
    x = x.detach()
    scale, zero = _checked(scale_op, x), _checked(zero_op, x)
    return quantize_linear(x, scale, zero), scale, zero


# ---- products
def _linear(q: Tensor, scale: Tensor, zero: Tensor, w: Tensor, w_scale: Tensor, *bias: Tensor
            ) -> Tensor:
    sums = contract(_centred(q, zero), cast(w, dtypes.int32), _spec(q.ndim))
    return _scaled(sums, scale * w_scale, bias, 0)


def _conv(q: Tensor, scale: Tensor, zero: Tensor, w: Tensor, w_scale: Tensor, *bias: Tensor,
          **how: Any) -> Tensor:
    whole = cast(w, dtypes.int32)
    sums = conv(cast(q, dtypes.int32), whole, **how)
    return _scaled(sums - cast(zero, dtypes.int32) * _added(q, whole, how), scale * w_scale, bias,
                   w.ndim - 2)


def _added(q: Tensor, w: Tensor, how: Any) -> Tensor:
    """The sums of the weights that meet an image at each place, or of all where all do."""
    if any(map(any, how.get("pad", ()))):
        return conv(ones((1, *q.shape[1:]), dtype=dtypes.int32, device=q.device), w, **how)
    return sum_of(w, axis=tuple(range(1, w.ndim)), dtype=dtypes.int32).reshape(
        (-1, *[1] * (w.ndim - 2)))


def _centred(q: Tensor, zero: Tensor) -> Tensor:
    return cast(q, dtypes.int32) - cast(zero, dtypes.int32)


def _spec(axes: int) -> str:
    rows = LETTERS[11:10 + axes]
    return f"{rows}k,jk->{rows}j"


def _scaled(sums: Any, scale: Any, bias: tuple[Any, ...], space: int) -> Any:
    """Sums as floats: `scale` and the bias are of channels, which `space` axes come after.

    Of tensors, or of arrays.
    """
    def along(x: Any) -> Any:
        return x.reshape((-1, *[1] * space)) if space else x

    whole = bool(bias) and bias[0].dtype == dtypes.int32
    if whole:
        sums = sums + along(bias[0])
    out = sums.astype(scale.dtype) * along(scale)
    return out + along(bias[0]) if bias and not whole else out


def _linear_result(q: TensorType, scale: TensorType, zero: TensorType, w: TensorType,
                   w_scale: TensorType, *bias: TensorType) -> TensorType:
    _check("quantized_linear", q, w, w_scale, *bias)
    if w.ndim != 2 or not q.ndim or q.shape[-1] != w.shape[1]:
        raise ShapeError(f"quantized_linear: input {q.shape} does not fit the weight {w.shape}",
                         f"the last size of the input must be {w.shape[-1]}")
    return TensorType((*q.shape[:-1], w.shape[0]), scale.dtype)


def _conv_result(q: TensorType, scale: TensorType, zero: TensorType, w: TensorType,
                 w_scale: TensorType, *bias: TensorType, **how: Any) -> TensorType:
    _check("quantized_conv", q, w, w_scale, *bias)
    result = conv_op.result(TensorType(q.shape, w.dtype), w, **how)
    return TensorType(result.shape, scale.dtype)


def _check(name: str, q: TensorType, w: TensorType, *by_channel: TensorType) -> None:
    if not _is_small(q) or w.dtype != dtypes.int8:
        raise DTypeError(f"{name}: takes int8 or uint8 and a weight of int8, not {q.dtype.name} "
                         f"and {w.dtype.name}", "fw.quantize makes layers of these")
    for x in by_channel:
        if x.shape not in ((), w.shape[:1]):
            raise ShapeError(f"{name}: a scale or bias of shape {x.shape} for {w.shape[0]} "
                             "channels")


# ---- eager: products of whole floats, which BLAS adds up exactly
def _wide(q: Any, zero: Any, w: Any) -> tuple[Any, Any]:
    """Both factors as floats that hold every sum."""
    most = _STEPS * 127 * product(w.shape[1:])
    dtype = next(t for t, end in _EXACT.items() if most < end)
    return q.astype(dtype) - zero.astype(dtype), w.astype(dtype)


def _linear_impl(xp: Any, q: Any, scale: Any, zero: Any, w: Any, w_scale: Any, *bias: Any) -> Any:
    sums = contract_op.impl(cpu_kernels, *_wide(q, zero, w), spec=_spec(q.ndim))
    return _scaled(sums.astype(np.int32), scale * w_scale, bias, 0)


def _conv_impl(xp: Any, q: Any, scale: Any, zero: Any, w: Any, w_scale: Any, *bias: Any, **how: Any
               ) -> Any:
    sums = conv_op.impl(cpu_kernels, *_wide(q, zero, w), **how)
    return _scaled(sums.astype(np.int32), scale * w_scale, bias, w.ndim - 2)


def _linear_work(q: TensorType, scale: TensorType, zero: TensorType, w: TensorType,
                 *rest: TensorType) -> float:
    """Nanoseconds, about, of the product of floats."""
    floats = [TensorType(x.shape, dtypes.float32) for x in (q, w)]
    return contract_op.work(*floats, spec=_spec(q.ndim))  # type: ignore[misc]


def _conv_work(q: TensorType, scale: TensorType, zero: TensorType, w: TensorType,
               *rest: TensorType, **how: Any) -> float:
    """Nanoseconds, about, of the convolution of floats."""
    floats = [TensorType(x.shape, dtypes.float32) for x in (q, w)]
    return conv_op.work(*floats, **how)  # type: ignore[misc]


quantized_linear_op = composite("quantized_linear", _linear, _linear_result, _linear_impl,
                                alike=True, work=_linear_work, passes=contract_op.passes)
quantized_conv_op = composite("quantized_conv", _conv, _conv_result, _conv_impl, alike=True,
                              work=_conv_work, passes=conv_op.passes)


def quantized_linear(q: Tensor, scale: Tensor, zero: Tensor, w: Tensor, w_scale: Tensor,
                     *bias: Tensor) -> Tensor:
    """q @ w.T + bias as float32: of what `q` (..., n_in) and `w` (n_out, n_in) stand for."""
    return _checked(quantized_linear_op, q, scale, zero, w, w_scale, *bias)


def quantized_conv(q: Tensor, scale: Tensor, zero: Tensor, w: Tensor, w_scale: Tensor,
                   *bias: Tensor, **how: Any) -> Tensor:
    """The convolution, plus a bias, of what `q` and `w` stand for. how: stride, dilation and groups
    as `conv` has them, pad as pairs."""
    return _checked(quantized_conv_op, q, scale, zero, w, w_scale, *bias, **how)
