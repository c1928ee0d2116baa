"""Activation layers: functions of one tensor, most without parameters."""

from __future__ import annotations

from typing import Any

from ...arguments import check_choice
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.create import zeros
from .. import functional as F
from ..base import init
from ..base.module import Module
from ..base.parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU",
    "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink", "Threshold",
]


class _Activation(Module):
    """Prints those settings, which are its attributes, that are named in `_shown`."""

    _shown: tuple[str, ...] = ()

    def _keep(self, **settings: Any) -> None:
        """What a constructor does: the settings become attributes."""
        Module.__init__(self)
        for name, value in settings.items():
            setattr(self, name, value)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)


class _InPlace(_Activation):
    """One with the setting `inplace`: whether x itself is changed. It is printed where it is on."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        self._keep(inplace=inplace)

    def extra_repr(self) -> str:
        return ", ".join(filter(None, [super().extra_repr(), "inplace=True" * self.inplace]))


class _AlongAxis(_Activation):
    """One that works along the axis `dim`."""

    _shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        self._keep(dim=dim)


# ---- straight pieces
class ReLU(_InPlace):
    """max(x, 0), of the shape of x; with `inplace` x itself is changed to that."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class Threshold(_InPlace):
    """x where it is above `threshold`, else `value`; of the shape of x."""

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self._keep(threshold=threshold, value=value, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class LeakyReLU(_InPlace):
    """x where it is positive, else negative_slope * x; of the shape of x."""

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        self._keep(negative_slope=negative_slope, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(_Activation):
    """x where it is positive, else weight * x: weight (num_parameters,), one for each channel."""

    _shown = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None,
                 dtype: Any = None) -> None:
        self._keep(num_parameters=num_parameters, init=init)
        self.weight = Parameter(zeros(num_parameters, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the slopes to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


class RReLU(_InPlace):
    """x where it is positive, else x times a slope: random while training, else their mean."""

    _shown = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
                 ) -> None:
        self._keep(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_InPlace):
    """x limited to between `min_val` and `max_val`; of the shape of x."""

    _shown: tuple[str, ...] = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        self._keep(min_val=min_val, max_val=max_val, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """x limited to between 0 and 6; of the shape of x."""

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Hardsigmoid(_Activation):
    """x / 6 + 1 / 2, limited to between 0 and 1; of the shape of x."""

    def __init__(self, inplace: bool = False) -> None:
        self._keep(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_Activation):
    """x * Hardsigmoid(x), of the shape of x."""

    def __init__(self, inplace: bool = False) -> None:
        self._keep(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class _Shrink(_Activation):
    def __init__(self, lambd: float = 0.5) -> None:
        self._keep(lambd=lambd)

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


# ---- smooth
class Sigmoid(_Activation):
    """1 / (1 + exp(-x)), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class LogSigmoid(_Activation):
    """log(Sigmoid(x)), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Tanh(_Activation):
    """tanh(x), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Tanhshrink(_Activation):
    """x - tanh(x), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softsign(_Activation):
    """x / (1 + |x|), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Softplus(_Activation):
    """log(1 + exp(beta * x)) / beta, of the shape of x; x itself above `threshold` / beta."""

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self._keep(beta=beta, threshold=threshold)

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class GELU(_Activation):
    """x times the normal distribution function of x ("tanh": an approximation of it)."""

    _shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        check_choice("GELU", "approximate", approximate, ("none", "tanh"))
        self._keep(approximate=approximate)

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)


class SiLU(_InPlace):
    """x * sigmoid(x), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """x * tanh(softplus(x)), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class GLU(_Activation):
    """The first half of x along `dim` times the sigmoid of the second half."""

    _shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        self._keep(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


# ---- exponentials below 0
class ELU(_InPlace):
    """x where it is positive, else alpha * (exp(x) - 1); of the shape of x."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._keep(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_InPlace):
    """x where it is positive, else alpha * (exp(x / alpha) - 1); of the shape of x."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._keep(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class SELU(_InPlace):
    """1.0507 times ELU(alpha=1.6733), of the shape of x: mean 0 and variance 1 stay."""

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


# ---- along an axis
class Softmax(_AlongAxis):
    """exp(x) divided by its sum along `dim`, of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class Softmin(_AlongAxis):
    """Softmax of -x, of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongAxis):
    """The logarithm of Softmax along `dim`, of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(_Activation):
    """Softmax over the channels of images (n, channels, h, w) or (channels, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: takes (n, channels, h, w) or (channels, h, w), got "
                             f"{input.shape}", "nn.Softmax(dim) takes any axes")
        return F.softmax(input, -3)
