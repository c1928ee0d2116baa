"""Defines quantization to integers and small floats, and products of quantized numbers."""

from __future__ import annotations

from typing import Any

from .....eager.arrays import dtypes
from .....eager.errors import ShapeError
from .....eager.ops.elementwise import pointwise
from .....eager.ops.elementwise.clip import clip
from .....eager.ops.products.contract import matmul
from .....eager.ops.reduction import reduce
from .....eager.ops.shape import rearrange, view
from ..runtime.casting import cast_to, dtype_name
from ..runtime.table import Tensor, operator
from .convolution import _conv
from .shapes import along, axes_of

__all__: list[str] = []

_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767),
           "uint4": (0, 15), "int4": (-8, 7), "uint2": (0, 3), "int2": (-2, 1)}


def _fitted(scale: Tensor, shape: Any, axis: int, block: int) -> Tensor:
    """A scale that broadcasts to `shape`: one number, one per index of an axis, or per block."""
    if scale.size == 1:
        return view.reshape(scale, ())
    at = axes_of([axis], len(shape))[0]
    if block:
        wide = rearrange.repeat(scale, block, axis=at)
        return along(wide, at, slice(0, shape[at]))
    if scale.ndim == 1:
        return view.reshape(scale, [-1 if i == at else 1 for i in range(len(shape))])
    raise ShapeError(f"scales of shape {scale.shape} do not fit a tensor of shape {tuple(shape)}")


def _wide(x: Any) -> Tensor:
    """Quantized numbers as float32."""
    return cast_to(x, "float32")


@operator("QuantizeLinear", settings=(1, 2))
def _quantize(x: Tensor, scale: Tensor, zero: Any = None, axis: int = 1, saturate: int = 1,
              block_size: int = 0, output_dtype: str | None = None, precision: Any = None) -> Any:
    name = dtype_name(zero) if zero is not None else output_dtype or "uint8"
    work = precision or None
    fitted = _fitted(scale, x.shape, axis, block_size)
    if work:
        x, fitted = x.astype(work), fitted.astype(work)
    elif dtypes.kind(x.dtype) != "f":
        x = x.astype("float32")
    scaled = x / fitted
    if name not in _RANGES:
        wide = scaled.astype("float32")
        return cast_to(wide, name, bool(saturate))
    low, high = _RANGES[name]
    rounded = pointwise.round(scaled.astype("float64"))
    if zero is not None:
        rounded = rounded + _fitted(cast_to(zero, "float64"), x.shape, axis, block_size)
    return cast_to(clip(rounded, low, high).astype("int32"), name)


@operator("DequantizeLinear", settings=(2,))
def _dequantize(x: Any, scale: Any, zero: Any = None, axis: int = 1, block_size: int = 0,
                output_dtype: str | None = None) -> Any:
    wide = _wide(x)
    scale_, name = _wide(scale), output_dtype or dtype_name(scale)
    if zero is not None and dtype_name(zero).startswith(("int", "uint")):
        wide = wide - _fitted(_wide(zero), wide.shape, axis, block_size)
    return cast_to(wide * _fitted(scale_, wide.shape, axis, block_size), name)


@operator("DynamicQuantizeLinear", many=True)
def _dynamic_quantize(x: Tensor) -> Any:
    low, high = (pointwise.minimum(reduce.min(x), 0.0), pointwise.maximum(reduce.max(x), 0.0))
    scale = (high - low) / 255.0
    zero = clip(pointwise.round((0.0 - low) / scale), 0, 255)
    rounded = clip(pointwise.round(x / scale) + zero, 0, 255)
    return rounded.astype("uint8"), scale, zero.astype("uint8")


def _centred(x: Tensor, zero: Tensor | None, axis: int = 0) -> Tensor:
    """Numbers minus their zero point, as int32; `axis` is that of a vector of zero points."""
    wide = x.astype("int32")
    if zero is None:
        return wide
    own = zero.astype("int32")
    if own.ndim == 1 and own.shape[0] > 1 and x.ndim > 1:
        own = view.reshape(own, [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return wide - own


@operator("MatMulInteger")
def _matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None,
                    b_zero: Tensor | None = None) -> Tensor:
    return matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1))


@operator("ConvInteger")
def _conv_integer(x: Tensor, w: Tensor, x_zero: Tensor | None = None,
                  w_zero: Tensor | None = None, **attributes: Any) -> Tensor:
    """The convolution in float64, which represents all sums exactly."""
    sums = _conv(_centred(x, x_zero).astype("float64"),
                 _centred(w, w_zero).astype("float64"), None, **attributes)
    return sums.astype("int32")


def _requantized(sums: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    low, high = _RANGES[zero.dtype.name]
    rounded = pointwise.round(sums * scale) + zero.astype(sums.dtype)
    return clip(rounded, low, high).astype(zero.dtype)


@operator("QLinearMatMul", settings=(1, 4, 6))
def _qlinear_matmul(a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor,
                    b_zero: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor:
    sums = matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1)).astype("float64")
    rows = view.reshape(a_scale, (-1, 1)) if a_scale.ndim == 1 and a_scale.shape[0] > 1 else a_scale
    scale = rows.astype("float64") * b_scale.astype("float64") / y_scale.astype("float64")
    return _requantized(sums, scale, y_zero)


@operator("QLinearConv", settings=(1, 4, 6))
def _qlinear_conv(x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor,
                  w_zero: Tensor, y_scale: Tensor, y_zero: Tensor, b: Tensor | None = None,
                  **attributes: Any) -> Tensor:
    bias = None if b is None else b.astype("float64")
    sums = _conv(_centred(x, x_zero).astype("float64"),
                 _centred(w, w_zero).astype("float64"), bias, **attributes)
    scale = x_scale.astype("float64") * w_scale.astype("float64") / \
        y_scale.astype("float64")
    if scale.ndim == 1 and scale.shape[0] > 1:
        scale = view.reshape(scale, (-1, *[1] * (x.ndim - 2)))
    return _requantized(sums, scale, y_zero)

