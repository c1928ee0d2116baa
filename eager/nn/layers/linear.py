"""Linear, bilinear and identity layers."""

from __future__ import annotations

import math
from typing import Any

from ...arguments import check_whole
from ...core.tensor import Tensor
from ...ops.create import zeros
from .. import functional as F
from ..base import init
from ..base.module import Module
from ..base.parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]


class Linear(Module):
    """Affine map of the last axis: (..., in_features) -> (..., out_features).

    x @ weight.T + bias, with weight (out_features, in_features) and bias (out_features,). Both are
    drawn uniformly from +-1 / sqrt(in_features).

    Args:
        in_features: size of the last axis of the input.
        out_features: size of the last axis of the result.
        bias: adds the learned bias. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the last axis of the input is not in_features.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Linear(3, 2)
        >>> layer(fw.ones(4, 3)).shape, layer.weight.shape
        ((4, 2), (2, 3))
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros(out_features, in_features, dtype=dtype, device=device))
        self.bias = Parameter(zeros(out_features, dtype=dtype, device=device)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias uniformly from +-1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        init.bias_uniform_(self.bias, self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class Bilinear(Module):
    """x1 @ weight[o] @ x2 + bias[o] for each o of (..., out_features).

    x1 is (..., in1_features) and x2 (..., in2_features), with equal leading axes. weight is
    (out_features, in1_features, in2_features) and bias (out_features,). Both are drawn uniformly
    from +-1 / sqrt(in1_features).

    Args:
        in1_features: size of the last axis of x1, at least 1.
        in2_features: size of the last axis of x2.
        out_features: size of the last axis of the result.
        bias: adds the learned bias. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: in1_features is below 1.
        ShapeError: the last axes are not in1_features and in2_features, or the leading axes differ.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Bilinear(2, 3, 4)(fw.ones(5, 2), fw.ones(5, 3)).shape
        (5, 4)
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        check_whole("Bilinear", "in1_features", in1_features, 1)
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(zeros(*shape, dtype=dtype, device=device))
        self.bias = Parameter(zeros(out_features, dtype=dtype, device=device)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias uniformly from +-1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")


class Identity(Module):
    """The input itself; stands for a layer that is left out.

    The constructor ignores all arguments.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Identity(3, bias=False)(fw.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input
