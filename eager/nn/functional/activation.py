"""Activations: functions of each element of a tensor. Corners have PyTorch's gradients.

Those of several steps compute float16 and bfloat16 in float32 and round once.
"""

from __future__ import annotations

from ...arguments import check_choice
from ...arrays.dtypes import float64
from ...arrays.shapes import axis_of
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.elementwise import activation, pointwise
from ...ops.elementwise.casting import lowered
from ...ops.elementwise.pointwise import abs, cast, expm1, minimum, where
from ...ops.random.generator import rand
from ...ops.reduction.reduce import floating, widened
from ...ops.shape.join import unstack
from ...ops.shape.view import reshape
from .inplace import placed

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "logsigmoid", "mish", "prelu", "relu",
    "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid", "silu", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_",
]

# Klambauer et al., "Self-normalizing neural networks" (2017): zero mean and unit variance stay.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


# ---- straight pieces
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0), of the shape of `input`; with `inplace` the input itself is changed."""
    out = pointwise.relu(input)
    return placed("relu", input, out) if inplace else out


def relu_(input: Tensor) -> Tensor:
    """`input`, changed to its `relu`."""
    return relu(input, inplace=True)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """input where it is above `threshold`, else `value`."""
    return placed("threshold", input, where(input <= threshold, value, input), inplace)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`input`, changed to `value` where it is not above `threshold`."""
    return placed("threshold_", input, where(input <= threshold, value, input))


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """input where it is positive, else negative_slope * input."""
    return placed("leaky_relu", input, activation.leaky_relu(input, negative_slope), inplace)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`input`, changed to its `leaky_relu`."""
    return leaky_relu(input, negative_slope, inplace=True)


@lowered
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where it is positive, else weight * input: weight (1,), or one for each of axis 1.

    He et al., "Delving deep into rectifiers" (2015).
    """
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.shape not in ((), (1,), (channels,)):
        raise ShapeError(f"prelu: weight {weight.shape} beside input {input.shape}, which has "
                         f"{channels} channels in axis 1",
                         "the weight has shape (1,), or one number for each channel")
    if weight.ndim and input.ndim > 1:
        weight = reshape(weight, (-1, *(1,) * (input.ndim - 2)))
    elif weight.ndim != input.ndim:
        weight = reshape(weight, (1,) * input.ndim)
    return where(input > 0, input, weight * input)


def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:
    """input where it is positive, else input times a slope: the mean of `lower` and `upper`.

    In `training` each element draws its slope from between the two: Xu et al., arXiv 1505.00853.
    """
    if lower > upper:
        raise ArgumentError(f"rrelu: lower must not be above upper, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = cast(rand(input.shape, device=input.device) * (upper - lower) + lower, input.dtype)
    return placed("rrelu", input, where(input > 0, input, input * slope), inplace)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
           ) -> Tensor:
    """`input`, changed to its `rrelu`."""
    return rrelu(input, lower, upper, training, inplace=True)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
             ) -> Tensor:
    """input limited to between `min_val` and `max_val`; at and beyond them the gradient is 0."""
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val must not be above max_val, got {min_val} and "
                            f"{max_val}")
    return placed("hardtanh", input, activation.hardtanh(input, min_val, max_val), inplace)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`input`, changed to its `hardtanh`."""
    return hardtanh(input, min_val, max_val, inplace=True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """input limited to between 0 and 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """input / 6 + 1 / 2, limited to between 0 and 1."""
    return placed("hardsigmoid", input, activation.hardsigmoid(input), inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * hardsigmoid(input): Howard et al., "Searching for MobileNetV3" (2019)."""
    return placed("hardswish", input, activation.hardswish(input), inplace)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input where it is farther than `lambd` from 0, else 0."""
    return where(abs(input) <= lambd, 0.0, input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input moved by `lambd` towards 0, and 0 where it is not farther away."""
    if not lambd >= 0:
        raise ArgumentError(f"softshrink: lambd must be at least 0, got {lambd}")
    inner = where(input < -lambd, input + lambd, input * 0.0)  # nan stays nan
    return where(input > lambd, input - lambd, inner)


# ---- smooth
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input)), of the shape of `input`."""
    return pointwise.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent, of the shape of `input`."""
    return pointwise.tanh(input)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(input)), of the shape of `input`, without underflow."""
    return -activation.softplus(-input)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * input)) / beta; `input` itself where beta * input is above `threshold`."""
    scaled = input if beta == 1 else input * beta
    out = activation.softplus(scaled)
    out = out if beta == 1 else out / beta
    # Above 20 a float32 softplus equals its argument anyway, so the choice need not be made.
    if threshold >= 20 and input.dtype != float64:
        return out
    return where(scaled > threshold, input, out)


def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|), of the shape of `input`."""
    x = _wide("softsign", input)
    return cast(x / (abs(x) + 1), input.dtype)


def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input), of the shape of `input`."""
    x = _wide("tanhshrink", input)
    return cast(x - pointwise.tanh(x), input.dtype)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input times the normal distribution function of it ("tanh": an approximation)."""
    check_choice("gelu", "approximate", approximate, ("none", "tanh"))
    return activation.gelu(input, approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input * sigmoid(input), of the shape of `input`."""
    return placed("silu", input, activation.silu(input), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * tanh(softplus(input)): Misra, arXiv 1908.08681."""
    return placed("mish", input, activation.mish(input), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of `input` along `dim` times the sigmoid of the second half.

    Dauphin et al., arXiv 1612.08083.
    """
    x = _wide("glu", input)
    at = axis_of("glu", dim, x.ndim)
    size = x.shape[at]
    if size % 2:
        raise ShapeError(f"glu: axis {at} of input {x.shape} cannot be halved",
                         "pass dim, an axis of an even size")
    halves = reshape(x, (*x.shape[:at], 2, size // 2, *x.shape[at + 1:]))
    passed, gate = unstack(halves, at)
    return cast(passed * pointwise.sigmoid(gate), input.dtype)


# ---- exponentials below 0
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    return placed("elu", input, activation.elu(input, alpha), inplace)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`input`, changed to its `elu`."""
    return elu(input, alpha, inplace=True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha * (exp(input / alpha) - 1): arXiv 1704.07483."""
    if alpha == 0:
        raise ArgumentError("celu: alpha must not be 0: input is divided by it", "leave it out")
    x = _wide("celu", input)
    out = where(x > 0, x, expm1(minimum(x, 0) / alpha) * alpha)
    return placed("celu", input, cast(out, input.dtype), inplace)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`input`, changed to its `celu`."""
    return celu(input, alpha, inplace=True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """1.0507 times elu(input, alpha=1.6733): Klambauer et al., arXiv 1706.02515."""
    x = _wide("selu", input)
    out = cast(activation.elu(x, SELU_ALPHA) * SELU_SCALE, input.dtype)
    return placed("selu", input, out, inplace)


def selu_(input: Tensor) -> Tensor:
    """`input`, changed to its `selu`."""
    return selu(input, inplace=True)


def _wide(name: str, input: Tensor) -> Tensor:
    """`input`, which must hold floating point numbers, in the dtype that steps are made in."""
    return widened(floating(name, input, "f"))
