"""Computes cross entropies of logits with classes, and of probabilities with probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import interpreter
from ...arrays.dtypes import int64, summed_in
from ...arrays.shapes import TensorType
from ...arrays.sums import total
from ...core.dispatch import LARGE, apply, evaluate
from ...core.op import each
from ...core.tensor import Tensor
from ...errors import ArgumentError, IndexingError
from ..batching import folded
from ..create import iota
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import cast, equal, log, log1p, maximum, not_equal, where
from ..indexing.scatter import along
from ..range_checks import check_index
from ..reduction import reduce
from ..reduction.softmax import log_softmax, softmax
from ..shape.view import expand_dims, expand_to, reshape

_LARGEST: Any = np.maximum.reduce  # the ufuncs themselves, as in `reduce.py`
NOTHING = -100  # the class number that is ignored by default


# ---- of logits (n, classes) and class numbers (n,): a value per row, 0 for the number `ignore`
def _hits(x: Tensor, target: Tensor) -> Tensor:
    """True where the column is the target of the row: (n, classes)."""
    return equal(iota(x.shape, 1, device=x.device), expand_to(expand_dims(target, 1), x.shape))


def _rows(x: Tensor, target: Tensor, ignore: int) -> Tensor:
    counts = not_equal(target, ignore)
    target = check_index(where(counts, target, 0), x.shape[1], "cross_entropy: target")
    log_probs = reduce.sum(where(_hits(x, target), log_softmax(x, 1), 0.0), 1)
    return where(counts, -log_probs, 0.0)


def _rows_impl(xp: Any, x: Any, target: Any, ignore: int) -> Any:
    return _losses(x, target, ignore)[0].astype(x.dtype, copy=False)


def _losses(x: Any, target: Any, ignore: int) -> tuple[Any, Any]:
    """The loss of each row, and True for rows that are ignored, or None."""
    target, ignored = _valid_targets(target, x.shape[1], ignore)
    shifted = _shifted(x)
    picked = shifted[np.arange(len(x)), target]
    losses = np.log(total(np.exp(shifted, shifted), (1,))) - picked
    return (losses, None) if ignored is None else (np.where(ignored, 0, losses), ignored)


def _shifted(x: Any) -> Any:
    """Logits whose largest one in each row is 0, in the dtype of their sums."""
    return (x - _LARGEST(x, 1, None, None, True)).astype(summed_in(x.dtype), copy=False)


def _valid_targets(target: Any, classes: int, ignore: int) -> tuple[Any, Any]:
    """Valid class numbers, and True for rows that are ignored, or None."""
    if _are_classes(target, classes) and not 0 <= ignore < classes:
        return target, None
    ignored = target == ignore
    target = np.where(ignored, 0, target)
    if not _are_classes(target, classes):
        bad = int(target.min()) if target.min() < 0 else int(target.max())
        raise IndexingError(f"cross_entropy: target {bad} is not one of {classes} classes",
                            "class numbers count from 0")
    return target, ignored


def _are_classes(target: Any, classes: int) -> bool:
    """True if every number is one of 0 ... classes - 1; as uint64, negative numbers are large."""
    return not target.size or bool(_LARGEST(target.view(np.uint64), None) < classes)


def _rows_vjp(g: Tensor, out: Tensor, x: Tensor, target: Tensor, ignore: int) -> Tensor:
    return call(rows_grad_op, g, x, target, ignore=ignore)


def _rows_grad(g: Tensor, x: Tensor, target: Tensor, ignore: int) -> Tensor:
    g = where(not_equal(target, ignore), g, 0.0)  # g is nan if the mean ignores all rows
    return (softmax(x, 1) - cast(_hits(x, target), x.dtype)) * expand_dims(g, 1)


def _rows_grad_impl(xp: Any, g: Any, x: Any, target: Any, ignore: int) -> Any:
    target, ignored = _valid_targets(target, x.shape[1], ignore)
    slope = _shifted(x)
    slope = np.exp(slope, slope)
    slope /= total(slope, (1,), True)
    slope[np.arange(len(x)), target] -= 1
    slope *= g[:, None]
    if ignored is not None:
        slope[ignored] = 0
    return slope.astype(x.dtype, copy=False)


rows_grad_op = composite(
    "cross_entropy_rows_grad", _rows_grad, lambda g, x, target, ignore: x, _rows_grad_impl,
    rows=lambda g, x, target, ignore: (1, 1, 1), batch=folded)
rows_op = composite(
    "cross_entropy_rows", _rows, lambda x, target, ignore: TensorType(target.shape, x.dtype),
    _rows_impl, each(_rows_vjp, None), onnx="SoftmaxCrossEntropyLoss",
    rows=lambda x, target, ignore: (1, 1), batch=folded)


def cross_entropy_rows(x: Tensor, target: Tensor, ignore: int = NOTHING) -> Tensor:
    """-log softmax(x)[i, target[i]] for each row i of logits `x` (n, classes): (n,).

    0 for rows whose target is `ignore`.
    """
    return apply(rows_op, (x, cast(target, int64)), {"ignore": ignore})


# ---- their mean over the rows that count
def counted(target: Tensor, ignore: int, dtype: Any) -> Any:
    """The number of targets that are not `ignore`; nan instead of 0, since it is a divisor."""
    if not interpreter.in_use:
        return int(np.count_nonzero(target._data != ignore)) or math.nan
    count = reduce.sum(cast(not_equal(target, ignore), dtype))
    return where(count > 0, count, math.nan)


def _mean(x: Tensor, target: Tensor, ignore: int) -> Tensor:
    return reduce.sum(cross_entropy_rows(x, target, ignore)) / counted(target, ignore, x.dtype)


def _mean_impl(xp: Any, x: Any, target: Any, ignore: int) -> Any:
    if x.size >= LARGE:  # the rows as native code
        losses = evaluate(rows_op, (Tensor(x), Tensor(target)), {"ignore": ignore})._data
        ignored = target == ignore
    else:
        losses, ignored = _losses(x, target, ignore)
    count = len(losses) if ignored is None else len(losses) - np.count_nonzero(ignored)
    return np.asarray(total(losses) / (count or math.nan), x.dtype)


def _mean_vjp(g: Tensor, out: Tensor, x: Tensor, target: Tensor, ignore: int) -> Tensor:
    share = reduce.spread(g / counted(target, ignore, x.dtype), target, (0,), False)
    return apply(rows_grad_op, (share, x, target), {"ignore": ignore})


mean_op = composite("cross_entropy_mean", _mean,
                    lambda x, target, ignore: TensorType((), x.dtype), _mean_impl,
                    each(_mean_vjp, None))


def cross_entropy_mean(x: Tensor, target: Tensor, ignore: int = NOTHING) -> Tensor:
    """The mean of `cross_entropy_rows` over the rows whose target is not `ignore`: ()."""
    return apply(mean_op, (x, cast(target, int64)), {"ignore": ignore})


def at_labels(rows: Tensor, labels: Tensor, what: str) -> Tensor:
    """The element of each row of (n, classes) at its label: (n,). Errors begin with `what`."""
    labels = check_index(cast(labels, int64), rows.shape[1], what)
    if interpreter.in_use:  # the gradient of a gather has no compiled code yet
        return reduce.sum(where(_hits(rows, labels), rows, 0.0), 1)
    return reshape(along(rows, expand_dims(labels, 1), 1), labels.shape)


# ---- of probabilities x and t of two classes, element by element
_LOWEST = -100.0  # bound of the logarithms, so that a wrong certainty has a finite loss


def _binary(x: Tensor, t: Tensor) -> Tensor:
    return (t - 1) * maximum(log1p(-x), _LOWEST) - t * maximum(log(x), _LOWEST)


def _binary_impl(xp: Any, x: Any, t: Any) -> Any:
    if x.size and not (x.min() >= 0 and x.max() <= 1):
        raise ArgumentError("binary_cross_entropy: the input holds numbers that are not between 0 "
                            "and 1", "pass logits to binary_cross_entropy_with_logits")
    wide, t = x.astype(summed_in(x.dtype), copy=False), t.astype(summed_in(t.dtype), copy=False)
    losses = (t - 1) * xp.maximum(xp.log1p(-wide), _LOWEST) - t * xp.maximum(xp.log(wide), _LOWEST)
    return losses.astype(x.dtype, copy=False)


def _binary_vjp(g: Tensor, out: Tensor, x: Tensor, t: Tensor) -> Tensor:
    return g * (x - t) / maximum(x * (1 - x), 1e-12)


binary_op = composite(
    "binary_cross_entropy", _binary, None, _binary_impl,
    each(_binary_vjp, lambda g, out, x, t: g * (log1p(-x) - log(x))))
