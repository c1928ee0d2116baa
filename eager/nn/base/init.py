"""Initializers: each function sets a tensor in place, off the tape, and returns it."""

from __future__ import annotations

import math

from ...arguments import check_choice, check_fraction
from ...arrays.shapes import product
from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...linalg.factor import qr
from ...ops.create import full, iota
from ...ops.elementwise.pointwise import equal, logical_and, sign, where
from ...ops.indexing.sort import argsort
from ...ops.products.matrix import diagonal
from ...ops.random.distributions import truncated_normal
from ...ops.random.generator import Generator, rand, randn, scaled
from ...ops.reduction.reduce import widened
from ...ops.shape.grid import eye
from ...ops.shape.view import reshape
from ...tensor_methods.methods import update

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]

_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d", "sigmoid")
_GAINS = {**dict.fromkeys(_LINEAR, 1.0), "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain (standard deviation factor) for a nonlinearity.

    1 for linear and convolution layers and "sigmoid", 5 / 3 for "tanh", sqrt(2) for "relu", 3 / 4
    for "selu", and sqrt(2 / (1 + param ** 2)) for "leaky_relu".

    Args:
        nonlinearity: its name.
        param: the slope of leaky_relu below 0. Default None: 0.01.

    Raises:
        ArgumentError: an unknown nonlinearity, or param is not a number.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.calculate_gain("selu"), fw.nn.init.calculate_gain("leaky_relu", 1)
        (0.75, 1.0)
    """
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, (int, float, type(None))):
            raise ArgumentError(f"calculate_gain: a slope is a number, not {param!r}")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"calculate_gain: nonlinearity {nonlinearity!r} is not known",
                            f"known are leaky_relu, {', '.join(_GAINS)}")
    return _GAINS[nonlinearity]


def constant_(tensor: Tensor, val: float) -> Tensor:
    """`tensor` with every element set to `val`.

    Args:
        tensor: the tensor to change.
        val: the value.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.constant_(fw.empty(2), 3.0)
        tensor([3., 3.])
    """
    with no_grad():
        return update(tensor, full(tensor.shape, val, tensor.dtype, tensor.device))


def zeros_(tensor: Tensor) -> Tensor:
    """`tensor` with every element set to 0.

    Args:
        tensor: the tensor to change.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.zeros_(fw.ones(2))
        tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """`tensor` with every element set to 1.

    Args:
        tensor: the tensor to change.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.ones_(fw.zeros(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0,
             generator: Generator | None = None) -> Tensor:
    """`tensor` with elements drawn uniformly from [a, b).

    Args:
        tensor: the tensor to change.
        a: lower limit. Default 0.0.
        b: upper limit. Default 1.0.
        generator: source of random numbers. Default None: the default generator.

    Example:
        >>> import fusewire as fw
        >>> w = fw.nn.init.uniform_(fw.empty(100), -1.0, 1.0)
        >>> bool((w.abs() <= 1).all())
        True
    """
    with no_grad():
        draws = rand(tensor.shape, dtype=tensor.dtype, generator=generator)
        return update(tensor, scaled(draws, b - a, a))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0,
            generator: Generator | None = None) -> Tensor:
    """`tensor` with elements drawn from a normal distribution.

    Args:
        tensor: the tensor to change.
        mean: its mean. Default 0.0.
        std: its standard deviation. Default 1.0.
        generator: source of random numbers. Default None: the default generator.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.normal_(fw.empty(2, 3), std=0.02).shape
        (2, 3)
    """
    with no_grad():
        draws = randn(tensor.shape, dtype=tensor.dtype, generator=generator)
        return update(tensor, scaled(draws, std, mean))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0,
                  b: float = 2.0, generator: Generator | None = None) -> Tensor:
    """`tensor` with elements drawn from a normal distribution truncated to [a, b].

    Args:
        tensor: the tensor to change.
        mean: mean before the truncation. Default 0.0.
        std: standard deviation before the truncation. Default 1.0.
        a: lower limit. Default -2.0.
        b: upper limit. Default 2.0.
        generator: source of random numbers. Default None: the default generator.

    Example:
        >>> import fusewire as fw
        >>> w = fw.nn.init.trunc_normal_(fw.empty(100), std=5.0)
        >>> bool((w.abs() <= 2).all())
        True
    """
    with no_grad():
        return update(tensor, truncated_normal(mean, std, a, b, tensor.shape, dtype=tensor.dtype,
                                               generator=generator))


def eye_(tensor: Tensor) -> Tensor:
    """The matrix `tensor` set to 1 on the diagonal and to 0 elsewhere.

    Args:
        tensor: the matrix to change.

    Raises:
        ShapeError: tensor does not have 2 axes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.eye_(fw.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    _check_matrix("eye_", tensor)
    with no_grad():
        return update(tensor, eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight `tensor` of a convolution, set to a kernel that returns its input.

    Channel i of the result is channel i of the input, in each group; channels beyond those of the
    input are 0.

    Args:
        tensor: the weight (out, in, *kernel), over 1 to 3 axes.
        groups: the number of groups of output channels. Default 1.

    Raises:
        ShapeError: tensor does not have 3 to 5 axes.
        ArgumentError: groups does not divide the output channels.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.dirac_(fw.empty(2, 2, 3))
        tensor([[[0., 1., 0.],
                 [0., 0., 0.]],
        <BLANKLINE>
                [[0., 0., 0.],
                 [0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ShapeError(f"dirac_: takes the weight of a convolution over 1 to 3 axes, got "
                         f"{tensor.shape}", "eye_ sets the weight of a linear layer")
    if tensor.shape[0] % groups:
        raise ArgumentError(f"dirac_: {tensor.shape[0]} channels cannot be divided into {groups} "
                            "groups")
    with no_grad():
        number = iota(tensor.shape, 0, device=tensor.device) % (tensor.shape[0] // groups)
        hit = equal(number, iota(tensor.shape, 1, device=tensor.device))
        for axis, size in enumerate(tensor.shape[2:], 2):
            hit = logical_and(hit, equal(iota(tensor.shape, axis, device=tensor.device), size // 2))
        return update(tensor, hit)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """`tensor` (rows, ...) with orthogonal rows or columns of norm `gain`, randomly oriented.

    Axes after the first count together as columns. The rows are orthogonal if there are at most as
    many as columns, else the columns. Saxe et al., arXiv 1312.6120; the signs by Mezzadri, arXiv
    math-ph/0609050.

    Args:
        tensor: the tensor to change, with 2 axes or more.
        gain: the norm. Default 1.
        generator: source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: tensor has less than 2 axes.

    Example:
        >>> import fusewire as fw
        >>> w = fw.nn.init.orthogonal_(fw.empty(2, 3))
        >>> bool(((w @ w.T - fw.eye(2)).abs() < 1e-5).all())
        True
    """
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: takes two axes or more, got {tensor.shape}")
    if 0 in tensor.shape:
        return tensor
    rows, columns = tensor.shape[0], product(tensor.shape[1:])
    shape = (max(rows, columns), min(rows, columns))
    with no_grad():
        q, r = qr(randn(shape, dtype=widened(tensor).dtype, generator=generator))
        q = q * (sign(diagonal(r)) * gain)
        return update(tensor, reshape(q if rows >= columns else q.T, tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
            ) -> Tensor:
    """The matrix `tensor` with a share `sparsity` of each column 0, the rest drawn normally.

    The number of zeros of a column is rounded up. Martens, "Deep learning via Hessian-free
    optimization" (2010).

    Args:
        tensor: the matrix to change.
        sparsity: the share of zeros, in [0, 1].
        std: standard deviation of the other elements. Default 0.01.
        generator: source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: tensor does not have 2 axes.
        ArgumentError: sparsity is not in [0, 1].

    Example:
        >>> import fusewire as fw
        >>> w = fw.nn.init.sparse_(fw.empty(4, 3), sparsity=0.5)
        >>> (w == 0).sum(0)
        tensor([2, 2, 2])
    """
    _check_matrix("sparse_", tensor)
    check_fraction("sparse_", "sparsity", sparsity)
    zeros = math.ceil(sparsity * tensor.shape[0])
    with no_grad():
        permutation = argsort(rand(tensor.shape, generator=generator), 0)  # of each column
        draws = randn(tensor.shape, dtype=tensor.dtype, generator=generator) * std
        return update(tensor, where(permutation < zeros, 0.0, draws))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0,
                    generator: Generator | None = None) -> Tensor:
    """`tensor` drawn uniformly from +-gain * sqrt(6 / (fan_in + fan_out)).

    Glorot and Bengio, 2010.

    Args:
        tensor: a weight (out, in, *kernel), with fan_in = in * kernel elements and fan_out = out *
            kernel elements.
        gain: a factor, such as that of calculate_gain. Default 1.0.
        generator: source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: tensor has less than 2 axes.

    Example:
        >>> import fusewire as fw
        >>> w = fw.nn.init.xavier_uniform_(fw.empty(2, 4))
        >>> bool((w.abs() <= 1).all())
        True
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0,
                   generator: Generator | None = None) -> Tensor:
    """`tensor` drawn normally with standard deviation gain * sqrt(2 / (fan_in + fan_out)).

    Glorot and Bengio, 2010.

    Args:
        tensor: a weight (out, in, *kernel), with fan_in = in * kernel elements and fan_out = out *
            kernel elements.
        gain: a factor, such as that of calculate_gain. Default 1.0.
        generator: source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: tensor has less than 2 axes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.xavier_normal_(fw.empty(2, 4)).shape
        (2, 4)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """`tensor` drawn uniformly from +-gain * sqrt(3 / fan), with the gain of calculate_gain.

    fan is fan_in or fan_out. He et al., 2015.

    Args:
        tensor: a weight (out, in, *kernel), with fan_in = in * kernel elements and fan_out = out *
            kernel elements.
        a: the slope below 0, for "leaky_relu". Default 0.0.
        mode: "fan_in" or "fan_out". Default "fan_in".
        nonlinearity: the function that follows: see calculate_gain. Default "leaky_relu".
        generator: source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: tensor has less than 2 axes.
        ArgumentError: an unknown mode or nonlinearity.

    Example:
        >>> import fusewire as fw
        >>> w = fw.nn.init.kaiming_uniform_(fw.empty(2, 6), nonlinearity="relu")
        >>> bool((w.abs() <= 1).all())
        True
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """`tensor` drawn normally with standard deviation gain / sqrt(fan).

    gain is that of calculate_gain, fan is fan_in or fan_out. He et al., 2015.

    Args:
        tensor: a weight (out, in, *kernel), with fan_in = in * kernel elements and fan_out = out *
            kernel elements.
        a: the slope below 0, for "leaky_relu". Default 0.0.
        mode: "fan_in" or "fan_out". Default "fan_in".
        nonlinearity: the function that follows: see calculate_gain. Default "leaky_relu".
        generator: source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: tensor has less than 2 axes.
        ArgumentError: an unknown mode or nonlinearity.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.kaiming_normal_(fw.empty(2, 6), nonlinearity="relu").shape
        (2, 6)
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def bias_uniform_(bias: Tensor | None, weight: Tensor) -> Tensor | None:
    """`bias` drawn evenly from +-1 / sqrt(fan_in of `weight`), as Linear and Conv2d start with."""
    fan_in = _fans(weight)[0]
    if bias is None or fan_in == 0:
        return bias
    return uniform_(bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))


def _check_matrix(name: str, tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ShapeError(f"{name}: takes a matrix, got {tensor.shape}")


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    check_choice("kaiming", "mode", mode, ("fan_in", "fan_out"))
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Inputs of an output and outputs of an input, of a weight (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ShapeError(f"init: a weight needs two axes (out, in) or more, got {tensor.shape}",
                         "for biases use zeros_, constant_ or uniform_")
    kernel = product(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel
