"""Random numbers as a pure function of (seed, counter, index): Philox4x32-10.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Every call of a
random op uses one value of the generator's counter. Element i of its result takes word w of the
block at position b, both 64-bit halves of Philox's counter being (b, counter) and its key the seed,
where

    b = 16 * (i // 64) + i % 16        w = i % 64 // 16

so that 16 neighbours use the same word of 16 neighbouring blocks: vectors need no shuffles, and the
numbers are the same eager, compiled, on every device and in every fusion.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import dtypes, interpreter
from ..dispatch import apply, replace
from ..errors import DTypeError, ShapeError
from ..op import Op, define
from ..shapes import TensorType
from ..tape import no_grad
from ..tensor import Tensor, check_device
from .create import _shape
from .view import flatten_index

__all__ = ["Generator", "fork_rng", "manual_seed", "rand", "randint", "randn", "randperm"]

_MULTIPLY = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def philox(k: Any, block: list[Any], key: list[Any]) -> list[Any]:
    """The four uint32 words of a block, over any builder that has `mulhi` of uint32."""
    a, b, c, d = block
    k0, k1 = key
    for _ in range(10):
        hi0, lo0 = k.mulhi(a, _MULTIPLY[0]), a * _MULTIPLY[0]
        hi1, lo1 = k.mulhi(c, _MULTIPLY[1]), c * _MULTIPLY[1]
        a, b, c, d = hi1 ^ b ^ k0, lo1, hi0 ^ d ^ k1, lo0
        k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return [a, b, c, d]


def _uniform_value(k: Any, index: Any, state: Any, shape: Any, dtype: Any) -> Any:
    """One number in [0, 1): 11 random bits for float16, 24 for float32, 53 for float64."""
    flat = flatten_index(index, shape)
    block = flat // 64 * 16 + flat % 16
    word = k.cast(flat % 64 // 16, np.dtype("uint32"))
    seed, counter = state(0), state(1)
    if dtype.itemsize <= 4:
        bits = _bits(dtype)
        return k.cast(_word(k, block, counter, seed, word) >> (32 - bits), dtype) * 2.0 ** -bits
    high = _word(k, block, counter, seed, word) >> 5
    low = _word(k, block + 2 ** 62, counter, seed, word) >> 6
    return (k.cast(high, dtype) * 2.0 ** 26 + k.cast(low, dtype)) * 2.0 ** -53


def _bits(dtype: Any) -> int:
    return 24 if dtype.itemsize == 4 else 11  # as many as a number below 1 can hold


def _word(k: Any, block: Any, counter: Any, seed: Any, word: Any) -> Any:
    u32 = np.dtype("uint32")
    halves = [k.cast(part, u32) for v in (block, counter, seed) for part in (v & _LOW, v >> 32)]
    a, b, c, d = philox(k, halves[:4], halves[4:])
    return k.where(word == 0, a, k.where(word == 1, b, k.where(word == 2, c, d)))


class _Words:
    """The builder that runs `philox` on whole arrays, for eager tensors."""

    @staticmethod
    def mulhi(x: Any, y: int) -> Any:
        return ((x.astype(np.uint64) * np.uint64(y)) >> np.uint64(32)).astype(np.uint32)


def _blocks(seed: int, counter: int, positions: Any) -> Any:
    """The words of the blocks at `positions`, as an array (4, len(positions))."""
    u32 = np.uint32
    words = [(positions & _LOW).astype(u32), (positions >> 32).astype(u32)]
    words += [np.full(len(positions), half, u32) for half in _halves(counter)]
    key = [np.asarray([half], u32) for half in _halves(seed)]
    return np.stack(philox(_Words, words, key))


def _halves(value: int) -> tuple[int, int]:
    return value & _LOW, (value >> 32) & _LOW


def _uniform_impl(xp: Any, state: Any, shape: Any, dtype: Any) -> Any:
    size = int(np.prod(shape, dtype=np.int64))
    seed, counter = int(state[0]), int(state[1])
    positions = np.arange(-(-size // 64) * 16, dtype=np.int64)

    def bits(start: int) -> Any:
        words = _blocks(seed, counter, positions + start).reshape(4, -1, 16)
        return words.transpose(1, 0, 2).reshape(-1)[:size].reshape(shape)

    if dtype.itemsize <= 4:
        kept = _bits(dtype)
        return (bits(0) >> (32 - kept)).astype(dtype) * dtype.type(2.0 ** -kept)
    high, low = (bits(0) >> 5).astype(dtype), (bits(2 ** 62) >> 6).astype(dtype)
    return (high * 2.0 ** 26 + low) * 2.0 ** -53


uniform_op = define(Op(
    "uniform", "create", lambda state, shape, dtype: TensorType(tuple(shape), dtype),
    _uniform_impl, _uniform_value,
    why={"vjp": "does not depend on its input smoothly",
         "onnx": "a model's random numbers would not be these; dropout is left out in eval mode"}))


class Generator:
    """The state of a stream of random numbers: a tensor [seed, counter] of int64."""

    def __init__(self, seed: int = 0) -> None:
        self.state = Tensor(np.array([0, 0], np.int64))
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """This generator, put to the start of the stream that belongs to `seed`."""
        if isinstance(seed, float) or not hasattr(seed, "__index__"):
            raise DTypeError(f"manual_seed: a seed is a whole number, not {seed!r:.80}",
                             "any int is taken, by its lowest 64 bits")
        signed = ((operator.index(seed) + 2 ** 63) % 2 ** 64) - 2 ** 63
        fresh = interpreter.source(Tensor(np.array([signed, 0], np.int64)))
        replace(self.state, fresh)
        return self

    def next(self) -> Tensor:
        """The present state, for one random op; the counter moves on."""
        now = Tensor(self.state.data)
        with no_grad():
            replace(self.state, self.state + _one_step())
        return now

    def get_state(self) -> Tensor:
        """A copy of the state."""
        return Tensor(self.state.data)

    def set_state(self, state: Tensor) -> None:
        """Goes on from a state that `get_state` gave."""
        if state.shape != (2,) or state.dtype != dtypes.int64:
            raise ShapeError(f"set_state: takes a state (2,) of int64, got {state.shape} of "
                             f"{state.dtype.name}", "get_state() gives one")
        replace(self.state, state)


def _one_step() -> Tensor:
    return interpreter.source(Tensor(np.array([0, 1], np.int64)))  # type: ignore[no-any-return]


default_generator = Generator(int.from_bytes(os.urandom(4), "little"))


def manual_seed(seed: int) -> Generator:
    """Puts the default generator to the start of the stream that belongs to `seed`.

    >>> import fusewire as fw
    >>> _ = fw.manual_seed(3)
    >>> first = fw.rand(2)
    >>> _ = fw.manual_seed(3)
    >>> bool((fw.rand(2) == first).all())
    True
    """
    return default_generator.manual_seed(seed)


@contextlib.contextmanager
def fork_rng() -> Iterator[None]:
    """A context whose random numbers leave the default generator as it was."""
    before = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(before)


def rand(*shape: Any, dtype: Any = None, generator: Generator | None = None,
         device: Any = None) -> Tensor:
    """A tensor of `shape` of numbers drawn evenly from [0, 1)."""
    check_device(device)
    sizes = _shape(shape[0] if len(shape) == 1 else shape, "rand")
    chosen = dtypes.as_dtype(dtype or dtypes.DEFAULT_FLOAT)
    if dtypes.kind(chosen) != "f":
        raise DTypeError(f"rand: numbers from 0 to 1 are real floating point, not {chosen.name}",
                         "fw.randint draws integers")
    state = (generator or default_generator).next()
    return apply(uniform_op, (state,), {"shape": sizes, "dtype": chosen})


def randn(*shape: Any, dtype: Any = None, generator: Generator | None = None,
          device: Any = None) -> Tensor:
    """A tensor of `shape` of normally distributed numbers, by Box and Muller's transform."""
    sizes = _shape(shape[0] if len(shape) == 1 else shape, "randn")
    u, v = (rand(sizes, dtype=dtype, generator=generator, device=device) for _ in range(2))
    radius = ((1 - u).log() * -2.0).sqrt()  # type: ignore[attr-defined]
    return radius * (v * (2 * np.pi)).cos()


def randint(low: int, high: int | None = None, size: Any = (), generator: Generator | None = None
            ) -> Tensor:
    """A tensor of `size` of whole numbers drawn evenly from low to high - 1 (or 0 to low - 1)."""
    if high is None:
        low, high = 0, low
    if not low < high:
        raise ShapeError(f"randint: there are no whole numbers from {low} to below {high}",
                         "give the lower limit first; the upper one is left out")
    draws = rand(size, dtype=dtypes.float64, generator=generator)
    return (draws * (high - low)).floor().astype(dtypes.int64) + low  # type: ignore[attr-defined]


def randperm(n: int, generator: Generator | None = None) -> Tensor:
    """A tensor of the whole numbers from 0 to n - 1 in random order."""
    draws = rand(n, dtype=dtypes.float64, generator=generator)
    order = np.argsort(draws.numpy(), kind="stable")
    return interpreter.source(Tensor(order))  # type: ignore[no-any-return]

