"""Smooth activations, applied to each element, and activations with an exponential below 0.

Functions of several steps compute float16 and bfloat16 in float32 and round once.
"""

from __future__ import annotations

from ...arguments import check_choice, check_number, names_itself
from ...arrays.dtypes import DType, float64
from ...arrays.shapes import axis_of
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.declare import prepare
from ...ops.elementwise import activation, pointwise
from ...ops.elementwise.pointwise import abs, cast, expm1, minimum, where
from ...ops.reduction.reduce import widened
from ...ops.shape.join import unstack
from ...ops.shape.view import reshape
from .inputs import store_inplace

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "logsigmoid", "mish", "selu", "selu_", "sigmoid",
    "silu", "softplus", "softsign", "tanh", "tanhshrink",
]

# Klambauer et al., "Self-normalizing neural networks" (2017): zero mean and unit variance stay.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


# ---- smooth
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input)) of each element, of the shape of `input`.

    Args:
        input: numbers of any shape; integers become float32.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.sigmoid(fw.tensor([-100.0, 0.0, 100.0]))
        tensor([0. , 0.5, 1. ])
    """
    return pointwise.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent of each element, of the shape of `input`.

    Args:
        input: numbers of any shape; integers become float32.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.tanh(fw.tensor([-20.0, 0.0, 20.0]))
        tensor([-1.,  0.,  1.])
    """
    return pointwise.tanh(input)


@names_itself
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(input)) of each element, of the shape of `input`; it does not underflow.

    Args:
        input: real numbers of any shape; integers become float32.

    Raises:
        DTypeError: `input` is bool.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.logsigmoid(fw.tensor([-1000.0, 1000.0]))
        tensor([-1000.,    -0.])
    """
    return -activation.softplus(-input)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * input)) / beta of each element, of the shape of `input`.

    Args:
        input: real numbers of any shape; integers become float32.
        beta: the steepness at 0. Default 1.
        threshold: where beta * input is above it, the result is `input` itself. Default 20.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.softplus(fw.tensor([-200.0, 200.0]))
        tensor([  0., 200.])
    """
    check_number("softplus", "threshold", threshold)
    if check_number("softplus", "beta", beta) == 0:
        raise ArgumentError("softplus: beta must not be 0: the result is divided by it")
    scaled = input if beta == 1 else input * beta
    out = activation.softplus(scaled)
    out = out if beta == 1 else out / beta
    # Above 20 a float32 softplus equals its argument anyway, so no choice is needed.
    if threshold >= 20 and input.dtype != float64:
        return out
    return where(scaled > threshold, input, out)


def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|) of each element, of the shape and dtype of `input`.

    Args:
        input: real floating point numbers of any shape.

    Raises:
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.softsign(fw.tensor([-1.0, 0.0, 3.0]))
        tensor([-0.5 ,  0.  ,  0.75])
    """
    x, dtype = _wide("softsign", input)
    return cast(x / (abs(x) + 1), dtype)


def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input) of each element, of the shape and dtype of `input`.

    Args:
        input: real floating point numbers of any shape.

    Raises:
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.tanhshrink(fw.tensor([-20.0, 0.0, 20.0]))
        tensor([-19.,   0.,  19.])
    """
    x, dtype = _wide("tanhshrink", input)
    return cast(x - pointwise.tanh(x), dtype)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input * Phi(input), where Phi is the standard normal distribution function.

    Args:
        input: real numbers of any shape; integers become float32.
        approximate: "none" for the exact function, "tanh" for an approximation. Default "none".

    Raises:
        ArgumentError: `approximate` is neither "none" nor "tanh".

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.gelu(fw.tensor([-20.0, 0.0, 20.0]))
        tensor([-0.,  0., 20.])
    """
    check_choice("gelu", "approximate", approximate, ("none", "tanh"))
    return activation.gelu(input, approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input * sigmoid(input) of each element, of the shape of `input`.

    Args:
        input: real numbers of any shape; integers become float32.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.silu(fw.tensor([0.0, 40.0]))
        tensor([ 0., 40.])
    """
    return store_inplace("silu", input, activation.silu(input), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * tanh(softplus(input)) of each element, of the shape of `input`.

    Misra, "Mish: a self regularized non-monotonic activation function", arXiv 1908.08681.

    Args:
        input: real numbers of any shape; integers become float32.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.mish(fw.tensor([0.0, 40.0]))
        tensor([ 0., 40.])
    """
    return store_inplace("mish", input, activation.mish(input), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """First half of `input` along `dim` times the sigmoid of the second: (..., 2 * n) to (..., n).

    Dauphin et al., "Language modeling with gated convolutional networks", arXiv 1612.08083.

    Args:
        input: real floating point numbers with one axis or more.
        dim: the axis that is halved. Default -1, the last one.

    Raises:
        ShapeError: the size of the axis is odd.
        AxisError: `input` has no axis `dim`.
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.glu(fw.tensor([2.0, 4.0, 0.0, 100.0]))
        tensor([1., 4.])
    """
    x, dtype = _wide("glu", input)
    at = axis_of("glu", dim, x.ndim)
    size = x.shape[at]
    if size % 2:
        raise ShapeError(f"glu: axis {at} of input {x.shape} cannot be halved",
                         "pass dim, an axis of an even size")
    halves = reshape(x, (*x.shape[:at], 2, size // 2, *x.shape[at + 1:]))
    passed, gate = unstack(halves, at)
    return cast(passed * pointwise.sigmoid(gate), dtype)


# ---- exponentials below 0
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` where it is positive, else alpha * (exp(input) - 1), of the shape of `input`.

    Args:
        input: real numbers of any shape; integers become float32.
        alpha: the result approaches -alpha for large negative elements. Default 1.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.elu(fw.tensor([-100.0, 0.0, 2.0]))
        tensor([-1.,  0.,  2.])
    """
    return store_inplace("elu", input, activation.elu(input, alpha), inplace)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`input`, overwritten with `elu(input, alpha)`.

    Args:
        input: real floating point numbers of any shape.
        alpha: the result approaches -alpha for large negative elements. Default 1.

    Raises:
        DTypeError: `input` holds integers.
        GradientError: `input` is a leaf that requires a gradient, outside of no_grad().

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.elu_(fw.tensor([-100.0, 2.0]))
        tensor([-1.,  2.])
    """
    return elu(input, alpha, inplace=True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` where it is positive, else alpha * (exp(input / alpha) - 1), of the shape of `input`.

    Barron, "Continuously differentiable exponential linear units", arXiv 1704.07483.

    Args:
        input: real floating point numbers of any shape.
        alpha: the result approaches -alpha for large negative elements; not 0. Default 1.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        ArgumentError: `alpha` is 0.
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.celu(fw.tensor([-100.0, 0.0, 2.0]), alpha=0.5)
        tensor([-0.5,  0. ,  2. ])
    """
    if check_number("celu", "alpha", alpha) == 0:
        raise ArgumentError("celu: alpha must not be 0: input is divided by it", "leave it out")
    x, dtype = _wide("celu", input)
    out = where(x > 0, x, expm1(minimum(x, 0) / alpha) * alpha)
    return store_inplace("celu", input, cast(out, dtype), inplace)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`input`, overwritten with `celu(input, alpha)`.

    Args:
        input: real floating point numbers of any shape.
        alpha: the result approaches -alpha for large negative elements; not 0. Default 1.

    Raises:
        ArgumentError: `alpha` is 0.
        DTypeError: `input` does not hold real floating point numbers.
        GradientError: `input` is a leaf that requires a gradient, outside of no_grad().

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.celu_(fw.tensor([-100.0, 2.0]))
        tensor([-1.,  2.])
    """
    return celu(input, alpha, inplace=True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """1.0507 * elu(input, alpha=1.6733), of the shape and dtype of `input`.

    Klambauer et al., "Self-normalizing neural networks", arXiv 1706.02515.

    Args:
        input: real floating point numbers of any shape.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: `input` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.selu(fw.tensor([-100.0, 0.0]))
        tensor([-1.7580993,  0.       ])
    """
    x, dtype = _wide("selu", input)
    out = cast(activation.elu(x, SELU_ALPHA) * SELU_SCALE, dtype)
    return store_inplace("selu", input, out, inplace)


def selu_(input: Tensor) -> Tensor:
    """`input`, overwritten with `selu(input)`.

    Args:
        input: real floating point numbers of any shape.

    Raises:
        DTypeError: `input` does not hold real floating point numbers.
        GradientError: `input` is a leaf that requires a gradient, outside of no_grad().

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.selu_(fw.tensor([-100.0, 0.0]))
        tensor([-1.7580993,  0.       ])
    """
    return selu(input, inplace=True)


def _wide(name: str, input: Tensor) -> tuple[Tensor, DType]:
    """`input` in the dtype of the computation, and the dtype of the result."""
    (x,) = prepare(name, (input,), "real float")
    return widened(x), x.dtype
