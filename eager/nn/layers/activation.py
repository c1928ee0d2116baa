"""Smooth activation layers: sigmoids, gates and exponentials."""

from __future__ import annotations

from ...arguments import check_choice
from ...core.tensor import Tensor
from .. import functional as F
from .activation_base import ActivationLayer, InPlaceActivation

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "LogSigmoid",
    "Mish",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "Tanhshrink",
]


# ---- sigmoids and gates
class Sigmoid(ActivationLayer):
    """1 / (1 + exp(-x)), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class LogSigmoid(ActivationLayer):
    """log(Sigmoid(x)), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Tanh(ActivationLayer):
    """tanh(x), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Tanhshrink(ActivationLayer):
    """x - tanh(x), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softsign(ActivationLayer):
    """x / (1 + |x|), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Softplus(ActivationLayer):
    """log(1 + exp(beta * x)) / beta, of the shape of x; x itself above `threshold` / beta."""

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self._set(beta=beta, threshold=threshold)

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class GELU(ActivationLayer):
    """x times the normal distribution function of x ("tanh": an approximation of it)."""

    _shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        check_choice("GELU", "approximate", approximate, ("none", "tanh"))
        self._set(approximate=approximate)

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)


class SiLU(InPlaceActivation):
    """x * sigmoid(x), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(InPlaceActivation):
    """x * tanh(softplus(x)), of the shape of x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class GLU(ActivationLayer):
    """The first half of x along `dim` times the sigmoid of the second half."""

    _shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        self._set(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

# ---- exponentials below 0
class ELU(InPlaceActivation):
    """x where it is positive, else alpha * (exp(x) - 1); of the shape of x."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._set(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(InPlaceActivation):
    """x where it is positive, else alpha * (exp(x / alpha) - 1); of the shape of x."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._set(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class SELU(InPlaceActivation):
    """1.0507 times ELU(alpha=1.6733), of the shape of x: mean 0 and variance 1 stay."""

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)
