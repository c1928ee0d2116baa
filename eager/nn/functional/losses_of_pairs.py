"""Losses of pairs and triples: what should be near to each other, far apart, or before the other.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.pointwise import clip, equal, minimum, not_equal, sqrt, where
from ...ops.reduction.reduce import sum
from .distance import pairwise_distance
from .losses import check_same, reduced

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


@in_float32
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
                        reduction: str = "mean") -> Tensor:
    """The mean of max(0, -target * (input1 - input2) + margin): target 1 where input1 should be
    the larger, -1 where input2 should."""
    check_same("margin_ranking_loss", input1, input2, "input2")
    check_same("margin_ranking_loss", input1, target)
    return reduced(clip(-target * (input1 - input2) + margin, 0), reduction)


@in_float32
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0,
                         reduction: str = "mean") -> Tensor:
    """The mean of input, a distance, where the target is 1, and of max(0, margin - input) where it
    is -1."""
    check_same("hinge_embedding_loss", input, target)
    far = where(not_equal(target, 1), clip(margin - input, 0), 0.0)
    return reduced(far + where(not_equal(target, -1), input, 0.0), reduction)


@in_float32
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
                          reduction: str = "mean") -> Tensor:
    """The mean of 1 - cos(input1, input2) where the target is 1, of max(0, cos - margin) where it
    is -1: input (n, d) and target (n,), or (d,) and ()."""
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


@in_float32
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: str = "mean",
) -> Tensor:
    """The mean of max(0, margin + |anchor - positive|_p - |anchor - negative|_p): (n, d) thrice.

    With `swap` the negative's distance is its smaller one, to the anchor or to the positive:
    Balntas et al., "Learning local feature descriptors with triplets" (2016).
    """
    return _triplets(anchor, positive, negative, margin, swap, reduction,
                     lambda x, y: pairwise_distance(x, y, p, eps))


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a `distance_function` of two tensors (default: pairwise_distance).
    """
    return _triplets(anchor, positive, negative, margin, swap, reduction,
                     distance_function or pairwise_distance)


def _triplets(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, swap: bool,
              reduction: str, distance: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    if margin <= 0:
        raise ArgumentError(f"triplet_margin_loss: margin must be above 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(f"triplet_margin_loss: anchor {anchor.shape}, positive {positive.shape} "
                         f"and negative {negative.shape} have different numbers of axes")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clip(near - far + margin, 0), reduction)
