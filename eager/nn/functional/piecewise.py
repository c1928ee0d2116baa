"""Activations made of straight lines, applied to each element. Corners have PyTorch's gradients."""

from __future__ import annotations

from ...arguments import check_at_least, check_number, names_itself
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.declare import prepare
from ...ops.elementwise import activation, pointwise
from ...ops.elementwise.casting import lowered
from ...ops.elementwise.pointwise import abs, cast, where
from ...ops.random.generator import rand
from ...ops.shape.view import reshape
from .inputs import store_inplace

__all__ = [
    "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_",
    "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "softshrink", "threshold", "threshold_",
]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0) of each element, of the shape of `input`.

    Args:
        input: real numbers of any shape.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: `input` is bool or complex.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.relu(fw.tensor([-1.0, 0.0, 2.0]))
        tensor([0., 0., 2.])
    """
    out = pointwise.relu(input)
    return store_inplace("relu", input, out) if inplace else out


def relu_(input: Tensor) -> Tensor:
    """`input`, overwritten with `relu(input)`.

    Args:
        input: real numbers of any shape.

    Raises:
        DTypeError: `input` is bool or complex.
        GradientError: `input` is a leaf that requires a gradient, outside of no_grad().

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor([-1.0, 2.0])
        >>> fw.nn.functional.relu_(x) is x, x.tolist()
        (True, [0.0, 2.0])
    """
    return relu(input, inplace=True)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`input` where it is above `threshold`, else `value`, of the shape of `input`.

    Args:
        input: real numbers of any shape.
        threshold: elements up to and including this number are replaced.
        value: the number that replaces them.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: with `inplace`, the result has another dtype than `input`.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.threshold(fw.tensor([0.5, 1.0, 2.0]), 1.0, -1.0)
        tensor([-1., -1.,  2.])
    """
    return store_inplace("threshold", input, _replaced(input, threshold, value), inplace)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`input`, overwritten with `threshold(input, threshold, value)`.

    Args:
        input: real numbers of any shape.
        threshold: elements up to and including this number are replaced.
        value: the number that replaces them.

    Raises:
        DTypeError: the result has another dtype than `input`.
        GradientError: `input` is a leaf that requires a gradient, outside of no_grad().

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.threshold_(fw.tensor([0.5, 2.0]), 1.0, 0.0)
        tensor([0., 2.])
    """
    return store_inplace("threshold_", input, _replaced(input, threshold, value))


def _replaced(input: Tensor, threshold: float, value: float) -> Tensor:
    (x,) = prepare("threshold", (input,), "real")
    below = x <= check_number("threshold", "threshold", threshold)
    return where(below, check_number("threshold", "value", value), x)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`input` where it is positive, else negative_slope * input, of the shape of `input`.

    Args:
        input: real numbers of any shape; integers become float32.
        negative_slope: the factor of elements that are not positive. Default 0.01.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.leaky_relu(fw.tensor([-2.0, 3.0]), 0.5)
        tensor([-1.,  3.])
    """
    return store_inplace("leaky_relu", input, activation.leaky_relu(input, negative_slope), inplace)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`input`, overwritten with `leaky_relu(input, negative_slope)`.

    Args:
        input: real floating point numbers of any shape.
        negative_slope: the factor of elements that are not positive. Default 0.01.

    Raises:
        DTypeError: `input` holds integers.
        GradientError: `input` is a leaf that requires a gradient, outside of no_grad().

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.leaky_relu_(fw.tensor([-2.0, 3.0]), 0.5)
        tensor([-1.,  3.])
    """
    return leaky_relu(input, negative_slope, inplace=True)


@lowered
@names_itself
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`input` where it is positive, else weight * input, of the shape of `input`.

    He et al., "Delving deep into rectifiers" (2015).

    Args:
        input: real numbers, any shape; axis 1 is that of channels.
        weight: the slopes: (channels,), or one slope of shape (1,) or ().

    Raises:
        ShapeError: `weight` has neither one element nor one for each channel.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.prelu(fw.tensor([[-1.0, -1.0]]), fw.tensor([0.5, 2.0]))
        tensor([[-0.5, -2. ]])
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


@names_itself
def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:
    """`input` where it is positive, else a slope times `input`, of the shape of `input`.

    Xu et al., "Empirical evaluation of rectified activations", arXiv 1505.00853.

    Args:
        input: real numbers of any shape.
        lower, upper: the limits of the slope. Defaults 1/8 and 1/3.
        training: True draws a slope for each element, uniformly from `lower` to `upper`. False
            takes the mean of the limits. Default False.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        ArgumentError: `lower` is above `upper`.
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.rrelu(fw.tensor([-4.0, 1.0]), 0.25, 0.75)
        tensor([-2.,  1.])
    """
    if not check_number("rrelu", "lower", lower) <= check_number("rrelu", "upper", upper):
        raise ArgumentError(f"rrelu: lower must not be above upper, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    (x,) = prepare("rrelu", (input,), "real float")
    slope = cast(rand(x.shape, device=x.device) * (upper - lower) + lower, x.dtype)
    return store_inplace("rrelu", input, where(x > 0, x, x * slope), inplace)


@names_itself
def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
           ) -> Tensor:
    """`input`, overwritten with `rrelu(input, lower, upper, training)`.

    Args:
        input: real floating point numbers of any shape.
        lower, upper: the limits of the slope. Defaults 1/8 and 1/3.
        training: True draws a slope for each element. Default False: their mean.

    Raises:
        ArgumentError: `lower` is above `upper`.
        DTypeError: `input` holds integers.
        GradientError: `input` is a leaf that requires a gradient, outside of no_grad().

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.rrelu_(fw.tensor([-4.0, 1.0]), 0.25, 0.75)
        tensor([-2.,  1.])
    """
    return rrelu(input, lower, upper, training, inplace=True)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
             ) -> Tensor:
    """`input` limited to [min_val, max_val], of the shape of `input`.

    The gradient is 1 between the limits, and 0 at and beyond them.

    Args:
        input: real numbers of any shape; integers become float32.
        min_val: the lower limit. Default -1.
        max_val: the upper limit. Default 1.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        ArgumentError: `min_val` is above `max_val`.
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.hardtanh(fw.tensor([-3.0, 0.5, 3.0]))
        tensor([-1. ,  0.5,  1. ])
    """
    check_number("hardtanh", "min_val", min_val)
    if not min_val <= check_number("hardtanh", "max_val", max_val):
        raise ArgumentError(f"hardtanh: min_val must not be above max_val, got {min_val} and "
                            f"{max_val}")
    return store_inplace("hardtanh", input, activation.hardtanh(input, min_val, max_val), inplace)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`input`, overwritten with `hardtanh(input, min_val, max_val)`.

    Args:
        input: real floating point numbers of any shape.
        min_val: the lower limit. Default -1.
        max_val: the upper limit. Default 1.

    Raises:
        ArgumentError: `min_val` is above `max_val`.
        DTypeError: `input` holds integers.
        GradientError: `input` is a leaf that requires a gradient, outside of no_grad().

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.hardtanh_(fw.tensor([-3.0, 0.5]))
        tensor([-1. ,  0.5])
    """
    return hardtanh(input, min_val, max_val, inplace=True)


@names_itself
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """`input` limited to [0, 6], of the shape of `input`.

    Args:
        input: real numbers of any shape; integers become float32.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.relu6(fw.tensor([-1.0, 3.0, 8.0]))
        tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """input / 6 + 1 / 2, limited to [0, 1], of the shape of `input`.

    Args:
        input: real numbers of any shape; integers become float32.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.hardsigmoid(fw.tensor([-3.0, 0.0, 3.0]))
        tensor([0. , 0.5, 1. ])
    """
    return store_inplace("hardsigmoid", input, activation.hardsigmoid(input), inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * hardsigmoid(input) of each element, of the shape of `input`.

    Howard et al., "Searching for MobileNetV3" (2019).

    Args:
        input: real numbers of any shape; integers become float32.
        inplace: True writes the result into `input` and returns `input`. Default False.

    Raises:
        DTypeError: with `inplace`, `input` holds integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.hardswish(fw.tensor([0.0, 3.0]))
        tensor([0., 3.])
    """
    return store_inplace("hardswish", input, activation.hardswish(input), inplace)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` where |input| is above `lambd`, else 0, of the shape of `input`.

    Args:
        input: real numbers of any shape.
        lambd: the largest absolute value that becomes 0. Default 0.5.

    Raises:
        DTypeError: `input` is bool.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.hardshrink(fw.tensor([-1.0, 0.5, 2.0]))
        tensor([-1.,  0.,  2.])
    """
    (x,) = prepare("hardshrink", (input,), "real float")
    return where(abs(x) <= check_number("hardshrink", "lambd", lambd), 0.0, x)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` moved towards 0 by `lambd`, or 0 where |input| <= lambd, of the shape of `input`.

    Args:
        input: real numbers of any shape.
        lambd: the distance, at least 0. Default 0.5.

    Raises:
        ArgumentError: `lambd` is negative or nan.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.softshrink(fw.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.5,  0. ,  1.5])
    """
    check_at_least("softshrink", "lambd", lambd, 0)
    (x,) = prepare("softshrink", (input,), "real float")
    inner = where(x < -lambd, x + lambd, x * 0.0)  # nan stays nan
    return where(x > lambd, x - lambd, inner)
