"""Keeps the state of random streams, and draws uniform, normal and integer tensors from it.

`philox.py` says how numbers follow from a state, `distributions.py` has further distributions, and
docs/random.md says what users can rely on.
"""

from __future__ import annotations

import contextlib
import operator
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import interpreter
from ...arrays import dtypes
from ...arrays.devices import CPU, placed
from ...arrays.memory import is_whole
from ...core.dispatch import apply, replace
from ...core.tape import with_tape
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError
from ..create import _shape
from ..declare import cast
from ..indexing.sort import argsort
from ..transfer import transfer
from .philox import randint_op, signed, uniform_op

__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed",
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed",
    "set_rng_state",
]

class Generator:
    """The state of a stream of random numbers: a tensor [seed, counter] of int64."""

    def __init__(self, seed: int = 0, device: Any = None) -> None:
        self.device = placed(device)
        self.state = Tensor(np.array([0, 0], np.int64))
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """This generator, put to the start of the stream that belongs to `seed`."""
        if isinstance(seed, float) or not hasattr(seed, "__index__"):
            raise DTypeError(f"manual_seed: a seed is a whole number, not {seed!r:.80}",
                             "any int is taken, by its lowest 64 bits")
        fresh = interpreter.source(Tensor(np.array([signed(operator.index(seed)), 0], np.int64)))
        replace(self.state, fresh)
        return self

    def next(self) -> Tensor:
        """The present state, for one random op; the counter moves on."""
        now = Tensor(self.state._data)
        with_tape(False, self._move_on)
        return now

    def _move_on(self) -> None:
        replace(self.state, self.state + _one_step())

    def get_state(self) -> Tensor:
        """A copy of the state."""
        return Tensor(self.state._data)

    def set_state(self, state: Tensor) -> None:
        """Goes on from a state that `get_state` gave."""
        if state.shape != (2,) or state.dtype != dtypes.int64:
            raise ShapeError(f"set_state: takes a state (2,) of int64, got {state.shape} of "
                             f"{state.dtype.name}", "get_state() gives one")
        replace(self.state, state.cpu() if state.is_cuda else state)

    def initial_seed(self) -> int:
        """The seed that the stream belongs to, as a number from 0 to 2**64 - 1."""
        return int(self.state.tolist()[0]) % 2 ** 64

    def seed(self) -> int:
        """A seed from the operating system, to whose stream this generator is put."""
        drawn = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(drawn)
        return drawn

    def clone(self) -> Generator:
        """A generator of its own in the same state: both give the same numbers."""
        copy = Generator(device=self.device)
        copy.set_state(self.get_state())
        return copy

    def split(self, n: int = 2) -> list[Generator]:
        """`n` generators whose streams are independent of each other and of this one.

        Their seeds are drawn from this generator, which moves on by one call.

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
    return interpreter.source(Tensor(np.array([0, 1], np.int64)))  # type: ignore[no-any-return]


default_generator = Generator(int.from_bytes(os.urandom(4), "little"))


class _Own(threading.local):
    """The generator that stands in the place of the default one in this thread, if any."""

    generator: Generator | None = None


OWN = _Own()


def default() -> Generator:
    """The generator of what is drawn without one: a loader's threads have their own."""
    return OWN.generator or default_generator


def manual_seed(seed: int) -> Generator:
    """Puts the default generator to the start of the stream that belongs to `seed`.

    >>> import fusewire as fw
    >>> _ = fw.manual_seed(3)
    >>> first = fw.rand(2)
    >>> _ = fw.manual_seed(3)
    >>> bool((fw.rand(2) == first).all())
    True
    """
    return default().manual_seed(seed)


def seed() -> int:
    """A seed from the operating system, to whose stream the default generator is put."""
    return default().seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default().initial_seed()


def get_rng_state() -> Tensor:
    """A copy of the default generator's state."""
    return default().get_state()


def set_rng_state(state: Tensor) -> None:
    """Makes the default generator go on from a state that `get_rng_state` gave."""
    default().set_state(state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """A context that leaves the default generator as it was, whatever happens inside.

    `devices` is there for programs written for PyTorch: only the CPU has a generator.
    """
    before = default().get_state()
    try:
        yield
    finally:
        if enabled:
            default().set_state(before)


def drawn_from(generator: Generator | None, device: Any) -> Tensor:
    """The state that numbers on a device are drawn from: a generator's, which moves on.

    A generator of a GPU is for numbers there, which are those of the CPU.
    """
    owner = generator or default()
    state = owner.next()
    target = owner.device if device is None and owner.device != CPU else placed(device)
    return state if target == CPU else transfer(state, target)


def rand(*shape: Any, dtype: Any = None, generator: Generator | None = None,
         device: Any = None) -> Tensor:
    """A tensor of `shape` of numbers drawn evenly from [0, 1)."""
    sizes = _shape(shape[0] if len(shape) == 1 else shape, "rand")
    state = drawn_from(generator, device)
    return apply(uniform_op, (state,), {"shape": sizes, "dtype": float_dtype("rand", dtype)})


def scaled(draws: Tensor, factor: float, offset: float) -> Tensor:
    """draws * factor + offset, of a tensor that nobody else has: eagerly in its own memory, by
    NumPy however large it is, as two kinds of code would take longer to make than to use once."""
    if interpreter.in_use or draws.edge is not None:
        return draws * factor + offset
    array = draws._data
    number = array.dtype.type
    product = np.multiply(array, number(factor), out=array if is_whole(array) else None)
    return Tensor(np.add(product, number(offset), out=product))


def float_dtype(name: str, dtype: Any) -> Any:
    """The dtype of random numbers that are real; DTypeError for another kind."""
    chosen = dtypes.as_dtype(dtypes.DEFAULT_FLOAT if dtype is None else dtype)
    if dtypes.kind(chosen) != "f":
        raise DTypeError(f"{name}: numbers from 0 to 1 are real floating point, not {chosen.name}"
                         if name == "rand" else
                         f"{name}: its numbers are real floating point, not {chosen.name}",
                         "fw.randint draws integers")
    return chosen


def rand_like(x: Tensor, dtype: Any = None, generator: Generator | None = None,
              device: Any = None) -> Tensor:
    """Numbers drawn evenly from [0, 1), with the shape, dtype and device of `x`."""
    return rand(x.shape, dtype=dtype or x.dtype, generator=generator, device=device or x.device)


def randn(*shape: Any, dtype: Any = None, generator: Generator | None = None,
          device: Any = None) -> Tensor:
    """A tensor of `shape` of normally distributed numbers, by Box and Muller's transform."""
    sizes = _shape(shape[0] if len(shape) == 1 else shape, "randn")
    chosen = float_dtype("randn", dtype)
    drawn = dtypes.float64 if chosen == dtypes.float64 else dtypes.float32
    u, v = (rand(sizes, dtype=drawn, generator=generator, device=device) for _ in range(2))
    radius = ((1 - u).log() * -2.0).sqrt()  # type: ignore[attr-defined]
    return cast(radius * (v * (2 * np.pi)).cos(), chosen)


def randn_like(x: Tensor, dtype: Any = None, generator: Generator | None = None,
               device: Any = None) -> Tensor:
    """Normally distributed numbers, with the shape, dtype and device of `x`."""
    return randn(x.shape, dtype=dtype or x.dtype, generator=generator, device=device or x.device)


def randint(low: int, high: int | None = None, size: Any = (), generator: Generator | None = None,
            dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `size` of whole numbers drawn evenly from low to high - 1 (or 0 to low - 1).

    >>> import fusewire as fw
    >>> bool((fw.randint(1, 7, (100,)) <= 6).all())
    True
    """
    if high is None:
        low, high = 0, low
    low, high = operator.index(low), operator.index(high)
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
    return apply(randint_op, (state,), {"shape": _shape(size, "randint"), "dtype": chosen,
                                        "low": low, "count": high - low})


def randint_like(x: Tensor, low: int, high: int | None = None, dtype: Any = None,
                 generator: Generator | None = None) -> Tensor:
    """Whole numbers drawn evenly from low to high - 1, with the shape of `x`; int64 by default."""
    own_dtype = x.dtype if x.dtype.kind in "iu" else None
    return randint(low, high, x.shape, generator, dtype or own_dtype, x.device)


def randperm(n: int, generator: Generator | None = None, dtype: Any = None, device: Any = None
             ) -> Tensor:
    """A tensor of the whole numbers from 0 to n - 1 in random order."""
    draws = rand(n, dtype=dtypes.float64, generator=generator, device=device)
    return cast(argsort(draws), dtypes.as_dtype(dtypes.DEFAULT_INT if dtype is None else dtype))


# ---- methods that fill a tensor
def uniform_(self: Tensor, low: float = 0.0, high: float = 1.0, *,
             generator: Generator | None = None) -> Tensor:
    """This tensor, filled with numbers drawn evenly from `low` to `high`."""
    return replace(self, scaled(rand_like(self, generator=generator), high - low, low))


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *,
            generator: Generator | None = None) -> Tensor:
    """This tensor, filled with normal numbers."""
    return replace(self, scaled(randn_like(self, generator=generator), std, mean))


def bernoulli_(self: Tensor, p: float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """This tensor, filled with 1 with probability `p` and 0 otherwise."""
    drawn = rand(self.shape, generator=generator, device=self.device)
    return replace(self, cast(drawn < p, self.dtype))
