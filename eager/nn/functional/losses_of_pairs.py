"""Losses of pairs and triples: they bring vectors near to each other, apart, or into an order."""

from __future__ import annotations

from collections.abc import Callable

from ...arguments import check_number, names_itself
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.clip import clip
from ...ops.elementwise.pointwise import equal, minimum, not_equal, sqrt, where
from ...ops.reduction.reduce import sum
from .distance import pairwise_distance
from .losses import check_same, reduced

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


@names_itself
@in_float32
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
                        reduction: str = "mean") -> Tensor:
    """Mean of max(0, -target * (input1 - input2) + margin): a scalar.

    Args:
        input1: real scores of any shape.
        input2: scores of the shape of `input1`.
        target: 1 where `input1` should be the larger, -1 where `input2` should; the same shape.
        margin: the least difference without a loss. Default 0.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, y, target = fw.tensor([3.0, 1.0]), fw.tensor([1.0, 3.0]), fw.ones(2)
        >>> fw.nn.functional.margin_ranking_loss(x, y, target, reduction="none")
        tensor([0., 2.])
    """
    check_number("margin_ranking_loss", "margin", margin)
    check_same("margin_ranking_loss", input1, input2, "input2")
    check_same("margin_ranking_loss", input1, target)
    return reduced(clip(-target * (input1 - input2) + margin, 0), reduction)


@names_itself
@in_float32
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0,
                         reduction: str = "mean") -> Tensor:
    """Mean of `input` where target is 1, of max(0, margin - input) where it is -1: a scalar.

    Args:
        input: real distances of any shape.
        target: 1 for pairs that should be near, -1 for others; the shape of `input`.
        margin: the distance from which a pair with target -1 has no loss. Default 1.
        reduction: "mean" (default), "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: `target` has another shape than `input`.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, target = fw.tensor([2.0, 0.25]), fw.tensor([1.0, -1.0])
        >>> fw.nn.functional.hinge_embedding_loss(x, target, reduction="none")
        tensor([2.  , 0.75])
    """
    check_number("hinge_embedding_loss", "margin", margin)
    check_same("hinge_embedding_loss", input, target)
    far = where(not_equal(target, 1), clip(margin - input, 0), 0.0)
    return reduced(far + where(not_equal(target, -1), input, 0.0), reduction)


@names_itself
@in_float32
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
                          reduction: str = "mean") -> Tensor:
    """Mean of 1 - cos where target is 1, of max(0, cos - margin) where it is -1: a scalar.

    cos is the cosine of the angle between the vectors of a pair.

    Args:
        input1: real vectors (n, d), or one vector (d,).
        input2: vectors of the shape of `input1`.
        target: 1 or -1 for each pair: (n,), or () for one pair.
        margin: the largest cosine without a loss for a target of -1. Default 0.
        reduction: "mean" (default), "sum", or "none" for the loss of each pair.

    Raises:
        ShapeError: the inputs differ in shape, have more than 2 axes, or do not fit `target`.
        ArgumentError: `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, y = fw.tensor([[1.0, 0.0]]), fw.tensor([[0.0, 1.0]])
        >>> fw.nn.functional.cosine_embedding_loss(x, y, fw.tensor([1.0]))
        tensor(1.)
    """
    check_number("cosine_embedding_loss", "margin", margin)
    check_same("cosine_embedding_loss", input1, input2, "input2")
    if input1.ndim not in (1, 2) or target.shape != input1.shape[:-1]:
        raise ShapeError(f"cosine_embedding_loss: inputs {input1.shape} = (n, d) need a target of "
                         f"shape {input1.shape[:-1]}, got {target.shape}",
                         "the target holds 1 or -1 for each pair of vectors")
    lengths = (sum(input1 * input1, -1) + _TINY) * (sum(input2 * input2, -1) + _TINY)
    cos = sum(input1 * input2, -1) / sqrt(lengths)
    apart = where(equal(target, -1), clip(cos - margin, 0), 0.0)
    return reduced(where(equal(target, 1), 1 - cos, 0.0) + apart, reduction)


_TINY = 1e-12  # added to squares of lengths, which may be 0


@names_itself
@in_float32
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: str = "mean",
) -> Tensor:
    """Mean of max(0, margin + |anchor - positive| - |anchor - negative|): a scalar.

    Balntas et al., "Learning local feature descriptors with triplets" (2016).

    Args:
        anchor, positive, negative: vectors (..., d) with equal numbers of axes, which broadcast.
        margin: the least gap between the distances without a loss, above 0. Default 1.
        p: the order of the norm of distances. Default 2.
        eps: added to each difference of elements. Default 1e-6.
        swap: True takes the smaller of the negative's distances to the anchor and to the
            positive. Default False.
        reduction: "mean" (default), "sum", or "none" for the loss of each triple.

    Raises:
        ShapeError: the numbers of axes differ, or the shapes do not broadcast.
        ArgumentError: `margin` is not above 0, or `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> zero, far = fw.zeros((1, 2)), fw.tensor([[0.0, 0.75]])
        >>> fw.nn.functional.triplet_margin_loss(zero, zero, far, eps=0.0)
        tensor(0.25)
    """
    check_number("triplet_margin_loss", "p", p)
    check_number("triplet_margin_loss", "eps", eps)
    return _triplets(anchor, positive, negative, margin, swap, reduction,
                     lambda x, y: pairwise_distance(x, y, p, eps))


@names_itself
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any distance: a scalar, or a loss of each triple for "none".

    Args:
        anchor, positive, negative: tensors with equal numbers of axes.
        distance_function: a function of two such tensors that returns their distances. Default
            None: `pairwise_distance`.
        margin: the least gap between the distances without a loss, above 0. Default 1.
        swap: True takes the smaller of the negative's distances to the anchor and to the
            positive. Default False.
        reduction: "mean" (default), "sum", or "none" for the loss of each triple.

    Raises:
        ShapeError: the numbers of axes differ.
        ArgumentError: `margin` is not above 0, or `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> x, far = fw.zeros((1, 2)), fw.tensor([[0.0, 0.75]])
        >>> fw.nn.functional.triplet_margin_with_distance_loss(
        ...     x, x, far, distance_function=lambda a, b: (a - b).abs().max(axis=-1))
        tensor(0.25)
    """
    return _triplets(anchor, positive, negative, margin, swap, reduction,
                     distance_function or pairwise_distance)


def _triplets(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, swap: bool,
              reduction: str, distance: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    if not check_number("triplet_margin_loss", "margin", margin) > 0:
        raise ArgumentError(f"triplet_margin_loss: margin must be above 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(f"triplet_margin_loss: anchor {anchor.shape}, positive {positive.shape} "
                         f"and negative {negative.shape} have different numbers of axes")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clip(near - far + margin, 0), reduction)
