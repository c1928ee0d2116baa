"""Initial values: each function sets a tensor in place, off the tape, and returns it.

Tensors are written under no_grad(), so parameters that require gradients are allowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ...arguments import (
    check_at_least,
    check_choice,
    check_fraction,
    check_number,
    check_whole,
    names_itself,
)
from ...arrays.shapes import product
from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...linalg.factor import qr
from ...ops.create import full, iota
from ...ops.elementwise.pointwise import equal, logical_and, sign, where
from ...ops.indexing.sort import argsort
from ...ops.products.matrix import diagonal
from ...ops.random.generator import Generator, rand, randn
from ...ops.random.scaling import scaled
from ...ops.random.truncated_normal import truncated_normal
from ...ops.reduction.reduce import widened
from ...ops.shape.grid import eye
from ...ops.shape.view import reshape
from ...tensor_methods.methods import update

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "no_draws", "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_",
    "xavier_normal_", "xavier_uniform_", "zeros_",
]

_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d", "sigmoid")
_GAINS = {**dict.fromkeys(_LINEAR, 1.0), "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 3 / 4}
_DRAWS = ContextVar("draws", default=True)


@contextmanager
def no_draws() -> Iterator[None]:
    """A context in which initial values are not drawn: tensors stay as they are, mostly zeros.

    Layers that are made inside cost little time, for a state that is loaded next. Buffers have
    their usual values, and the random generator does not advance.

    Example:
        >>> import fusewire as fw
        >>> with fw.nn.init.no_draws():
        ...     layer = fw.nn.Linear(2, 1)
        >>> layer.weight.tolist()
        [[0.0, 0.0]]
    """
    token = _DRAWS.set(False)
    try:
        yield
    finally:
        _DRAWS.reset(token)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the standard deviation of values through a nonlinearity: a float.

    Args:
        nonlinearity: "linear", "conv1d" to "conv3d", "conv_transpose1d" to "conv_transpose3d" or
            "sigmoid" (1), "tanh" (5/3), "relu" (sqrt 2), "selu" (3/4) or "leaky_relu".
        param: the slope of "leaky_relu" below 0. Default None: 0.01.

    Raises:
        ArgumentError: `nonlinearity` is unknown, or the slope is not a number.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.calculate_gain("leaky_relu", 1.0)
        1.0
    """
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, (int, float, type(None))):
            raise ArgumentError(f"calculate_gain: a slope is a number, not {param!r}")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"calculate_gain: nonlinearity {nonlinearity!r} is not known",
                            f"known are leaky_relu, {', '.join(_GAINS)}")
    return _GAINS[nonlinearity]


@names_itself
def constant_(tensor: Tensor, val: float) -> Tensor:
    """`tensor` with every element set to `val`.

    Args:
        tensor: a tensor of any shape.
        val: a number, cast to the dtype of `tensor`.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.constant_(fw.zeros(2), 0.5)
        tensor([0.5, 0.5])
    """
    with no_grad():
        return update(tensor, full(tensor.shape, val, tensor.dtype, tensor.device))


def zeros_(tensor: Tensor) -> Tensor:
    """`tensor` with every element set to 0.

    Args:
        tensor: a tensor of any shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.zeros_(fw.ones(2))
        tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """`tensor` with every element set to 1.

    Args:
        tensor: a tensor of any shape.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.ones_(fw.zeros(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


@names_itself
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0,
             generator: Generator | None = None) -> Tensor:
    """`tensor` with elements drawn uniformly from `a` to `b`.

    Args:
        tensor: a floating point tensor of any shape.
        a: the lower limit. Default 0.
        b: the upper limit. Default 1.
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        DTypeError: `tensor` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> x = fw.nn.init.uniform_(fw.zeros(1000), 2.0, 3.0)
        >>> x.min().item() >= 2.0, x.max().item() <= 3.0
        (True, True)
    """
    if not check_number("uniform_", "a", a) <= check_number("uniform_", "b", b):
        raise ArgumentError(f"uniform_: a must not be above b, got {a} and {b}")
    if not _DRAWS.get():
        return tensor
    with no_grad():
        draws = rand(tensor.shape, dtype=tensor.dtype, generator=generator)
        return update(tensor, scaled(draws, b - a, a))


@names_itself
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0,
            generator: Generator | None = None) -> Tensor:
    """`tensor` with elements drawn from a normal distribution.

    Args:
        tensor: a floating point tensor of any shape.
        mean: the mean of the distribution. Default 0.
        std: its standard deviation. Default 1.
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        DTypeError: `tensor` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.normal_(fw.zeros(2), mean=5.0, std=0.0)
        tensor([5., 5.])
    """
    check_number("normal_", "mean", mean)
    check_at_least("normal_", "std", std, 0)
    if not _DRAWS.get():
        return tensor
    with no_grad():
        draws = randn(tensor.shape, dtype=tensor.dtype, generator=generator)
        return update(tensor, scaled(draws, std, mean))


@names_itself
def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0,
                  b: float = 2.0, generator: Generator | None = None) -> Tensor:
    """`tensor` with elements drawn from a normal distribution truncated to [a, b].

    Args:
        tensor: a floating point tensor of any shape.
        mean: the mean of the distribution before truncation. Default 0.
        std: its standard deviation. Default 1.
        a: the lower limit, as a value, not in standard deviations. Default -2.
        b: the upper limit. Default 2.
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        DTypeError: `tensor` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> x = fw.nn.init.trunc_normal_(fw.zeros(1000), a=-0.5, b=0.5)
        >>> x.abs().max().item() <= 0.5
        True
    """
    with no_grad():
        return update(tensor, truncated_normal(mean, std, a, b, tensor.shape, dtype=tensor.dtype,
                                               generator=generator))


@names_itself
def eye_(tensor: Tensor) -> Tensor:
    """`tensor`, a matrix, set to 1 on the diagonal and to 0 elsewhere.

    Args:
        tensor: (rows, columns).

    Raises:
        ShapeError: `tensor` is not a matrix.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.eye_(fw.ones((2, 2)))
        tensor([[1., 0.],
                [0., 1.]])
    """
    _check_matrix("eye_", tensor)
    with no_grad():
        return update(tensor, eye(*tensor.shape, dtype=tensor.dtype))


@names_itself
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """`tensor`, the weight of a convolution, set so that the convolution preserves its input.

    Channel i of the result is channel i of the input, in each group; other channels are 0.

    Args:
        tensor: (out, in, *kernel), with 1 to 3 axes of space.
        groups: the number of groups of the convolution, which divides out. Default 1.

    Raises:
        ShapeError: `tensor` does not have 3 to 5 axes.
        ArgumentError: `groups` does not divide out.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.dirac_(fw.ones((1, 1, 3)))
        tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ShapeError(f"dirac_: takes the weight of a convolution over 1 to 3 axes, got "
                         f"{tensor.shape}", "eye_ sets the weight of a linear layer")
    if tensor.shape[0] % check_whole("dirac_", "groups", groups, 1):
        raise ArgumentError(f"dirac_: {tensor.shape[0]} channels cannot be divided into {groups} "
                            "groups")
    with no_grad():
        number = iota(tensor.shape, 0, device=tensor.device) % (tensor.shape[0] // groups)
        hit = equal(number, iota(tensor.shape, 1, device=tensor.device))
        for axis, size in enumerate(tensor.shape[2:], 2):
            hit = logical_and(hit, equal(iota(tensor.shape, axis, device=tensor.device), size // 2))
        return update(tensor, hit)


@names_itself
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """`tensor` (rows, ...) with random orthogonal rows or columns of length `gain`.

    The matrix (rows, rest) is drawn uniformly from all such matrices. Saxe et al., "Exact solutions
    to the nonlinear dynamics of learning", arXiv 1312.6120; the signs by Mezzadri, arXiv
    math-ph/0609050.

    Args:
        tensor: a floating point tensor with two axes or more.
        gain: the length of the vectors. Default 1.
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: `tensor` has fewer than two axes.
        DTypeError: `tensor` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> w = fw.nn.init.orthogonal_(fw.zeros((2, 3)), gain=2.0)
        >>> ((w @ w.T - 4 * fw.eye(2)).abs() < 1e-5).all().item()
        True
    """
    check_number("orthogonal_", "gain", gain)
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


@names_itself
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
            ) -> Tensor:
    """`tensor`, a matrix, drawn from a normal distribution, with random zeros in each column.

    Martens, "Deep learning via Hessian-free optimization" (2010).

    Args:
        tensor: a floating point matrix (rows, columns).
        sparsity: the share of zeros in each column, from 0 to 1, rounded up to whole elements.
        std: the standard deviation of the others; their mean is 0. Default 0.01.
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: `tensor` is not a matrix.
        ArgumentError: `sparsity` is outside of [0, 1].
        DTypeError: `tensor` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> w = fw.nn.init.sparse_(fw.ones((4, 3)), sparsity=0.5)
        >>> (w == 0).astype(fw.int64).sum(axis=0)
        tensor([2, 2, 2])
    """
    check_at_least("sparse_", "std", std, 0)
    _check_matrix("sparse_", tensor)
    check_fraction("sparse_", "sparsity", sparsity)
    zeros = math.ceil(sparsity * tensor.shape[0])
    with no_grad():
        ranks = argsort(rand(tensor.shape, generator=generator), 0)  # a permutation per column
        draws = randn(tensor.shape, dtype=tensor.dtype, generator=generator) * std
        return update(tensor, where(ranks < zeros, 0.0, draws))


@names_itself
def xavier_uniform_(tensor: Tensor, gain: float = 1.0,
                    generator: Generator | None = None) -> Tensor:
    """`tensor` with elements drawn uniformly from +-gain * sqrt(6 / (fan_in + fan_out)).

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward networks" (2010).

    Args:
        tensor: a floating point weight (out, in, *kernel).
        gain: the factor of the limits, as by `calculate_gain`. Default 1.
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: `tensor` has fewer than two axes.
        DTypeError: `tensor` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.xavier_uniform_(fw.zeros((3, 3))).abs().max().item() <= 1.0
        True
    """
    bound = math.sqrt(3.0) * _xavier_std("xavier_uniform_", tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


@names_itself
def xavier_normal_(tensor: Tensor, gain: float = 1.0,
                   generator: Generator | None = None) -> Tensor:
    """`tensor` drawn from a normal distribution of deviation gain * sqrt(2 / (fan_in + fan_out)).

    The mean is 0. Glorot and Bengio, "Understanding the difficulty of training deep feedforward
    networks" (2010).

    Args:
        tensor: a floating point weight (out, in, *kernel).
        gain: the factor of the deviation, as by `calculate_gain`. Default 1.
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: `tensor` has fewer than two axes.
        DTypeError: `tensor` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.xavier_normal_(fw.ones((2, 2)), gain=0.0)
        tensor([[0., 0.],
                [0., 0.]])
    """
    return normal_(tensor, 0.0, _xavier_std("xavier_normal_", tensor, gain), generator)


@names_itself
def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """`tensor` with elements drawn uniformly from +-gain * sqrt(3 / fan).

    He et al., "Delving deep into rectifiers" (2015).

    Args:
        tensor: a floating point weight (out, in, *kernel).
        a: the slope of "leaky_relu" below 0. Default 0.
        mode: "fan_in" (default) counts the inputs of an output, "fan_out" the outputs of an input.
        nonlinearity: the nonlinearity that follows, whose `calculate_gain` is the gain. Default
            "leaky_relu".
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: `tensor` has fewer than two axes.
        ArgumentError: `mode` or `nonlinearity` is unknown.
        DTypeError: `tensor` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> w = fw.nn.init.kaiming_uniform_(fw.zeros((8, 6)), nonlinearity="relu")
        >>> w.abs().max().item() <= 1.0
        True
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


@names_itself
def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """`tensor` drawn from a normal distribution of mean 0 and deviation gain / sqrt(fan).

    He et al., "Delving deep into rectifiers" (2015).

    Args:
        tensor: a floating point weight (out, in, *kernel).
        a: the slope of "leaky_relu" below 0. Default 0.
        mode: "fan_in" (default) counts the inputs of an output, "fan_out" the outputs of an input.
        nonlinearity: the nonlinearity that follows, whose `calculate_gain` is the gain. Default
            "leaky_relu".
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: `tensor` has fewer than two axes.
        ArgumentError: `mode` or `nonlinearity` is unknown.
        DTypeError: `tensor` does not hold real floating point numbers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.init.kaiming_normal_(fw.zeros((8, 6)), mode="fan_out").shape
        (8, 6)
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def bias_uniform_(bias: Tensor | None, weight: Tensor) -> Tensor | None:
    """`bias` drawn uniformly from +-1 / sqrt(fan_in of `weight`), as Linear and Conv2d begin."""
    fan_in = _fans(weight)[0]
    if bias is None or fan_in == 0:
        return bias
    return uniform_(bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))


def _check_matrix(name: str, tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ShapeError(f"{name}: takes a matrix, got {tensor.shape}")


def _xavier_std(name: str, tensor: Tensor, gain: float) -> float:
    """The standard deviation for a weight; 0 for one without elements."""
    fans = sum(_fans(tensor))
    return check_at_least(name, "gain", gain, 0) * math.sqrt(2.0 / fans) if fans else 0.0


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    check_number("kaiming", "a", a)
    check_choice("kaiming", "mode", mode, ("fan_in", "fan_out"))
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def _fans(tensor: Tensor) -> tuple[int, int]:
    """The inputs of an output and the outputs of an input, of a weight (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ShapeError(f"init: a weight needs two axes (out, in) or more, got {tensor.shape}",
                         "for biases use zeros_, constant_ or uniform_")
    kernel = product(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel
