"""Losses as functions, in PyTorch's signatures; `functional` hands them on."""

from __future__ import annotations

from typing import Any

from ...dtypes import kind
from ...errors import DTypeError, IndexingError, ShapeError
from ...ops.create import iota, ones
from ...ops.pointwise import astype, equal, not_equal, square, where
from ...ops.reduce import mean, sum
from ...ops.softmax import cross_entropy_rows, log_softmax
from ...ops.view import broadcast_to, expand_dims, permute_dims, reshape, take
from ...tensor import Tensor
from ...utils.arguments import check_choice, check_fraction

__all__ = ["cross_entropy", "mse_loss", "nll_loss"]

REDUCTIONS = ("mean", "sum", "none")


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of `losses`, a number, or the losses themselves for "none"."""
    if reduction == "mean":
        return mean(losses)
    check_choice("loss", "reduction", reduction, REDUCTIONS)
    return sum(losses) if reduction == "sum" else losses


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The mean (or sum) of (input - target) ** 2, a number; with "none" all of them."""
    if input.data.shape != target.data.shape:
        raise ShapeError(
            f"mse_loss: input {input.shape} and target {target.shape} have different shapes, which "
            "would compare every element of one with several of the other",
            "bring one to the shape of the other first: reshape, x[:, None] or broadcast_to")
    return reduced(square(input - target), reduction)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int | None = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target], averaged: input (n, classes, ...), target (n, ...) of integers.

    A floating point target of the shape of input holds a probability for each class instead.
    Targets equal to `ignore_index` count for nothing; `weight` (classes,) is how much each class
    counts.
    """
    check_fraction("cross_entropy", "label_smoothing", label_smoothing)
    if kind(target.dtype) == "f":
        return _soft_entropy(input, target, weight, reduction, label_smoothing)
    rows, labels = _as_rows("cross_entropy", input, target)
    if ignore_index is None and weight is None and not label_smoothing:
        losses = reshape(_rows(rows, labels), target.shape)
        return reduced(losses, reduction)
    counts, kept = _counts(labels, ignore_index, rows.dtype), _without(labels, ignore_index)
    share = counts if weight is None else counts * take(weight, kept)
    losses = _rows(rows, kept) * share
    if label_smoothing:
        even = _evenly(rows, weight) * counts
        losses = losses * (1 - label_smoothing) + even * label_smoothing
    return _averaged(losses, share, target.shape, reduction)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target], averaged: input (n, classes, ...) of log probabilities, target (n, ...)."""
    rows, labels = _as_rows("nll_loss", input, target)
    kept = _without(labels, ignore_index)
    hit = equal(iota(rows.shape, 1, kept.dtype), broadcast_to(expand_dims(kept, 1), rows.shape))
    losses = -sum(where(hit, rows, 0.0), 1)
    if ignore_index is None and weight is None:
        return reduced(reshape(losses, target.shape), reduction)
    counts = _counts(labels, ignore_index, rows.dtype)
    share = counts if weight is None else counts * take(weight, kept)
    return _averaged(losses * share, share, target.shape, reduction)


def _rows(rows: Tensor, labels: Tensor) -> Tensor:
    try:
        return cross_entropy_rows(rows, labels)
    except IndexingError as error:
        error.help += "; targets that are to count for nothing are named by ignore_index=-100"
        raise


def _as_rows(name: str, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(n, classes, d...) and (n, d...) as (rows, classes) and (rows,); (classes,) is one row."""
    shape, labels = x.shape, target.shape
    if target.dtype.kind not in "iu":
        raise DTypeError(f"{name}: class numbers must be integers, not {target.dtype.name}",
                         "cast them: target.astype(fw.int64)")
    if len(shape) == 1 and labels == ():
        return expand_dims(x, 0), expand_dims(target, 0)
    if len(shape) < 2 or (shape[0], *shape[2:]) != labels:
        raise ShapeError(
            f"{name}: input {shape} = (n, classes, ...) needs a target of shape "
            f"{(*shape[:1], *shape[2:])}, got {labels}", _target_help(shape, labels))
    if len(shape) == 2:
        return x, target
    last = permute_dims(x, (0, *range(2, len(shape)), 1))
    return reshape(last, (-1, shape[1])), reshape(target, (-1,))


def _target_help(shape: Any, labels: Any) -> str:
    if labels == shape:
        return "one-hot targets become class numbers by target.argmax(1)"
    if len(labels) == len(shape) and labels[1:2] == (1,):
        return "take out the axis of size 1: target.squeeze(1)"
    return "the target holds one class number for each row of logits"


def _counts(labels: Tensor, ignore_index: int | None, dtype: Any) -> Tensor:
    """1 for each row that counts, 0 where the label is `ignore_index`: (rows,)."""
    if ignore_index is None:
        return ones(labels.shape, dtype=dtype)
    return astype(not_equal(labels, ignore_index), dtype)


def _without(labels: Tensor, ignore_index: int | None) -> Tensor:
    """`labels` with 0, a class that is always there, in the place of those to be ignored."""
    return labels if ignore_index is None else where(not_equal(labels, ignore_index), labels, 0)


def _evenly(rows: Tensor, weight: Tensor | None) -> Tensor:
    """The cross entropy of each row against all classes alike, (rows,)."""
    logs = log_softmax(rows, 1)
    return -mean(logs if weight is None else logs * weight, 1)


def _averaged(losses: Tensor, share: Tensor, shape: Any, reduction: str) -> Tensor:
    if reduction == "mean":
        return sum(losses) / sum(share)
    return reduced(reshape(losses, shape), reduction)


def _soft_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    """Cross entropy against a probability for each class, in axis 1 of (n, classes, ...)."""
    if x.shape != target.shape:
        raise ShapeError(f"cross_entropy: probabilities {target.shape} must have the shape of the "
                         f"input {x.shape}", "class numbers must be integers: astype(fw.int64)")
    axis = 1 if x.ndim > 1 else 0
    classes = x.shape[axis]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    terms = log_softmax(x, axis) * target
    if weight is not None:
        terms = terms * reshape(weight, (-1, *(1,) * (x.ndim - axis - 1)))
    losses = -sum(terms, axis)
    return sum(losses) / (x.size // classes) if reduction == "mean" else reduced(losses, reduction)
