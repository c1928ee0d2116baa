"""Softmax and what belongs to it: log_softmax, logsumexp, cross entropy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import int64
from ..errors import DTypeError, IndexingError, ShapeError
from ..op import Op, each
from ..shapes import TensorType, axis_of
from ..tensor import Tensor, as_tensor
from . import reduce
from .batching import folded, shifted
from .check import check_index
from .composite import call, composite
from .create import iota
from .pointwise import alias, cast, equal, exp, isfinite, log, where
from .view import expand_dims, expand_to, squeeze

__all__ = ["log_softmax", "logsumexp", "softmax"]


def _softmax(x: Tensor, axis: int) -> Tensor:
    e = exp(x - reduce.max(x, axis, keepdims=True))
    return e / reduce.sum(e, axis, keepdims=True)


def _log_softmax(x: Tensor, axis: int) -> Tensor:
    shifted = x - reduce.max(x, axis, keepdims=True)
    return shifted - log(reduce.sum(exp(shifted), axis, keepdims=True))


softmax_op = composite(
    "softmax", _softmax, onnx="Softmax", rows=lambda x, axis: (axis,), batch=shifted("axis"),
    vjp=each(lambda g, out, x, axis: out * (g - reduce.sum(g * out, axis, keepdims=True))))
log_softmax_op = composite(
    "log_softmax", _log_softmax, onnx="LogSoftmax", rows=lambda x, axis: (axis,),
    batch=shifted("axis"),
    vjp=each(lambda g, out, x, axis: g - exp(out) * reduce.sum(g, axis, keepdims=True)))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) divided by its sum along `axis`, of the shape of `x`; large values do not overflow.

    >>> import fusewire as fw
    >>> fw.tensor([0.0, 0.0, -float("inf")]).softmax()
    tensor([0.5, 0.5, 0. ])
    """
    return _along(softmax_op, x, axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, of the shape of `x`."""
    return _along(log_softmax_op, x, axis)


def _along(op: Op, x: Tensor, axis: int) -> Tensor:
    x = reduce.floating(op.name, x, "f")
    at = axis_of(op.name, axis, x.ndim)
    return call(op, x, axis=at) if x.shape[at] else alias(x)  # an empty axis has no maximum


def logsumexp(x: Tensor, axis: int = -1, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) along `axis`, without overflow."""
    x = reduce.floating("logsumexp", x, "f")
    top = reduce.max(x, axis, keepdims=True).detach()
    top = where(isfinite(top), top, 0.0)  # inf - inf would be nan
    out = log(reduce.sum(exp(x - top), axis, keepdims=True)) + top
    return out if keepdims else squeeze(out, axis)


# ---- cross entropy of logits (n, classes) against class numbers (n,), a value per row
def _rows(x: TensorType, target: TensorType) -> TensorType:
    return TensorType(target.shape, x.dtype)


def _hits(x: Tensor, target: Tensor) -> Tensor:
    """A boolean (n, classes): whether the column is the row's target."""
    numbers = expand_dims(cast(target, int64), 1)  # uint8 could not count the columns
    return equal(iota(x.shape, 1), expand_to(numbers, x.shape))


def _nll(x: Tensor, target: Tensor) -> Tensor:
    target = check_index(target, x.shape[1], "cross_entropy: target")
    return -reduce.sum(where(_hits(x, target), log_softmax(x, 1), 0.0), 1)


def _nll_impl(xp: Any, x: Any, target: Any) -> Any:
    if target.size and (target.min() < 0 or target.max() >= x.shape[1]):
        bad = int(target.min()) if target.min() < 0 else int(target.max())
        raise IndexingError(f"cross_entropy: target {bad} is not one of {x.shape[1]} classes",
                            "class numbers count from 0")
    shifted = x - x.max(axis=1, keepdims=True)
    picked = np.take_along_axis(shifted, target[:, None], axis=1)[:, 0]
    return np.log(np.exp(shifted).sum(axis=1)) - picked


def _nll_vjp(g: Tensor, out: Tensor, x: Tensor, target: Tensor) -> Tensor:
    hit = cast(_hits(x, target), x.dtype)
    return (softmax(x, 1) - hit) * expand_dims(g, 1)


nll_op = composite("cross_entropy_rows", _nll, _rows, _nll_impl, each(_nll_vjp, None),
                   onnx="SoftmaxCrossEntropyLoss", rows=lambda x, target: (1, 1),
                   batch=folded)


def cross_entropy_rows(x: Tensor, target: Tensor) -> Tensor:
    """-log softmax(x)[i, target[i]] for each row i of logits `x` (n, classes), shape (n,)."""
    x = reduce.floating("cross_entropy", x, "f")
    target = as_tensor("cross_entropy", target)
    if x.ndim != 2 or target.ndim != 1 or x.shape[0] != target.shape[0]:
        raise ShapeError(f"cross_entropy: takes logits (n, classes) and class numbers (n,), got "
                         f"{x.shape} and {target.shape}",
                         "flatten leading axes first; one-hot targets become numbers by argmax")
    if target.dtype.kind not in "iu":
        raise DTypeError(f"cross_entropy: class numbers must be integers, not {target.dtype.name}",
                         "cast them: target.astype(fw.int64)")
    return call(nll_op, x, target)
