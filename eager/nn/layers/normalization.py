"""Layers that normalize each sample: over axes, groups of channels or neighbouring channels."""

from __future__ import annotations

from typing import Any

from ...arguments import check_at_least
from ...arrays.shapes import sizes_of
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.create import iota, ones, zeros
from ...ops.elementwise.pointwise import square, where
from .. import functional as F
from ..base import init
from ..base.module import Module
from ..base.parameter import Parameter
from ..functional.normalization import sums_of_squares

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class Scaled(Module):
    """Base of layers with a weight that starts as 1 and a bias that starts as 0."""

    weight: Parameter | None

    def reset_parameters(self) -> None:
        """Sets the weight to 1 and the bias to 0."""
        weight, bias = self.weight, self._parameters.get("bias")
        if weight is not None:
            init.ones_(weight)
        if bias is not None:
            init.zeros_(bias)


class LayerNorm(Scaled):
    """x (..., *normalized_shape) with mean 0 and variance 1 along these axes.

    Ba, Kiros and Hinton, arXiv 1607.06450. Then times weight plus bias, of `normalized_shape`.
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = sizes_of("LayerNorm", normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        options = {"device": device, "dtype": dtype}
        shape = self.normalized_shape
        self.weight = Parameter(ones(shape, **options)) if elementwise_affine else None
        self.bias = Parameter(zeros(shape, **options)) if elementwise_affine and bias else None

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, eps={self.eps}, "
                f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}")


class RMSNorm(Scaled):
    """x (..., *normalized_shape) divided by the root of the mean of its squares along these axes.

    Zhang and Sennrich, arXiv 1910.07467. Then times weight, of `normalized_shape`.
    """

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = sizes_of("RMSNorm", normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Parameter(ones(self.normalized_shape, device=device, dtype=dtype)) \
            if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, eps={self.eps}, "
                f"elementwise_affine={self.elementwise_affine}")


class GroupNorm(Scaled):
    """(n, num_channels, ...) with mean 0 and variance 1 within each of `num_groups` of channels.

    Wu and He, arXiv 1803.08494. Then times weight plus bias, of (num_channels,).
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__()
        check_at_least("GroupNorm", "num_groups", num_groups, 1)
        if num_channels % num_groups:
            raise ShapeError(f"GroupNorm: {num_channels} channels do not make {num_groups} groups",
                             "num_groups must divide num_channels")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(ones(num_channels, **options)) if affine else None
        self.bias = Parameter(zeros(num_channels, **options)) if affine and bias else None

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")


class LocalResponseNorm(Module):
    """(n, c, *space), each element / (k + alpha * mean of squares of `size` channels) ** beta.

    Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural
    networks" (2012).
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """(n, c, h, w) as LocalResponseNorm, over as many channels before as after: an odd number."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ShapeError(f"CrossMapLRN2d: takes (n, channels, h, w), got shape {input.shape}")
        reach = (self.size - 1) // 2
        sums = sums_of_squares(input, 2 * reach + 1, reach)
        # As in PyTorch, whose sliding sums never drop the first channel.
        later = iota((1, input.shape[1], 1, 1), 1) > reach
        sums = sums + where(later, square(input[:, :1]), 0.0)
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
