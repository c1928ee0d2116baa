"""Draws random numbers of many distributions, from the uniform ones of `generator.py`.

They are formulas wherever one exists. Formulas can be traced and compiled, and gradients flow to
the parameters that shift, scale or transform. Gamma and the distributions built on it run a fixed
number of rounds of a rejection method. `count_distributions.py` has the two that need a loop.

All functions share these parameters. size: shape of the result; default None, the common shape of
the parameters. dtype: a real float; default that of the parameters, or float32. generator: default
the default generator. device: default that of the parameters, else the current device.
"""

from __future__ import annotations

import math
from typing import Any

from ... import interpreter
from ...arguments import check_number, check_whole
from ...arrays import dtypes
from ...arrays.devices import resolve_device
from ...arrays.shapes import axis_of, broadcast
from ...core.tape import MODE, no_grad
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, GradientError, ShapeError
from ..create import check_sizes, full
from ..declare import cast, operand
from ..elementwise.pointwise import (
    cos,
    exp,
    log,
    log1p,
    logical_not,
    maximum,
    rsqrt,
    sin,
    sqrt,
    tan,
    where,
)
from ..reduction.softmax import log_softmax
from ..shape.take import take
from ..shape.view import expand_to
from .generator import Generator, float_dtype, rand, randint, randn, randperm
from .multinomial import multinomial

__all__ = ["bernoulli", "normal"]

_GAMMA_ROUNDS = 6  # each accepts at least 95 %, so that one number in 1e7 gets the fallback


TINY = 2.0 ** -149  # the least positive float32


class Draw:
    """The arguments of a call of a distribution: parameters, shape, dtypes, device, generator."""

    def __init__(self, name: str, parameters: tuple[Any, ...], size: Any, dtype: Any,
                 generator: Generator | None, device: Any) -> None:
        self.name = name
        self.operands = operands = [operand(name, p) for p in parameters]
        tensor_devices = [p.device for p in operands if isinstance(p, Tensor)]
        self.device = tensor_devices[0] if device is None and tensor_devices \
            else resolve_device(device)
        common: Any = None
        for p in operands:
            if isinstance(p, Tensor) and dtypes.kind(p.dtype) == "c":
                raise DTypeError(f"{name}: takes real parameters, not {p.dtype.name}")
            if isinstance(p, Tensor) and dtypes.kind(p.dtype) == "f":
                common = p.dtype if common is None else dtypes.promote(common, p.dtype)
        self.dtype = float_dtype(name, common if dtype is None else dtype)
        self.work = dtypes.float64 if self.dtype == dtypes.float64 else dtypes.float32
        self.parameters = [cast(p, self.work) if isinstance(p, Tensor) else
                           full((), p, self.work, self.device) for p in operands]
        shapes = [p.shape for p in self.parameters]
        self.shape = broadcast(name, *shapes) if size is None else check_sizes(size, name)
        if size is not None and broadcast(name, *shapes, self.shape) != self.shape:
            raise ShapeError(f"{name}: parameters of shapes {shapes} do not broadcast to the size "
                             f"{self.shape}", "omit size, or pass the common shape")
        self.generator = generator

    def require(self, name: str, position: int, least: float = 0.0, most: float = math.inf
                ) -> None:
        """Raises an ArgumentError unless all numbers of a parameter lie in least ... most.

        A trace does not check tensors, since a graph has no values.
        """
        x = self.operands[position]
        if isinstance(x, Tensor):
            x = x.detach()
            fits = interpreter.in_use or bool(((x >= least) & (x <= most)).all())
        else:
            fits = least <= check_number(self.name, name, x) <= most
        if not fits:
            limit = "above 0" if least == TINY else f"at least {least:g}"
            limit += "" if most == math.inf else f" and at most {most:g}"
            raise ArgumentError(f"{self.name}: {name} must be {limit}")

    def even(self) -> Tensor:
        """Uniform numbers from [0, 1)."""
        return rand(self.shape, dtype=self.work, generator=self.generator, device=self.device)

    def normal(self) -> Tensor:
        """Standard normal numbers."""
        return randn(self.shape, dtype=self.work, generator=self.generator, device=self.device)

    def result(self, x: Tensor) -> Tensor:
        return cast(expand_to(x, self.shape), self.dtype)


# ---- shifted, scaled or transformed: differentiable in their parameters
def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None, *, dtype: Any = None,
            generator: Generator | None = None, device: Any = None) -> Tensor:
    """Uniform random numbers from `low` to `high`, of shape `size`.

    Args:
        low, high: the limits, numbers or tensors. Default 0 and 1.
        size: of the result. Default None: the common shape of the parameters.
        dtype: of the result, a real float. Default: that of the parameters, or float32.
        generator: the source of random numbers. Default None: the default generator.
        device: of the result. Default: that of the parameters, else the current device.

    Raises:
        ShapeError: the parameters do not broadcast to `size`.
        DTypeError: `dtype` is not a real float.

    Example:
        >>> import fusewire as fw
        >>> fw.random.uniform(-1.0, 1.0, (2, 3)).shape
        (2, 3)
    """
    d = Draw("uniform", (low, high), size, dtype, generator, device)
    low, high = d.parameters
    return d.result(low + d.even() * (high - low))


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, dtype: Any = None,
           generator: Generator | None = None, device: Any = None) -> Tensor:
    """Normal random numbers, of shape `size`.

    Args:
        mean, std: numbers or tensors. Default 0 and 1.
        size: of the result. Default None: the common shape of the parameters.
        dtype: of the result, a real float. Default: that of the parameters, or float32.
        generator: the source of random numbers. Default None: the default generator.
        device: of the result. Default: that of the parameters, else the current device.

    Raises:
        ShapeError: the parameters do not broadcast to `size`.
        DTypeError: `dtype` is not a real float.
        ArgumentError: `std` holds a negative number.

    Example:
        >>> import fusewire as fw
        >>> fw.normal(fw.zeros(2, 1), fw.ones(3)).shape
        (2, 3)
    """
    d = Draw("normal", (mean, std), size, dtype, generator, device)
    d.require("std", 1)
    mean, std = d.parameters
    return d.result(mean + std * d.normal())


def log_normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, dtype: Any = None,
               generator: Generator | None = None, device: Any = None) -> Tensor:
    """Random numbers whose logarithm is normal with `mean` (default 0) and `std` (default 1).

    The other parameters and errors are those of `normal`.

    Example:
        >>> import fusewire as fw
        >>> bool((fw.random.log_normal(size=(100,)) > 0).all())
        True
    """
    d = Draw("log_normal", (mean, std), size, dtype, generator, device)
    d.require("std", 1)
    mean, std = d.parameters
    return d.result(exp(mean + std * d.normal()))


def exponential(scale: Any = 1.0, size: Any = None, *, dtype: Any = None,
                generator: Generator | None = None, device: Any = None) -> Tensor:
    """Exponentially distributed random numbers with mean `scale` (default 1).

    The other parameters and errors are those of `uniform`.

    Example:
        >>> import fusewire as fw
        >>> fw.random.exponential(2.0, (3,)).shape
        (3,)
    """
    d = Draw("exponential", (scale,), size, dtype, generator, device)
    d.require("scale", 0)
    return d.result(d.parameters[0] * _exponential(d))


def _exponential(d: Draw) -> Tensor:
    return -log1p(-d.even())


def laplace(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, dtype: Any = None,
            generator: Generator | None = None, device: Any = None) -> Tensor:
    """Laplace-distributed random numbers around `loc` (default 0) with scale `scale` (default 1).

    They are differences of two exponential numbers. The other parameters are those of `uniform`.

    Example:
        >>> import fusewire as fw
        >>> fw.random.laplace(size=(3,)).shape
        (3,)
    """
    d = Draw("laplace", (loc, scale), size, dtype, generator, device)
    d.require("scale", 1)
    loc, scale = d.parameters
    return d.result(loc + scale * (_exponential(d) - _exponential(d)))


def cauchy(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, dtype: Any = None,
           generator: Generator | None = None, device: Any = None) -> Tensor:
    """Cauchy-distributed random numbers around `loc` (default 0) with scale `scale` (default 1).

    They are tangents of uniform angles. The other parameters are those of `uniform`.

    Example:
        >>> import fusewire as fw
        >>> fw.random.cauchy(size=(3,)).shape
        (3,)
    """
    d = Draw("cauchy", (loc, scale), size, dtype, generator, device)
    d.require("scale", 1)
    loc, scale = d.parameters
    return d.result(loc + scale * tan((d.even() - 0.5) * math.pi))


def gumbel(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, dtype: Any = None,
           generator: Generator | None = None, device: Any = None) -> Tensor:
    """Gumbel-distributed random numbers with mode `loc` (default 0) and scale `scale` (default 1).

    They are -log of exponential numbers. The other parameters are those of `uniform`.

    Example:
        >>> import fusewire as fw
        >>> fw.random.gumbel(size=(3,)).shape
        (3,)
    """
    d = Draw("gumbel", (loc, scale), size, dtype, generator, device)
    d.require("scale", 1)
    loc, scale = d.parameters
    half_a_step = 2.0 ** (-54 if d.work == dtypes.float64 else -25)
    return d.result(loc - scale * log(-log1p(-maximum(d.even(), half_a_step))))


# ---- choices
def bernoulli(p: Any, size: Any = None, *, dtype: Any = None, generator: Generator | None = None,
              device: Any = None) -> Tensor:
    """1 with probability `p`, else 0.

    Args:
        p: a number or a tensor, from 0 to 1.
        size: of the result. Default None: the shape of `p`.
        dtype: of the result, any dtype. Default: that of `p` if it is a float, else float32.
        generator: the source of random numbers. Default None: the default generator.
        device: of the result. Default: that of `p`, else the current device.

    Example:
        >>> import fusewire as fw
        >>> fw.bernoulli(fw.tensor([0.0, 1.0]))
        tensor([0., 1.])
    """
    d = Draw("bernoulli", (p,), size, None, generator, device)
    d.require("p", 0, most=1.0)
    hit = d.even() < d.parameters[0]
    return cast(hit, d.dtype if dtype is None else dtypes.as_dtype(dtype))


def choice(x: Any, size: Any = (), replace: bool = True, p: Any = None, *,
           generator: Generator | None = None) -> Tensor:
    """Random elements of `x` along its first axis: (*size, *x.shape[1:]).

    Args:
        x: a tensor; or an int n, which stands for arange(n).
        size: of the choice. Default (): one element.
        replace: False draws each element at most once. Default True.
        p: weights of the elements. Default None: all are equally likely.
        generator: the source of random numbers. Default None: the default generator.

    Raises:
        ShapeError: `size` is too large without replacement, or `p` is malformed.

    Example:
        >>> import fusewire as fw
        >>> fw.random.choice(5, (5,), replace=False).sort()
        tensor([0, 1, 2, 3, 4])
    """
    n = check_whole("choice", "x", x, 0) if isinstance(x, int) else as_tensor("choice", x).shape[0]
    sizes = check_sizes(size, "choice")
    count = math.prod(sizes)
    if not replace and count > n:
        raise ShapeError(f"choice: cannot draw {count} of {n} without replacement",
                         "use replace=True, or draw fewer")
    if p is not None:
        weights = p if isinstance(p, Tensor) else full((), 0.0) + as_tensor("choice", p)
        picked = multinomial(weights, count, replace, generator=generator)
    elif replace:
        picked = randint(n, size=(count,), generator=generator)
    else:
        picked = randperm(n, generator)[:count]
    indices = picked.reshape(sizes)  # type: ignore[attr-defined]
    return indices if isinstance(x, int) else take(x, indices, 0)


def shuffle(x: Tensor, axis: int = 0, *, generator: Generator | None = None) -> Tensor:
    """`x` with its slices along `axis` (default 0) in random order, as a new tensor.

    Example:
        >>> import fusewire as fw
        >>> fw.random.shuffle(fw.tensor([3, 1, 2])).sort()
        tensor([1, 2, 3])
    """
    x = as_tensor("shuffle", x)
    at = axis_of("shuffle", axis, x.ndim)
    return take(x, randperm(x.shape[at], generator, device=x.device), at)


# ---- gamma, and distributions built on it
def gamma(concentration: Any, scale: Any = 1.0, size: Any = None, *, dtype: Any = None,
          generator: Generator | None = None, device: Any = None) -> Tensor:
    """Gamma-distributed random numbers with mean concentration * scale, of shape `size`.

    Gradients flow to `scale` (default 1). The other parameters are those of `uniform`.

    Raises:
        GradientError: `concentration` requires a gradient.

    Example:
        >>> import fusewire as fw
        >>> fw.random.gamma(2.0, size=(3,)).shape
        (3,)
    """
    d = Draw("gamma", (concentration, scale), size, dtype, generator, device)
    d.require("concentration", 0)
    d.require("scale", 1)
    return d.result(exp(_log_gamma("gamma", d, d.parameters[0])) * d.parameters[1])


def beta(a: Any, b: Any, size: Any = None, *, dtype: Any = None,
         generator: Generator | None = None, device: Any = None) -> Tensor:
    """Beta-distributed random numbers from 0 to 1 with the parameters `a` and `b`, of shape `size`.

    The other parameters are those of `uniform`.

    Raises:
        GradientError: `a` or `b` requires a gradient.

    Example:
        >>> import fusewire as fw
        >>> fw.random.beta(2.0, 3.0, (3,)).shape
        (3,)
    """
    d = Draw("beta", (a, b), size, dtype, generator, device)
    d.require("a", 0)
    d.require("b", 1)
    x, y = (_log_gamma("beta", d, p) for p in d.parameters)
    return d.result(1 / (1 + exp(y - x)))


def dirichlet(concentration: Any, size: Any = None, *, dtype: Any = None,
              generator: Generator | None = None, device: Any = None) -> Tensor:
    """Random points (*size, k) of positive numbers that add up to 1.

    Args:
        concentration: a tensor (..., k).
        size: of the result without its last axis. Default None: that of `concentration`.

    The other parameters are those of `uniform`.

    Raises:
        ShapeError: `concentration` is 0-d.
        GradientError: `concentration` requires a gradient.

    Example:
        >>> import fusewire as fw
        >>> fw.random.dirichlet(fw.ones(3), (2,)).shape
        (2, 3)
    """
    parameter = operand("dirichlet", concentration)
    parameter = parameter if isinstance(parameter, Tensor) else full((), parameter)
    if parameter.ndim == 0:
        raise ShapeError("dirichlet: needs one concentration for each of the k numbers",
                         "pass a tensor (..., k)")
    full_size = None if size is None else (*check_sizes(size, "dirichlet"), parameter.shape[-1])
    d = Draw("dirichlet", (parameter,), full_size, dtype, generator, device)
    d.require("concentration", 0)
    return d.result(exp(log_softmax(_log_gamma("dirichlet", d, d.parameters[0]), -1)))


def student_t(df: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, dtype: Any = None,
              generator: Generator | None = None, device: Any = None) -> Tensor:
    """Random numbers of Student's t distribution with `df` degrees of freedom, of shape `size`.

    Gradients flow to `loc` (default 0) and `scale` (default 1). The other parameters are those of
    `uniform`.

    Raises:
        GradientError: `df` requires a gradient.

    Example:
        >>> import fusewire as fw
        >>> fw.random.student_t(3.0, size=(2,)).shape
        (2,)
    """
    d = Draw("student_t", (df, loc, scale), size, dtype, generator, device)
    d.require("df", 0, TINY)
    d.require("scale", 2)
    df, loc, scale = d.parameters
    spread = exp(_log_gamma("student_t", d, df * 0.5)) * 2 / df
    return d.result(loc + scale * d.normal() * rsqrt(spread))


def _log_gamma(name: str, d: Draw, concentration: Tensor) -> Tensor:
    """The logarithms of gamma numbers; those below concentration 1 use one higher, times a power.

    Marsaglia and Tsang (2000): the first of a fixed number of normal draws that is accepted.
    """
    if concentration.requires_grad and MODE.enabled:
        raise GradientError(f"{name}: no gradient flows to the concentration or degrees of freedom",
                            "detach it")
    with no_grad():
        small = concentration < 1
        shift = where(small, concentration + 1, concentration) - 1 / 3
        width = rsqrt(shift * 9)
        chosen = full(d.shape, 1.0, d.work)
        waiting = chosen > 0
        for _ in range(_GAMMA_ROUNDS // 2):
            radius, angle = sqrt(_exponential(d) * 2), d.even() * (2 * math.pi)
            for x in (radius * cos(angle), radius * sin(angle)):
                v = x * width + 1
                v = v * v * v
                positive = v > 0
                v = where(positive, v, 1.0)
                limit = x * x * 0.5 + shift * (1 - v + log(v))
                taken = waiting & positive & (log(d.even()) < limit)
                chosen = where(taken, v, chosen)
                waiting = waiting & logical_not(taken)
        boost = where(small, -_exponential(d) / concentration, 0.0)
        return log(shift) + log(chosen) + boost
