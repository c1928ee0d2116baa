"""Layers that compare vectors of two tensors."""

from __future__ import annotations

from ...core.tensor import Tensor
from .. import functional as F
from ..base.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """The cosine of the angle between x1 and x2 along `dim`, an axis that the result lacks.

    The shapes of x1 and x2 broadcast. Norms below eps count as eps, so the cosine of a zero vector
    is 0.

    Args:
        dim: the axis of the vectors. Default 1.
        eps: the smallest norm. Default 1e-08.

    Raises:
        ShapeError: the shapes do not broadcast.
        AxisError: an input has no axis dim.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.CosineSimilarity()(fw.tensor([[3.0, 4.0]]), fw.tensor([[6.0, 8.0]]))
        tensor([1.])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last axis: (n, d), (n, d) -> (n,).

    The shapes of x1 and x2 broadcast.

    Args:
        p: order of the norm. Default 2.0.
        eps: added to each difference. Default 1e-06.
        keepdim: True keeps the last axis with size 1. Default False.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.PairwiseDistance(eps=0.0)(fw.tensor([[0.0, 0.0]]), fw.tensor([[3.0, 4.0]]))
        tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
