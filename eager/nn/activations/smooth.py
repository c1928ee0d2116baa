"""Smooth activation layers: sigmoids, gates and exponentials."""

from __future__ import annotations

from ...arguments import check_choice
from ...core.tensor import Tensor
from .. import functional as F
from .base import ActivationLayer, InPlaceActivation

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "LogSigmoid", "Mish", "SiLU", "Sigmoid", "Softplus",
    "Softsign", "Tanh", "Tanhshrink",
]


# ---- sigmoids and gates
class Sigmoid(ActivationLayer):
    """1 / (1 + exp(-x)) of each element; the result has the shape of x.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Sigmoid()(fw.tensor([0.0, 100.0]))
        tensor([0.5, 1. ])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class LogSigmoid(ActivationLayer):
    """log(1 / (1 + exp(-x))) of each element; the result has the shape of x.

    It does not underflow for large negative x.

    Raises:
        DTypeError: x is bool.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.LogSigmoid()(fw.tensor([-1000.0, -100.0]))
        tensor([-1000.,  -100.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Tanh(ActivationLayer):
    """tanh(x) of each element; the result has the shape of x.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Tanh()(fw.tensor([-100.0, 0.0, 100.0]))
        tensor([-1.,  0.,  1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Tanhshrink(ActivationLayer):
    """x - tanh(x) of each element; the result has the shape and dtype of x.

    Raises:
        DTypeError: x is not of a floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Tanhshrink()(fw.tensor([-100.0, 0.0, 100.0]))
        tensor([-99.,   0.,  99.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softsign(ActivationLayer):
    """x / (1 + |x|) of each element; the result has the shape and dtype of x.

    Raises:
        DTypeError: x is not of a floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Softsign()(fw.tensor([-1.0, 0.0, 3.0]))
        tensor([-0.5 ,  0.  ,  0.75])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Softplus(ActivationLayer):
    """log(1 + exp(beta * x)) / beta of each element; the result has the shape of x.

    Args:
        beta: sharpness of the bend at 0. Default 1.0.
        threshold: the result is x itself where beta * x is above it. Default 20.0.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Softplus()(fw.tensor([30.0, 100.0]))
        tensor([ 30., 100.])
    """

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self._set(beta=beta, threshold=threshold)

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class GELU(ActivationLayer):
    """x * Phi(x), where Phi is the standard normal distribution function.

    Args:
        approximate: "none", or "tanh" for an approximation by tanh. Default "none".

    Raises:
        ArgumentError: approximate is neither "none" nor "tanh".

    Example:
        >>> import fusewire as fw
        >>> fw.nn.GELU()(fw.tensor([0.0, 100.0]))
        tensor([  0., 100.])
    """

    _shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        check_choice("GELU", "approximate", approximate, ("none", "tanh"))
        self._set(approximate=approximate)

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)


class SiLU(InPlaceActivation):
    """x / (1 + exp(-x)), that is x * sigmoid(x); the result has the shape of x.

    Args:
        inplace: True writes the result into x and returns x. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.SiLU()(fw.tensor([0.0, 100.0]))
        tensor([  0., 100.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(InPlaceActivation):
    """x * tanh(softplus(x)) of each element; the result has the shape of x.

    Misra, arXiv 1908.08681.

    Args:
        inplace: True writes the result into x and returns x. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.Mish()(fw.tensor([0.0, 100.0]))
        tensor([  0., 100.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class GLU(ActivationLayer):
    """The first half of x along `dim` times the sigmoid of the second half.

    (..., 2 * k, ...) -> (..., k, ...). Dauphin et al., arXiv 1612.08083.

    Args:
        dim: the axis that is halved. Default -1.

    Raises:
        ShapeError: the size of axis dim is odd.
        AxisError: x has no axis dim.
        DTypeError: x is not of a floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.GLU()(fw.tensor([[1.0, 2.0, 0.0, 0.0]]))
        tensor([[0.5, 1. ]])
    """

    _shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        self._set(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


# ---- exponentials below 0
class ELU(InPlaceActivation):
    """x where it is positive, else alpha * (exp(x) - 1); the result has the shape of x.

    Args:
        alpha: the result approaches -alpha for large negative x. Default 1.0.
        inplace: True writes the result into x and returns x. Default False.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.ELU()(fw.tensor([-100.0, 0.5, 3.0]))
        tensor([-1. ,  0.5,  3. ])
    """

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._set(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(InPlaceActivation):
    """x where it is positive, else alpha * (exp(x / alpha) - 1); the result has the shape of x.

    Barron, arXiv 1704.07483.

    Args:
        alpha: the result approaches -alpha for large negative x; not 0. Default 1.0.
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        ArgumentError: alpha is 0 (raised by the call).
        DTypeError: x is not of a floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.CELU(2.0)(fw.tensor([-100.0, 0.5, 3.0]))
        tensor([-2. ,  0.5,  3. ])
    """

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._set(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class SELU(InPlaceActivation):
    """scale * ELU(x, alpha), which preserves mean 0 and variance 1.

    scale is 1.0507 and alpha 1.6733. Klambauer et al., arXiv 1706.02515.

    Args:
        inplace: True writes the result into x and returns x. Default False.

    Raises:
        DTypeError: x is not of a floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.SELU()(fw.zeros(2, 3)).shape
        (2, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)
