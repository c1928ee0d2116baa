"""Activation layers that are linear between a few corners."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...ops.create import zeros
from .. import functional as F
from ..base import init
from ..base.parameter import Parameter
from .activation_base import ActivationLayer, InPlaceActivation

__all__ = [
    "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "PReLU", "RReLU", "ReLU",
    "ReLU6", "Softshrink", "Threshold",
]


class ReLU(InPlaceActivation):
    """max(x, 0), of the shape of x; with `inplace` x itself is changed to that."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class Threshold(InPlaceActivation):
    """x where it is above `threshold`, else `value`; of the shape of x."""

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self._set(threshold=threshold, value=value, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class LeakyReLU(InPlaceActivation):
    """x where it is positive, else negative_slope * x; of the shape of x."""

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        self._set(negative_slope=negative_slope, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(ActivationLayer):
    """x where it is positive, else weight * x: weight (num_parameters,), one for each channel."""

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
    """x where it is positive, else x times a slope: random while training, else their mean."""

    _shown = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
                 ) -> None:
        self._set(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(InPlaceActivation):
    """x limited to between `min_val` and `max_val`; of the shape of x."""

    _shown: tuple[str, ...] = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        self._set(min_val=min_val, max_val=max_val, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """x limited to between 0 and 6; of the shape of x."""

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Hardsigmoid(ActivationLayer):
    """x / 6 + 1 / 2, limited to between 0 and 1; of the shape of x."""

    def __init__(self, inplace: bool = False) -> None:
        self._set(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(ActivationLayer):
    """x * Hardsigmoid(x), of the shape of x."""

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
    """x where it is farther than `lambd` from 0, else 0; of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved by `lambd` towards 0, and 0 where it is not farther away; of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)
