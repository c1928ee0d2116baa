"""Keeps the state of random streams, and draws uniform, normal and integer tensors from it.

`philox.py` says how numbers follow from a state, `distributions.py` has further distributions, and
docs/reference/random.md has the guarantees.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import interpreter
from ...arguments import (
    check_at_least,
    check_fraction,
    check_number,
    check_whole,
    names_itself,
    whole,
)
from ...arrays import dtypes
from ...arrays.devices import CPU, resolve_device
from ...core.dispatch import LARGE, apply
from ...core.in_place import replace
from ...core.tape import with_tape
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError, ShapeError
from ..create import check_sizes
from ..declare import cast
from ..elementwise import pointwise
from ..indexing.sort import argsort
from ..transfer import transfer
from .philox import box_muller, normal_op, randint_op, signed, uniform_op
from .scaling import scaled

__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed",
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed",
    "set_rng_state",
]


class Generator:
    """A stream of random numbers. Its state is a tensor [seed, counter] of int64.

    Equal seeds give equal numbers, on every device, eager and compiled.

    Args:
        seed: any int, of which the lowest 64 bits count. Default 0.
        device: of the numbers drawn without a `device` of their own. Default: the current device.

    Raises:
        DTypeError: the seed is not a whole number.

    Example:
        >>> import fusewire as fw
        >>> generator = fw.Generator(3)
        >>> x = fw.rand(2, generator=generator)
        >>> generator
        Generator(seed=3, counter=1)
    """

    def __init__(self, seed: int = 0, device: Any = None) -> None:
        self.device = resolve_device(device)
        self.state = Tensor(np.array([0, 0], np.int64))
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """This generator, reset to the start of the stream of `seed`."""
        number = int(seed) if isinstance(seed, bool) else whole(seed)
        if number is None:
            raise DTypeError(f"Generator.manual_seed: a seed is a whole number, not {seed!r:.80}",
                             "any int is taken, by its lowest 64 bits")
        fresh = interpreter.note_constant(
            Tensor(np.array([signed(operator.index(number)), 0], np.int64)))
        replace(self.state, fresh)
        return self

    def next(self) -> Tensor:
        """The present state, for one random op; the counter advances by one."""
        now = Tensor(self.state._data)
        with_tape(False, self._move_on)
        return now

    def _move_on(self) -> None:
        replace(self.state, self.state + _one_step())

    def get_state(self) -> Tensor:
        """A copy of the state."""
        return Tensor(self.state._data)

    def set_state(self, state: Tensor) -> None:
        """Continues from a state that `get_state` returned.

        Raises:
            ShapeError: the state is not a vector of two int64.
        """
        if state.shape != (2,) or state.dtype != dtypes.int64:
            raise ShapeError(f"set_state: takes a state (2,) of int64, got {state.shape} of "
                             f"{state.dtype.name}", "get_state() returns one")
        replace(self.state, state.cpu() if state.device != CPU else state)

    def initial_seed(self) -> int:
        """The seed of the stream, from 0 to 2**64 - 1."""
        return int(self.state.tolist()[0]) % 2 ** 64

    def seed(self) -> int:
        """A new seed from the operating system; resets this generator to its stream."""
        drawn = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(drawn)
        return drawn

    def clone(self) -> Generator:
        """A new generator in the same state, which draws the same numbers."""
        copy = Generator(device=self.device)
        copy.set_state(self.get_state())
        return copy

    def split(self, n: int = 2) -> list[Generator]:
        """`n` generators with independent streams.

        Their seeds are drawn from this generator, which advances by one call.

        Example:
            >>> import fusewire as fw
            >>> first, second = fw.Generator(0).split()
            >>> bool((fw.rand(4, generator=first) == fw.rand(4, generator=second)).any())
            False
        """
        seeds = randint(-2 ** 63, 2 ** 63, (n,), generator=self)
        return [Generator(s, self.device) for s in seeds.tolist()]

    def __repr__(self) -> str:
        seed, counter = self.state.tolist()
        return f"Generator(seed={seed % 2 ** 64}, counter={counter})"


def _one_step() -> Tensor:
    state = Tensor(np.array([0, 1], np.int64))
    return interpreter.note_constant(state)  # type: ignore[no-any-return]


default_generator = Generator(int.from_bytes(os.urandom(4), "little"))


class _Own(threading.local):
    """The generator that replaces the default one in this thread, if any."""

    generator: Generator | None = None


OWN = _Own()


def default() -> Generator:
    """The generator for calls without one. The threads of a data loader have their own."""
    return OWN.generator or default_generator


def manual_seed(seed: int) -> Generator:
    """The default generator, reset to the start of the stream of `seed`.

    Args:
        seed: any int, of which the lowest 64 bits count.

    Raises:
        DTypeError: the seed is not a whole number.

    Example:
        >>> import fusewire as fw
        >>> _ = fw.manual_seed(3)
        >>> first = fw.rand(2)
        >>> _ = fw.manual_seed(3)
        >>> bool((fw.rand(2) == first).all())
        True
    """
    return default().manual_seed(seed)


def seed() -> int:
    """A new seed from the operating system; resets the default generator to its stream.

    Example:
        >>> import fusewire as fw
        >>> fw.seed() == fw.initial_seed()
        True
    """
    return default().seed()


def initial_seed() -> int:
    """The seed of the default generator, from 0 to 2**64 - 1.

    Example:
        >>> import fusewire as fw
        >>> _ = fw.manual_seed(7)
        >>> fw.initial_seed()
        7
    """
    return default().initial_seed()


def get_rng_state() -> Tensor:
    """A copy of the default generator's state: [seed, counter], int64.

    Example:
        >>> import fusewire as fw
        >>> _ = fw.manual_seed(7)
        >>> fw.get_rng_state()
        tensor([7, 0])
    """
    return default().get_state()


def set_rng_state(state: Tensor) -> None:
    """Continues the default generator from a state that `get_rng_state` returned.

    Raises:
        ShapeError: the state is not a vector of two int64.

    Example:
        >>> import fusewire as fw
        >>> state = fw.get_rng_state()
        >>> first = fw.rand(2)
        >>> fw.set_rng_state(state)
        >>> bool((fw.rand(2) == first).all())
        True
    """
    default().set_state(state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """A context that restores the state of the default generator at its end.

    Args:
        devices: without effect; PyTorch has a generator for each device. Default None.
        enabled: False restores nothing. Default True.

    Example:
        >>> import fusewire as fw
        >>> state = fw.get_rng_state()
        >>> with fw.fork_rng():
        ...     x = fw.rand(2)
        >>> bool((fw.get_rng_state() == state).all())
        True
    """
    before = default().get_state()
    try:
        yield
    finally:
        if enabled:
            default().set_state(before)


def drawn_from(generator: Generator | None, device: Any) -> Tensor:
    """The state from which to draw numbers on a device: that of a generator, which advances.

    A generator of a GPU draws the numbers of the CPU, on the GPU.
    """
    if not isinstance(generator, (Generator, type(None))):
        raise DTypeError(f"a generator is a fw.Generator or None, not {generator!r:.80}")
    owner = generator or default()
    state = owner.next()
    target = owner.device if device is None and owner.device != CPU else resolve_device(device)
    return state if target == CPU else transfer(state, target)


def rand(*shape: Any, dtype: Any = None, generator: Generator | None = None,
         device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of `shape` with uniform random numbers from [0, 1).

    Args:
        shape: sizes of the axes, as a tuple or as several arguments.
        dtype: of the result, a real float. Default float32.
        generator: the source of random numbers. Default None: the default generator.
        device: of the result. Default: that of the generator, else the current device.
        requires_grad: True makes the result a leaf whose gradient `backward` computes.

    Raises:
        DTypeError: `dtype` is not a real float.
        ShapeError: a size is negative or not a whole number.

    Example:
        >>> import fusewire as fw
        >>> x = fw.rand(2, 3)
        >>> x.shape, bool((x >= 0).all()), bool((x < 1).all())
        ((2, 3), True, True)
    """
    sizes = check_sizes(shape[0] if len(shape) == 1 else shape, "rand")
    state = drawn_from(generator, device)
    out = apply(uniform_op, (state,), {"shape": sizes, "dtype": float_dtype("rand", dtype)})
    return out.requires_grad_() if requires_grad else out


def float_dtype(name: str, dtype: Any) -> Any:
    """The dtype of real random numbers; DTypeError for another kind."""
    chosen = dtypes.as_dtype(dtypes.DEFAULT_FLOAT if dtype is None else dtype)
    dtypes.require_computed(name, chosen)
    if dtypes.kind(chosen) != "f":
        raise DTypeError(f"{name}: numbers from 0 to 1 are real floating point, not {chosen.name}"
                         if name == "rand" else
                         f"{name}: its numbers are real floating point, not {chosen.name}",
                         "fw.randint draws integers")
    return chosen


@names_itself
def rand_like(x: Tensor, dtype: Any = None, generator: Generator | None = None,
              device: Any = None, *, requires_grad: bool = False) -> Tensor:
    """Uniform random numbers from [0, 1), of the shape of `x`.

    Args:
        dtype: of the result, a real float. Default: that of `x`.
        generator: the source of random numbers. Default None: the default generator.
        device: of the result. Default: that of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.rand_like(fw.zeros(2, 3)).shape
        (2, 3)
    """
    x = as_tensor("rand_like", x)
    return rand(x.shape, dtype=dtype or x.dtype, generator=generator, device=device or x.device,
                requires_grad=requires_grad)


def randn(*shape: Any, dtype: Any = None, generator: Generator | None = None,
          device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of `shape` with standard normal random numbers, by Box and Muller's transform.

    The parameters and errors are those of `rand`.

    Example:
        >>> import fusewire as fw
        >>> fw.randn(2, 3).shape
        (2, 3)
    """
    sizes = check_sizes(shape[0] if len(shape) == 1 else shape, "randn")
    chosen = float_dtype("randn", dtype)
    drawn = dtypes.float64 if chosen == dtypes.float64 else dtypes.float32
    if interpreter.in_use or math.prod(sizes) < LARGE:
        u, v = (rand(sizes, dtype=drawn, generator=generator, device=device) for _ in range(2))
        out = box_muller(pointwise, u, v)
    else:  # in one pass over memory
        state, _ = (drawn_from(generator, device) for _ in range(2))  # the op uses both
        out = apply(normal_op, (state,), {"shape": sizes, "dtype": drawn})
    out = cast(out, chosen)
    return out.requires_grad_() if requires_grad else out


@names_itself
def randn_like(x: Tensor, dtype: Any = None, generator: Generator | None = None,
               device: Any = None, *, requires_grad: bool = False) -> Tensor:
    """Standard normal random numbers of the shape of `x`; the parameters are those of `rand_like`.

    Example:
        >>> import fusewire as fw
        >>> fw.randn_like(fw.zeros(2, 3)).shape
        (2, 3)
    """
    x = as_tensor("randn_like", x)
    return randn(x.shape, dtype=dtype or x.dtype, generator=generator, device=device or x.device,
                 requires_grad=requires_grad)


def randint(low: int, high: Any = None, size: Any = (), generator: Generator | None = None,
            dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of shape `size` with uniform random integers from low to high - 1.

    Args:
        low: the smallest integer. With `high` None, integers go from 0 to low - 1.
        high: the end, which is not drawn. Default None. A tuple is the size: randint(10, (3,)).
        size: of the result. Default (): a 0-d tensor.
        generator: the source of random numbers. Default None: the default generator.
        dtype: of the result, an integer. Default int64.
        device: of the result. Default: that of the generator, else the current device.

    Raises:
        ShapeError: `low` is not below `high`.
        DTypeError: `dtype` is not an integer dtype, or does not hold the range.

    Example:
        >>> import fusewire as fw
        >>> bool((fw.randint(1, 7, (100,)) <= 6).all())
        True
    """
    if isinstance(high, (tuple, list)):
        high, size = None, high
    low = check_whole("randint", "low", low)
    low, high = (0, low) if high is None else (low, check_whole("randint", "high", high))
    if not low < high:
        raise ShapeError(f"randint: there are no whole numbers from {low} to below {high}",
                         "give the lower limit first; the upper one is left out")
    chosen = dtypes.as_dtype(dtypes.DEFAULT_INT if dtype is None else dtype)
    if chosen.kind not in "iu":
        raise DTypeError(f"randint: draws integers, not {chosen.name}",
                         "use fw.rand, or cast: fw.randint(...).astype(dtype)")
    limits = np.iinfo(chosen)
    if low < limits.min or high - 1 > limits.max:
        raise DTypeError(f"randint: {chosen.name} does not hold all of {low} to {high - 1}",
                         f"it goes from {limits.min} to {limits.max}")
    state = drawn_from(generator, device)
    return apply(randint_op, (state,), {"shape": check_sizes(size, "randint"), "dtype": chosen,
                                        "low": low, "count": high - low})


@names_itself
def randint_like(x: Tensor, low: int, high: int | None = None, dtype: Any = None,
                 generator: Generator | None = None) -> Tensor:
    """Uniform random integers from low to high - 1, of the shape of `x`.

    The parameters are those of `randint`; `dtype` is that of `x` by default, or int64 for floats.

    Example:
        >>> import fusewire as fw
        >>> fw.randint_like(fw.zeros(2, 3), 10).shape
        (2, 3)
    """
    x = as_tensor("randint_like", x)
    own_dtype = x.dtype if x.dtype.kind in "iu" else None
    return randint(low, high, x.shape, generator, dtype or own_dtype, x.device)


@names_itself
def randperm(n: int, generator: Generator | None = None, dtype: Any = None, device: Any = None
             ) -> Tensor:
    """The integers from 0 to n - 1 in random order, as a vector.

    Args:
        n: the number of integers.
        generator: the source of random numbers. Default None: the default generator.
        dtype: of the result. Default int64.
        device: of the result. Default: that of the generator, else the current device.

    Example:
        >>> import fusewire as fw
        >>> fw.randperm(5).sort()
        tensor([0, 1, 2, 3, 4])
    """
    check_whole("randperm", "n", n, 0)
    draws = rand(n, dtype=dtypes.float64, generator=generator, device=device)
    return cast(argsort(draws), dtypes.as_dtype(dtypes.DEFAULT_INT if dtype is None else dtype))


# ---- methods that fill a tensor
def uniform_(self: Tensor, low: float = 0.0, high: float = 1.0, *,
             generator: Generator | None = None) -> Tensor:
    """This tensor, filled with uniform random numbers from `low` (default 0) to `high` (default 1).

    Example:
        >>> import fusewire as fw
        >>> x = fw.zeros(100).uniform_(2.0, 3.0)
        >>> bool((x >= 2).all()), bool((x <= 3).all())
        (True, True)
    """
    check_number("uniform_", "low", low), check_number("uniform_", "high", high)
    return replace(self, scaled(rand_like(self, generator=generator), high - low, low))


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *,
            generator: Generator | None = None) -> Tensor:
    """This tensor, filled with normal random numbers; `mean` is 0 and `std` 1 by default.

    Example:
        >>> import fusewire as fw
        >>> fw.zeros(2, 3).normal_().shape
        (2, 3)
    """
    check_number("normal_", "mean", mean), check_at_least("normal_", "std", std, 0)
    return replace(self, scaled(randn_like(self, generator=generator), std, mean))


def bernoulli_(self: Tensor, p: float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """This tensor, filled with 1 with probability `p` (default 0.5), else with 0.

    Example:
        >>> import fusewire as fw
        >>> fw.zeros(3).bernoulli_(1.0)
        tensor([1., 1., 1.])
    """
    check_fraction("bernoulli_", "p", p)
    drawn = rand(self.shape, generator=generator, device=self.device)
    return replace(self, cast(drawn < p, self.dtype))
