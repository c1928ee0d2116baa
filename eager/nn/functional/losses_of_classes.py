"""Losses of class numbers: each compares scores of several classes with the right classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...arguments import check_choice, check_fraction, check_number, check_whole, names_itself
from ...arrays.dtypes import int64, kind
from ...arrays.shapes import product, same
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, IndexingError, ShapeError
from ...ops.create import iota
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.pointwise import cast, equal, logical_and, logical_not, not_equal, where
from ...ops.layers.entropy import (
    NOTHING,
    at_labels,
    counted,
    cross_entropy_mean,
    cross_entropy_rows,
)
from ...ops.range_checks import check_index
from ...ops.reduction.reduce import any, floating, mean, min, sum
from ...ops.reduction.softmax import log_softmax
from ...ops.shape.take import take
from ...ops.shape.view import expand_dims, permute_dims, reshape
from .activation import logsigmoid
from .affine import linear
from .inputs import check_integers
from .losses import check_same, check_weight, reduced

__all__ = [
    "cross_entropy", "linear_cross_entropy", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "nll_loss",
]


@names_itself
@in_float32
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = NOTHING,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:
    """Mean of -log softmax(input)[target]: a scalar, or the shape of class numbers for "none".

    The mean divides by the sum of the weights of the targets that count. It is nan where no
    target counts. For probabilities it divides by the number of samples.

    Args:
        input: real floating point logits: (n, classes, ...), or (classes,) for one sample.
        target: class numbers (n, ...), integers from 0; or a probability of each class, floating
            point, of the shape of `input`.
        weight: a factor for the loss of each class: (classes,). Default None: no factors.
        ignore_index: a class number whose targets do not count. Default -100.
        reduction: "mean" (default), "sum", or "none" for the loss of each target.
        label_smoothing: the share of the target spread uniformly over all classes, from 0 to 1.
            Default 0.

    Raises:
        ShapeError: `target` does not fit `input`, or `weight` is not (classes,).
        DTypeError: `target` is neither integers nor floating point, or `input` holds integers.
        IndexingError: a class number is negative or not below the number of classes.
        ArgumentError: `label_smoothing` is outside of [0, 1], `reduction` is unknown, or
            `ignore_index` is 0 or more beside probabilities.

    Example:
        >>> import fusewire as fw
        >>> logits, target = fw.tensor([[0.0, 100.0], [0.0, 100.0]]), fw.tensor([1, 0])
        >>> fw.nn.functional.cross_entropy(logits, target, reduction="none")
        tensor([  0., 100.])
    """
    check_fraction("cross_entropy", "label_smoothing", label_smoothing)
    check_whole("cross_entropy", "ignore_index", ignore_index)
    if kind(target.dtype) == "f":
        if ignore_index >= 0:
            raise ArgumentError("cross_entropy: ignore_index names a class number, and the target "
                                "holds probabilities", "leave out ignore_index")
        return _soft_entropy(input, target, weight, reduction, label_smoothing)
    rows, labels = _as_rows("cross_entropy", input, target)
    if weight is not None:
        _check_class_weight("cross_entropy", weight, rows.shape[1])
    if weight is None and not label_smoothing and reduction == "mean":
        return _entropies(cross_entropy_mean, rows, labels, ignore_index)
    losses = _entropies(cross_entropy_rows, rows, labels, ignore_index)
    if weight is None and not label_smoothing:
        return _averaged(losses, None, labels, ignore_index, target.shape, reduction)
    valid, safe = _counted_labels(labels, ignore_index)
    share = None if weight is None else where(valid, take(weight, safe), 0.0)
    losses = losses if share is None else losses * share
    if label_smoothing:
        even = where(valid, _uniform_losses(rows, weight), 0.0)
        losses = losses * (1 - label_smoothing) + even * label_smoothing
    return _averaged(losses, share, labels, ignore_index, target.shape, reduction)


@names_itself
@in_float32
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = NOTHING,
    reduction: str = "mean",
) -> Tensor:
    """Mean of -input[target]: a scalar, or the shape of `target` for "none".

    The mean divides by the sum of the weights of the targets that count.

    Args:
        input: logarithms of probabilities: (n, classes, ...), or (classes,) for one sample.
        target: class numbers (n, ...), integers from 0.
        weight: a factor for the loss of each class: (classes,). Default None: no factors.
        ignore_index: a class number whose targets do not count. Default -100.
        reduction: "mean" (default), "sum", or "none" for the loss of each target.

    Raises:
        ShapeError: `target` does not fit `input`, or `weight` is not (classes,).
        DTypeError: `target` does not hold integers, or `input` is not real floating point.
        IndexingError: a class number is negative or not below the number of classes.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> logs, target = fw.tensor([[-1.0, -2.0], [-3.0, -4.0]]), fw.tensor([1, 0])
        >>> fw.nn.functional.nll_loss(logs, target)
        tensor(2.5)
    """
    rows, labels = _as_rows("nll_loss", input, target)
    if weight is not None:
        _check_class_weight("nll_loss", weight, rows.shape[1])
    check_whole("nll_loss", "ignore_index", ignore_index)
    valid, safe = _counted_labels(labels, ignore_index)
    losses = where(valid, -at_labels(rows, safe, "nll_loss: target"), 0.0)
    share = None if weight is None else where(valid, take(weight, safe), 0.0)
    losses = losses if share is None else losses * share
    return _averaged(losses, share, labels, ignore_index, target.shape, reduction)


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Options of PyTorch's chunked `linear_cross_entropy`: accepted, without effect."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


@names_itself
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """`cross_entropy` of the logits linear(input, linear_weight, linear_bias): a scalar.

    Args:
        input: features (n, n_in), or (n_in,) for one sample.
        linear_weight: (classes, *d, n_in).
        target: class numbers (n, *d), or probabilities (n, classes, *d).
        linear_bias: (classes, *d), or None for no bias. Default None.
        weight: a factor for the loss of each class: (classes,). Default None: no factors.
        reduction: "mean" (default), "sum", or "none" for the loss of each target.
        ignore_index: a class number whose targets do not count. Default None: -100.
        label_smoothing: the share of the target spread uniformly over all classes. Default 0.
        options: has no effect.

    Raises:
        ShapeError: `input` has more than 2 axes, or the shapes do not fit.
        DTypeError, IndexingError, ArgumentError: as `cross_entropy`.

    Example:
        >>> import fusewire as fw
        >>> x, weight, target = fw.tensor([[1.0]]), fw.tensor([[0.0], [100.0]]), fw.tensor([0])
        >>> fw.nn.functional.linear_cross_entropy(x, weight, target)
        tensor(100.)
    """
    if input.ndim not in (1, 2) or linear_weight.ndim < 2:
        raise ShapeError(f"linear_cross_entropy: takes input (n, n_in) or (n_in,) and a weight "
                         f"(classes, ..., n_in), got {input.shape} and {linear_weight.shape}",
                         "make each sample one row: x.flatten(1)")
    sizes = linear_weight.shape[:-1]
    bias = None if linear_bias is None else reshape(linear_bias, (product(sizes),))
    flat = reshape(linear_weight, (product(sizes), linear_weight.shape[-1]))
    logits = reshape(linear(input, flat, bias), (*input.shape[:-1], *sizes))
    ignored = NOTHING if ignore_index is None else ignore_index
    return cross_entropy(logits, target, weight, ignored, reduction, label_smoothing)


# ---- rows and their labels
def _as_rows(name: str, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(n, classes, d...) and (n, d...) as (rows, classes) and (rows,); (classes,) is one row."""
    x = floating(name, x, "f")
    shape, labels = x._data.shape, target._data.shape
    check_integers(name, "class numbers", target)
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


def _check_class_weight(name: str, weight: Any, classes: Any) -> None:
    """Raises an error unless `weight` is a tensor with a factor for each class."""
    if as_tensor(name, weight).shape != (classes,):
        raise ShapeError(f"{name}: weight {weight.shape} must be ({classes},)",
                         "it has a factor for each class of the input")


def _target_help(shape: Any, labels: Any) -> str:
    if labels == shape:
        return "one-hot targets become class numbers by target.argmax(1)"
    if len(labels) == len(shape) and labels[1:2] == (1,):
        return "take out the axis of size 1: target.squeeze(1)"
    return "the target holds one class number for each row of logits"


def _entropies(function: Callable[..., Tensor], rows: Tensor, labels: Tensor, ignore_index: int
               ) -> Tensor:
    try:
        return function(rows, labels, ignore_index)
    except IndexingError as error:
        error.help += f"; targets equal to ignore_index, {ignore_index}, do not count"
        raise


def _counted_labels(labels: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """A mask of the labels that count, and the labels with class 0 instead of the others."""
    valid = not_equal(labels, ignore_index)
    return valid, where(valid, labels, 0)


def _uniform_losses(rows: Tensor, weight: Tensor | None) -> Tensor:
    """The cross entropy of each row against equal shares of all classes: (rows,)."""
    logs = log_softmax(rows, 1)
    return -mean(logs if weight is None else logs * weight, 1)


def _averaged(losses: Tensor, share: Tensor | None, labels: Tensor, ignore_index: int, shape: Any,
              reduction: str) -> Tensor:
    """The losses of rows in the shape of the target, their sum, or their mean.

    The mean divides by the sum of `share`, or without it by the number of labels that count.
    """
    if reduction == "mean":
        count = counted(labels, ignore_index, losses.dtype) if share is None else sum(share)
        return sum(losses) / count
    return reduced(losses if same(losses.shape, shape) else reshape(losses, shape), reduction)


def _soft_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    """The cross entropy against a probability for each class, in axis 1 of (n, classes, ...)."""
    if x.shape != target.shape:
        raise ShapeError(f"cross_entropy: probabilities {target.shape} must have the shape of the "
                         f"input {x.shape}", "class numbers must be integers: astype(fw.int64)")
    axis = 1 if x.ndim > 1 else 0
    classes = x.shape[axis]
    if weight is not None:
        _check_class_weight("cross_entropy", weight, classes)
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    terms = log_softmax(x, axis) * target
    if weight is not None:
        terms = terms * reshape(weight, (-1, *(1,) * (x.ndim - axis - 1)))
    losses = -sum(terms, axis)
    if reduction != "mean":
        return reduced(losses, reduction)
    return sum(losses) / (product(x.shape) // classes)


# ---- margins between classes
@names_itself
@in_float32
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean of sum_i max(0, margin - input[target] + input[i]) ** p / classes: a scalar.

    The sum is over all classes i but the target.

    Args:
        input: real floating point scores: (n, classes), or (classes,) for one sample.
        target: class numbers (n,), or () for one sample.
        p: the exponent, 1 or 2. Default 1.
        margin: the least gap to another class without a loss. Default 1.
        weight: a factor for the loss of each class: (classes,). Default None: no factors.
        reduction: "mean" (default), "sum", or "none" for the loss of each sample.

    Raises:
        ShapeError: `target` does not fit `input`, or `weight` is not (classes,).
        DTypeError: `target` does not hold integers, or `input` is not real floating point.
        IndexingError: a class number is negative or not below the number of classes.
        ArgumentError: `p` is neither 1 nor 2, or `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.multi_margin_loss(fw.tensor([[0.0, 2.0]]), fw.tensor([0]))
        tensor(1.5)
    """
    check_choice("multi_margin_loss", "p", p, (1, 2))
    rows, labels = _as_rows("multi_margin_loss", input, target)
    if weight is not None:
        _check_class_weight("multi_margin_loss", weight, rows.shape[1])
    check_number("multi_margin_loss", "margin", margin)
    named = at_labels(rows, labels, "multi_margin_loss: target")
    gap = rows - expand_dims(named, 1) + margin
    others = not_equal(iota(rows.shape, 1, labels.dtype, rows.device), expand_dims(labels, 1))
    gap = where(logical_and(gap > 0, others), gap, 0.0)
    terms = gap if p == 1 else gap * gap
    losses = sum(terms, 1) / rows.shape[1]
    losses = losses if weight is None else losses * take(weight, labels)
    return reduced(reshape(losses, target.shape), reduction)


@names_itself
@in_float32
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Mean of sum_ij max(0, 1 - input[target[j]] + input[i]) / classes: a scalar.

    The sum is over the right classes target[j] and all other classes i.

    Args:
        input: real scores: (n, classes), or (classes,) for one sample.
        target: class numbers of the shape of `input`: the right classes, then a negative number.
            Numbers after that do not count.
        reduction: "mean" (default), "sum", or "none" for the loss of each sample.

    Raises:
        ShapeError: `target` has another shape than `input`.
        DTypeError: `target` does not hold integers.
        IndexingError: a class number is not below the number of classes.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, target = fw.tensor([0.0, 2.0, 0.0]), fw.tensor([0, 2, -1])
        >>> fw.nn.functional.multilabel_margin_loss(x, target)
        tensor(2.)
    """
    check_same("multilabel_margin_loss", input, target)
    check_integers("multilabel_margin_loss", "class numbers", target)
    rows, labels = (reshape(x, (-1, x.shape[-1])) for x in (input, cast(target, int64)))
    positions = iota(labels.shape, 1, device=labels.device)
    named = positions < min(where(labels < 0, positions, labels.shape[1]), 1, keepdims=True)
    labels = check_index(where(named, labels, 0), labels.shape[1], "multilabel_margin_loss: target")
    named, others = expand_dims(named, 2), expand_dims(rows, 1)  # of (row, j, i)
    classes = iota((*rows.shape, rows.shape[1]), 2, device=rows.device)
    hits = logical_and(equal(classes, expand_dims(labels, 2)), named)
    gap = others - sum(where(hits, others, 0.0), 2, keepdims=True) + 1.0
    counts = logical_and(named, logical_not(any(hits, 1, keepdims=True)))
    losses = sum(where(logical_and(gap > 0, counts), gap, 0.0), (1, 2)) / rows.shape[1]
    return reduced(reshape(losses, input.shape[:-1]), reduction)


@names_itself
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                reduction: str = "mean") -> Tensor:
    """Mean over classes of the binary cross entropy of sigmoid(input) and `target`: a scalar.

    Args:
        input: real logits (..., classes).
        target: 1 for the right classes, 0 for others; the shape of `input`.
        weight: a factor for each class, which broadcasts to `input`. Default None: no factors.
        reduction: "mean" (default), "sum", or "none" for the loss of each sample.

    Raises:
        ShapeError: `target` has another shape than `input`.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, target = fw.tensor([[200.0, 200.0]]), fw.tensor([[1.0, 0.0]])
        >>> fw.nn.functional.multilabel_soft_margin_loss(x, target)
        tensor(100.)
    """
    check_same("multilabel_soft_margin_loss", input, target)
    check_weight("multilabel_soft_margin_loss", input, weight)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    losses = losses if weight is None else losses * weight
    return reduced(mean(losses, -1), reduction)
