"""Computes layers with 8-bit numbers: q stands for the float (q - zero) * scale, as in ONNX.

Products are summed in int32, which is exact, and scaled once. So eager, compiled code and other
runtimes have equal sums and differ at most in the rounding of floats. Weights are int8 from -127 to
127 with a scale for each channel of the result and no zero. Activations are int8 or uint8 with one
scale and one zero. A bias of int32 counts in units of both scales; one of float32 is added to the
result.
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
from ..elementwise.clip import clip
from ..elementwise.composite import composite
from ..elementwise.pointwise import cast, divide, equal, maximum, minimum, round, where
from ..products.contract import LETTERS, contract, contract_op
from ..reduction.reduce import max as max_of
from ..reduction.reduce import min as min_of
from ..reduction.reduce import sum as sum_of
from .conv import conv, conv_op

__all__: list[str] = []

MOST_PRODUCTS = 1 << 15  # per sum, which fits in int32 with a bias up to 2**30
LARGEST_BIAS = 1 << 30
_STEPS = 255  # steps from the smallest to the largest 8-bit number
_EXACT_BELOW = {np.float32: 1 << 24, np.float64: 1 << 53}  # integers that a float holds
_FLOATS = (dtypes.float32, dtypes.float64)
_NO_GRADIENT = "whole numbers do not change by small amounts"


# ---- floats to 8-bit numbers
def limits(dtype: Any) -> tuple[int, int]:
    """The smallest and the largest number of an 8-bit dtype."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _rounded(k: Any, x: Any, scale: Any, zero: Any) -> Any:
    """x / scale + zero, rounded half to even and limited to the dtype; nan is the lower limit."""
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
    """round(x / scale) + zero in the dtype of `zero`, int8 or uint8; it has no gradient."""
    return _checked(quantize_op, x.detach(), scale, zero)


def _checked(op: Op, *inputs: Tensor, **params: Any) -> Tensor:
    """The result of an op on tensors whose types it accepts; NumPy would accept others as well."""
    op.result(*map(type_of, inputs), **params)
    return apply(op, inputs, params)


# ---- scale and zero from the values
def _span(x: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest number of `x` and 0."""
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
    """`x` in uint8, with the scale and the zero that follow from its own range."""
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
    """The sums of the weights that touch the image at each position; one sum if all touch it."""
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
    """Sums of tensors or arrays as floats.

    `scale` and the bias have one value for each channel; `space` axes follow that of channels.
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


# ---- eager: products of integers as floats, which BLAS sums exactly
def _wide(q: Any, zero: Any, w: Any) -> tuple[Any, Any]:
    """Both factors in a float dtype that holds every sum exactly."""
    most = _STEPS * 127 * product(w.shape[1:])
    dtype = next(t for t, end in _EXACT_BELOW.items() if most < end)
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
    """About the nanoseconds of the product of floats."""
    floats = [TensorType(x.shape, dtypes.float32) for x in (q, w)]
    return contract_op.work(*floats, spec=_spec(q.ndim))  # type: ignore[misc]


def _conv_work(q: TensorType, scale: TensorType, zero: TensorType, w: TensorType,
               *rest: TensorType, **how: Any) -> float:
    """About the nanoseconds of the convolution of floats."""
    floats = [TensorType(x.shape, dtypes.float32) for x in (q, w)]
    return conv_op.work(*floats, **how)  # type: ignore[misc]


quantized_linear_op = composite("quantized_linear", _linear, _linear_result, _linear_impl,
                                alike=True, work=_linear_work, passes=contract_op.passes)
quantized_conv_op = composite("quantized_conv", _conv, _conv_result, _conv_impl, alike=True,
                              work=_conv_work, passes=conv_op.passes)


def quantized_linear(q: Tensor, scale: Tensor, zero: Tensor, w: Tensor, w_scale: Tensor,
                     *bias: Tensor) -> Tensor:
    """x @ w.T + bias as float32, from 8-bit numbers `q` (..., n_in) of x and `w` (n_out, n_in)."""
    return _checked(quantized_linear_op, q, scale, zero, w, w_scale, *bias)


def quantized_conv(q: Tensor, scale: Tensor, zero: Tensor, w: Tensor, w_scale: Tensor,
                   *bias: Tensor, **how: Any) -> Tensor:
    """The convolution, plus a bias, of the floats that `q` and `w` stand for.

    how: stride, dilation and groups as for `conv`, and pad as pairs.
    """
    return _checked(quantized_conv_op, q, scale, zero, w, w_scale, *bias, **how)
