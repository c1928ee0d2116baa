"""Activation layers that are linear between a few corners."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...ops.create import zeros
from .. import functional as F
from ..base import init
from ..base.parameter import Parameter
from .base import ActivationLayer, InPlaceActivation

__all__ = [
    "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "PReLU", "RReLU", "ReLU",
    "ReLU6", "Softshrink", "Threshold",
]


class ReLU(InPlaceActivation):
    """max(x, 0) of each element; the result has the shape and dtype of x.

    Args:
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        DTypeError: x is bool or complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ReLU()(fw.tensor([-2.0, 0.5, 3.0]))
        tensor([0. , 0.5, 3. ])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class Threshold(InPlaceActivation):
    """x where it is above `threshold`, else `value`; the result has the shape of x.

    Args:
        threshold: the limit that x is compared with.
        value: replaces elements up to the threshold.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        DTypeError: x is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Threshold(1.0, 20.0)(fw.tensor([-2.0, 0.5, 3.0]))
        tensor([20., 20.,  3.])
    """

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self._set(threshold=threshold, value=value, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class LeakyReLU(InPlaceActivation):
    """x where it is positive, else negative_slope * x; the result has the shape of x.

    Args:
        negative_slope: factor of elements that are not positive. Default 0.01.
        inplace: True writes the result into x and returns x. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.LeakyReLU(0.5)(fw.tensor([-2.0, 0.5, 3.0]))
        tensor([-1. ,  0.5,  3. ])
    """

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        self._set(negative_slope=negative_slope, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(ActivationLayer):
    """x where it is positive, else weight * x; the result has the shape of x.

    The slopes `weight`, (num_parameters,), are learned. He et al., "Delving deep into rectifiers"
    (2015).

    Args:
        num_parameters: 1 for one slope, or the number of channels, axis 1 of x. Default 1.
        init: initial value of every slope. Default 0.25.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: num_parameters is neither 1 nor the number of channels of x.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.PReLU(2, init=0.5)
        >>> layer(fw.tensor([[-2.0, 3.0]]))
        tensor([[-1.,  3.]], grad_fn=<where>)
    """

    _shown = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None,
                 dtype: Any = None) -> None:
        self._set(num_parameters=num_parameters, init=init)
        self.weight = Parameter(zeros(num_parameters, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the slopes to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


class RReLU(InPlaceActivation):
    """x where it is positive, else x times a slope; the result has the shape of x.

    In training each element draws its slope uniformly from lower to upper. In evaluation the slope
    is (lower + upper) / 2. Xu et al., arXiv 1505.00853.

    Args:
        lower: smallest slope. Default 0.125.
        upper: largest slope. Default 1 / 3.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        ArgumentError: lower is above upper (raised by the call).

    Example:
        >>> import fusewire as fw
        >>> fw.nn.RReLU(0.1, 0.3).eval()(fw.tensor([-10.0, 5.0]))
        tensor([-2.,  5.])
    """

    _shown = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
                 ) -> None:
        self._set(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(InPlaceActivation):
    """x limited to [min_val, max_val]; the result has the shape of x.

    The gradient is 0 at and beyond the limits.

    Args:
        min_val: lower limit. Default -1.0.
        max_val: upper limit. Default 1.0.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        ArgumentError: min_val is above max_val (raised by the call).

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Hardtanh()(fw.tensor([-2.0, 0.5, 3.0]))
        tensor([-1. ,  0.5,  1. ])
    """

    _shown: tuple[str, ...] = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        self._set(min_val=min_val, max_val=max_val, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """x limited to [0, 6]; the result has the shape of x.

    The gradient is 0 at and beyond the limits.

    Args:
        inplace: True writes the result into x and returns x. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ReLU6()(fw.tensor([-1.0, 5.0, 7.0]))
        tensor([0., 5., 6.])
    """

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Hardsigmoid(ActivationLayer):
    """x / 6 + 1 / 2 limited to [0, 1]; the result has the shape of x.

    Args:
        inplace: True writes the result into x and returns x. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Hardsigmoid()(fw.tensor([-3.0, 0.0, 1.5]))
        tensor([0.  , 0.5 , 0.75])
    """

    def __init__(self, inplace: bool = False) -> None:
        self._set(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(ActivationLayer):
    """x * Hardsigmoid(x) of each element; the result has the shape of x.

    Howard et al., "Searching for MobileNetV3" (2019).

    Args:
        inplace: True writes the result into x and returns x. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Hardswish()(fw.tensor([-3.0, 0.0, 1.5]))
        tensor([-0.   ,  0.   ,  1.125])
    """

    def __init__(self, inplace: bool = False) -> None:
        self._set(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class _Shrink(ActivationLayer):
    def __init__(self, lambd: float = 0.5) -> None:
        self._set(lambd=lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x where |x| is above `lambd`, else 0; the result has the shape of x.

    Args:
        lambd: the limit of |x|. Default 0.5.

    Raises:
        DTypeError: x is bool.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Hardshrink(1.0)(fw.tensor([-2.0, 0.5, 3.0]))
        tensor([-2.,  0.,  3.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved by `lambd` towards 0, or 0 where |x| <= lambd; the result has the shape of x.

    Args:
        lambd: the distance, at least 0. Default 0.5.

    Raises:
        ArgumentError: lambd is negative (raised by the call).
        DTypeError: x is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Softshrink(1.0)(fw.tensor([-2.0, 0.5, 3.0]))
        tensor([-1.,  0.,  2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)
