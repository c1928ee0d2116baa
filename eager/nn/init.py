"""Initial values: each function sets a tensor in place, off the tape, and returns it."""

from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..methods import update
from ..ops.create import full
from ..ops.random import Generator, rand, randn
from ..shapes import product
from ..tape import no_grad
from ..tensor import Tensor
from ..utils.arguments import check_choice

__all__ = [
    "bias_uniform_", "calculate_gain", "constant_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0,
          "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity shrinks standard deviations, inverted."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"calculate_gain: nonlinearity {nonlinearity!r} is not known",
                            f"known are leaky_relu, {', '.join(_GAINS)}")
    return _GAINS[nonlinearity]


def constant_(tensor: Tensor, val: float) -> Tensor:
    """`tensor` with every element set to `val`."""
    with no_grad():
        return update(tensor, full(tensor.shape, val, tensor.dtype))


def zeros_(tensor: Tensor) -> Tensor:
    """`tensor` with every element set to 0."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """`tensor` with every element set to 1."""
    return constant_(tensor, 1.0)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0,
             generator: Generator | None = None) -> Tensor:
    """`tensor` with elements drawn evenly from [a, b)."""
    with no_grad():
        draws = rand(tensor.shape, dtype=tensor.dtype, generator=generator)
        return update(tensor, draws * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0,
            generator: Generator | None = None) -> Tensor:
    """`tensor` with normally distributed elements."""
    with no_grad():
        draws = randn(tensor.shape, dtype=tensor.dtype, generator=generator)
        return update(tensor, draws * std + mean)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0,
                    generator: Generator | None = None) -> Tensor:
    """`tensor` drawn evenly from +-gain * sqrt(6 / (fan_in + fan_out)): Glorot and Bengio, 2010."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0,
                   generator: Generator | None = None) -> Tensor:
    """`tensor` drawn normally with deviation gain * sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """`tensor` drawn evenly from +-gain * sqrt(3 / fan): He et al., 2015."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """`tensor` drawn normally with deviation gain / sqrt(fan): He et al., 2015."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def bias_uniform_(bias: Tensor | None, weight: Tensor) -> Tensor | None:
    """`bias` drawn evenly from +-1 / sqrt(fan_in of `weight`), as Linear and Conv2d start with."""
    fan_in = _fans(weight)[0]
    if bias is None or fan_in == 0:
        return bias
    return uniform_(bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    check_choice("kaiming", "mode", mode, ("fan_in", "fan_out"))
    fan = _fans(tensor)[0 if mode == "fan_in" else 1]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Inputs of an output and outputs of an input, of a weight (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ShapeError(f"init: a weight needs two axes (out, in) or more, got {tensor.shape}",
                         "for biases use zeros_, constant_ or uniform_")
    kernel = product(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel
