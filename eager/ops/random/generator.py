"""Random numbers as a pure function of (seed, counter, index): Philox4x32-10.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Every call of a
random op uses one value of the generator's counter. Element i of its result takes word w of the
block at position b, both 64-bit halves of Philox's counter being (b, counter) and its key the seed,
where

    b = 16 * (i // 64) + i % 16        w = i % 64 // 16

so that 16 neighbours use the same word of 16 neighbouring blocks: vectors need no shuffles, and the
numbers are the same eager, compiled, on every device and in every fusion. Numbers that need more
than one word take word w of the blocks at b + 2**62, b + 2**61 and b + 2**62 + 2**61 too. An op
with a second input, [n], leaves out the first 64 * n numbers.

What is made of these numbers stands in `distributions.py`, what users rely on in docs/random.md.
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
from ...arrays import cpu_kernels, dtypes
from ...arrays.devices import CPU, placed
from ...arrays.memory import is_whole
from ...arrays.shapes import TensorType
from ...core.dispatch import apply, replace
from ...core.op import Op, define
from ...core.tape import with_tape
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError
from ..create import _shape
from ..declare import cast
from ..indexing.sort import argsort
from ..shape.view import flatten_index
from ..transfer import transfer

__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed",
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed",
    "set_rng_state",
]

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


def _uniform_value(k: Any, index: Any, state: Any, *before: Any, shape: Any, dtype: Any) -> Any:
    """One number in [0, 1), as even as its dtype allows."""
    if dtype.itemsize <= 4:
        (word,) = _words(k, index, state, before, shape, 1)
        bits = _bits(dtype)
        return k.cast(word >> (32 - bits), dtype) * 2.0 ** -bits
    high, low = _words(k, index, state, before, shape, 2)
    return (k.cast(high >> 5, dtype) * 2.0 ** 26 + k.cast(low >> 6, dtype)) * 2.0 ** -53


def _bits(dtype: Any) -> int:
    """As many random bits as a number below 1 of this dtype can hold."""
    return {dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}[dtype]


_STARTS = (0, 2 ** 62, 2 ** 61, 2 ** 62 + 2 ** 61)  # of the first, second, ... word of an element


def _words(k: Any, index: Any, state: Any, before: Any, shape: Any, count: int) -> list[Any]:
    """The first `count` random words of the element at `index`, `before` which stand that many
    times 64 others, where it is given."""
    flat = flatten_index(index, shape)
    block = flat // 64 * 16 + flat % 16
    for groups in before:
        block = groups(0) * 16 + block
    word = k.cast(flat % 64 // 16, np.dtype("uint32"))
    return [_word(k, block + start, state(1), state(0), word) for start in _STARTS[:count]]


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


_CHUNK = 1 << 13  # blocks at a time: what a round reads and writes stays in the innermost caches


def _blocks(xp: Any, seed: int, counter: int, positions: Any) -> Any:
    """The words of the blocks at `positions`, as an array (4, len(positions))."""
    count = len(positions)
    out = xp.empty((4, count), np.uint32)
    key = [np.uint32(half) for half in _halves(seed)]
    step = _CHUNK if xp is cpu_kernels else max(count, 1)  # a GPU has all of them at once
    with np.errstate(over="ignore"):
        for start in range(0, count, step):
            at = positions[start:start + step]
            words = [(at & _LOW).astype(np.uint32), (at >> 32).astype(np.uint32)]
            words += [xp.full(len(at), half, np.uint32) for half in _halves(counter)]
            for row, word in enumerate(philox(_Words, words, key)):
                out[row, start:start + step] = word
    return out


def _halves(value: int) -> tuple[int, int]:
    return value & _LOW, (value >> 32) & _LOW


def _all_words(xp: Any, state: Any, before: Any, shape: Any, count: int) -> list[Any]:
    """`_words` of all elements at once, as arrays of `shape`."""
    size = int(np.prod(shape, dtype=np.int64))
    seed, counter = int(state[0]), int(state[1])
    positions = xp.arange(-(-size // 64) * 16, dtype=np.int64)
    for groups in before:
        positions += groups[0] * 16

    def words(start: int) -> Any:
        blocks = _blocks(xp, seed, counter, positions + start).reshape(4, -1, 16)
        return blocks.transpose(1, 0, 2).reshape(-1)[:size].reshape(shape)

    return [words(start) for start in _STARTS[:count]]


def _uniform_impl(xp: Any, state: Any, *before: Any, shape: Any, dtype: Any) -> Any:
    if dtype.itemsize <= 4:
        bits = _bits(dtype)
        (word,) = _all_words(xp, state, before, shape, 1)
        return (word >> (32 - bits)).astype(dtype) * dtype.type(2.0 ** -bits)
    high, low = _all_words(xp, state, before, shape, 2)
    return ((high >> 5).astype(dtype) * 2.0 ** 26 + (low >> 6).astype(dtype)) * 2.0 ** -53


_WHY = {"vjp": "does not depend on its input smoothly",
        "onnx": "a model's random numbers would not be these; dropout is left out in eval mode"}
uniform_op = define(Op(
    "uniform", "create", lambda state, *before, shape, dtype: TensorType(tuple(shape), dtype),
    _uniform_impl, _uniform_value, why=_WHY, draws=True))


# ---- whole numbers
def _scaled(words: list[Any], count: int, const: Any) -> Any:
    """floor(count * r), for the fraction r < 1 whose digits to the base 2**32 are `words`.

    Multiplied by hand, digit by digit, in uint64 that never overflow: `words` are uint64.
    """
    digits = [const(0)] * (len(words) + 3)  # of the product, the lowest digit first
    for i, factor in enumerate((count & _LOW, (count >> 32) & _LOW, count >> 64)):
        carry = const(0)
        for j, word in enumerate(reversed(words)):
            total = word * factor + digits[i + j] + carry
            digits[i + j], carry = total & _LOW, total >> 32
        digits[i + len(words)] = carry
    return digits[len(words)] + (digits[len(words) + 1] << 32)


def _digits(count: int) -> int:
    """How many words an even choice among `count` numbers takes: 32 bits more than it needs."""
    return 2 if count <= 2 ** 32 else 4


def _randint_value(k: Any, index: Any, state: Any, *before: Any, shape: Any, dtype: Any, low: int,
                   count: int) -> Any:
    u64 = np.dtype("uint64")
    words = [k.cast(w, u64) for w in _words(k, index, state, before, shape, _digits(count))]
    drawn = k.cast(_scaled(words, count, lambda v: k.const(v, u64)), dtypes.int64)
    return k.cast(drawn + _signed(low), dtype)


def _randint_impl(xp: Any, state: Any, *before: Any, shape: Any, dtype: Any, low: int, count: int
                  ) -> Any:
    words = [w.astype(np.uint64) for w in _all_words(xp, state, before, shape, _digits(count))]
    drawn = _scaled(words, count, np.uint64).astype(np.int64)
    return (drawn + np.int64(_signed(low))).astype(dtype)


def _signed(value: int) -> int:
    """The int64 with the lowest 64 bits of `value`."""
    return (value + 2 ** 63) % 2 ** 64 - 2 ** 63


randint_op = define(Op(
    "randint", "create",
    lambda state, *before, shape, dtype, low, count: TensorType(tuple(shape), dtype),
    _randint_impl, _randint_value, why=_WHY, draws=True))


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
        fresh = interpreter.source(Tensor(np.array([_signed(operator.index(seed)), 0], np.int64)))
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
