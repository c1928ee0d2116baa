"""Layers that normalize each sample: over axes, groups of channels or neighbouring channels."""

from __future__ import annotations

from typing import Any

from ...arguments import check_whole
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.create import check_sizes, iota, ones, zeros
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
    """Normalization over the last axes: (..., *normalized_shape), of the shape of the input.

    (x - mean) / sqrt(variance + eps) * weight + bias, with weight and bias of normalized_shape. Ba,
    Kiros and Hinton, arXiv 1607.06450.

    Args:
        normalized_shape: the sizes of the last axes; an int for one axis.
        eps: added to the variance. Default 1e-05.
        elementwise_affine: adds a learned weight and bias. Default True.
        bias: False leaves out the bias. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: normalized_shape is not made of integers, or the input does not end in it.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.LayerNorm(2, eps=0.0)(fw.tensor([[1.0, 3.0], [5.0, 1.0]])).detach()
        tensor([[-1.,  1.],
                [ 1., -1.]])
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = check_sizes(normalized_shape, "LayerNorm")
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
    """x divided by its root mean square over the last axes; of the shape of x.

    x / sqrt(mean(x ** 2) + eps) * weight, with x (..., *normalized_shape) and weight of
    normalized_shape. Zhang and Sennrich, arXiv 1910.07467.

    Args:
        normalized_shape: the sizes of the last axes; an int for one axis.
        eps: added to the mean of the squares. Default None: the precision (finfo.eps) of the dtype
            of the computation.
        elementwise_affine: adds a learned weight. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: normalized_shape is not made of integers, or the input does not end in it.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.RMSNorm(2)(fw.tensor([[3.0, -3.0]])).detach()
        tensor([[ 1., -1.]])
    """

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = check_sizes(normalized_shape, "RMSNorm")
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Parameter(ones(self.normalized_shape, device=device, dtype=dtype)) \
            if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, eps={self.eps}, "
                f"elementwise_affine={self.elementwise_affine}")


class GroupNorm(Scaled):
    """Normalization of each group of channels of each sample of (n, num_channels, ...).

    The result has the shape of the input: (x - mean) / sqrt(variance + eps) * weight + bias over a
    group of num_channels / num_groups channels and space, with weight and bias (num_channels,). Wu
    and He, arXiv 1803.08494.

    Args:
        num_groups: the number of groups.
        num_channels: the number of channels.
        eps: added to the variance. Default 1e-05.
        affine: adds a learned weight and bias. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: num_groups does not divide num_channels, or the input has other channels.
        ArgumentError: num_groups is below 1.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.GroupNorm(2, 6)
        >>> layer(fw.ones(4, 6, 8, 8)).shape, layer.weight.shape
        ((4, 6, 8, 8), (6,))
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__()
        check_whole("GroupNorm", "num_groups", num_groups, 1)
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
    """x / (k + alpha * m) ** beta, where m is the mean square of `size` channels around each.

    x is (n, c, ...) with at least one axis of space; the result has its shape. Channels outside
    count as 0. Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional
    neural networks" (2012).

    Args:
        size: the number of channels, size // 2 of them before each.
        alpha: factor of the mean square. Default 0.0001.
        beta: exponent. Default 0.75.
        k: constant term. Default 1.0.

    Raises:
        ShapeError: x has less than 3 axes.
        ArgumentError: size is below 1.
        DTypeError: x is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.LocalResponseNorm(2, alpha=2.0, beta=1.0, k=0.0)(fw.ones(1, 2, 1))
        tensor([[[1. ],
                 [0.5]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """x / (k + alpha / size * s) ** beta, where s is a sum of squares of channels around each.

    x is (n, c, h, w); the result has its shape. s adds (size - 1) // 2 channels before and after
    each channel. As in PyTorch, the first channel is added to all later sums.

    Args:
        size: the number of channels, an odd number.
        alpha: factor of the sum, divided by size. Default 0.0001.
        beta: exponent. Default 0.75.
        k: constant term. Default 1.

    Raises:
        ShapeError: x does not have 4 axes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.CrossMapLRN2d(3, alpha=1.5, beta=1.0)(fw.ones(1, 2, 1, 1)).flatten()
        tensor([0.5, 0.5])
    """

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
