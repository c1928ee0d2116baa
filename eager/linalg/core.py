"""Declares ops of linear algebra: the calls of LAPACK, their errors, and packed results.

An op with several results (values and vectors) returns one array: for each matrix the numbers of
all results, one after the other. `unpack` slices tensors from it, so that the gradient of each of
them reaches the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import dtypes
from ..arrays.shapes import TensorType, product
from ..core.op import Op, define
from ..core.tensor import Tensor
from ..errors import LinAlgError, ShapeError
from ..ops.batching import leading
from ..ops.create import iota
from ..ops.elementwise import pointwise
from ..ops.elementwise.complex import conj_of, real
from ..ops.reduction import reduce
from ..ops.shape.view import matrix_transpose, reshape, slice_axes

_NO_LOOPS = "its loops depend on the values: it runs as a call of LAPACK"
_NO_ONNX = "ONNX has no such operator"


def lapack(
    name: str, result: Callable[..., TensorType], compute: Callable[..., Any], vjp: Any,
    help: str = "", onnx: str = "", finite: bool = False, **why: str,
) -> Op:
    """Declares an op on (batches of) matrices: the last two axes of its first input.

    compute: a function of arrays; 16-bit floats arrive as float32. help: the next step after a
    failure. finite: numbers of the first input that are inf or nan are an error. All inputs have
    the same leading axes.
    """
    why = {"meaning": _NO_LOOPS, **({} if onnx else {"onnx": _NO_ONNX}), **why}
    return define(Op(name, "opaque", result, _impl(name, compute, help, finite), None, vjp, onnx,
                     why, batch=leading, precision="full", raises=True))


def _impl(name: str, compute: Callable[..., Any], help: str, finite: bool) -> Callable[..., Any]:
    def impl(xp: Any, *arrays: Any, **params: Any) -> Any:
        wide = [a.astype(np.float32) if is_small(a.dtype) else a for a in arrays]
        try:
            with np.errstate(all="ignore"):
                if finite:
                    _require_finite(wide[0])
                out = compute(*wide, **params)
        except np.linalg.LinAlgError as error:
            raise _failure(name, compute, wide, params, help, finite, error) from None
        return out.astype(arrays[0].dtype) if wide[0] is not arrays[0] and out.dtype.kind == "f" \
            else out

    return impl


def is_small(dtype: Any) -> bool:
    """True for 16-bit floats, which LAPACK lacks."""
    return bool(dtype.itemsize == 2 and dtypes.kind(dtype) == "f")


def _require_finite(x: Any) -> None:
    """Raises NumPy's error, which `_failure` turns into ours, for numbers that are inf or nan."""
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("Array must not contain infs or NaNs")


def _failure(
    name: str, compute: Callable[..., Any], arrays: list[Any], params: Any, help: str,
    finite: bool, error: Exception,
) -> LinAlgError:
    """The error of the first matrix of the batch that fails by itself."""
    x = arrays[0]
    which = ""
    for index in np.ndindex(x.shape[:-2]):
        try:
            if finite:
                _require_finite(x[index])
            compute(*[a[index] for a in arrays], **params)
        except np.linalg.LinAlgError as own:
            error, which = own, f"the matrix at {index} of " if index else ""
            break
    return LinAlgError(f"{name}: {which}{TensorType(x.shape, x.dtype)}: {error}", help)


# ---- inputs

def matrices(name: str, x: Any, square: bool = False) -> Tensor:
    """`x` as floating point matrices (..., m, n), or an error."""
    x = reduce.floating(name, x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise ShapeError(f"{name}: takes {'square ' * square}matrices "
                         f"(..., {'n, n' if square else 'm, n'}), got shape {x.shape}",
                         "the last two axes are those of the matrices, all before them a batch")
    return x


# ---- packed results

def pack(lead: Sequence[int], *arrays: Any) -> Any:
    """The arrays (*lead, ...) flattened and joined: (*lead, count)."""
    lead = tuple(lead)
    return np.concatenate([a.reshape(*lead, int(np.prod(a.shape[len(lead):]))) for a in arrays],
                          axis=-1)


def unpack(packed: Tensor, *shapes: tuple[Any, ...]) -> list[Tensor]:
    """The tensors (..., *shape) whose numbers `packed` holds."""
    lead, start, out = packed.shape[:-1], 0, []
    for shape in shapes:
        count = product(shape)
        part = slice_axes(packed, (*(0,) * len(lead), start), (1,) * packed.ndim, (*lead, count))
        out.append(reshape(part, (*lead, *shape)))
        start = start + count
    return out


def packed_type(x: TensorType, dtype: Any, *shapes: tuple[Any, ...]) -> TensorType:
    """The type of the packed results of these shapes for each matrix of `x`."""
    count: Any = 0
    for shape in shapes:
        count = count + product(shape)
    return TensorType((*x.shape[:-2], count), dtype)


# ---- helpers for gradients

def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of matrices."""
    return conj_of(matrix_transpose(x))


def eye_mask(n: Any, device: str) -> Tensor:
    """True on the diagonal of n x n."""
    return pointwise.equal(iota((n, n), 0, device=device), iota((n, n), 1, device=device))


def eye_like(x: Tensor) -> Tensor:
    """The identity matrix (n, n), in the dtype of the matrices `x` (..., n, n)."""
    return pointwise.cast(eye_mask(x.shape[-1], x.device), x.dtype)


def triangle(x: Tensor, upper: bool, strict: bool = False) -> Tensor:
    """`x` with zeros in the other triangle, and on the diagonal too if `strict`."""
    m, n = x.shape[-2:]
    rows, columns = iota((m, n), 0, device=x.device), iota((m, n), 1, device=x.device)
    small, large = (rows, columns) if upper else (columns, rows)
    keep = pointwise.less(small, large) if strict else pointwise.less_equal(small, large)
    return pointwise.where(keep, x, 0.0)


def with_diagonal(x: Tensor, diagonal: Tensor) -> Tensor:
    """The square matrices `x` with their diagonals replaced by the vectors `diagonal`."""
    values = reshape(diagonal, (*diagonal.shape[:-1], 1, diagonal.shape[-1]))
    return pointwise.where(eye_mask(x.shape[-1], x.device), values, x)


def without_imag(x: Tensor) -> Tensor:
    """`x` with imaginary parts of 0: the gradient of real results that were packed as complex."""
    return pointwise.cast(real(x), x.dtype) if x.dtype.kind == "c" else x


def columns(v: Tensor) -> Tensor:
    """Vectors (..., n) as (..., 1, n): a factor for each column of a matrix."""
    return reshape(v, (*v.shape[:-1], 1, v.shape[-1]))


def scalars(x: Tensor) -> Tensor:
    """Numbers (...) as (..., 1, 1): a factor for each matrix."""
    return reshape(x, (*x.shape, 1, 1))
