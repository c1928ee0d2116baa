"""Draws random numbers as a pure function of (seed, counter, index): Philox4x32-10.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Each call of a
random op uses one value of the generator's counter. Element i of its result takes word w of the
block at position b. The two 64-bit halves of Philox's counter are (b, counter), its key is the
seed, and

    b = 16 * (i // 64) + i % 16        w = i % 64 // 16

so that 16 neighbours use the same word of 16 neighbouring blocks. Vector code therefore needs no
shuffles, and the numbers are equal eager, compiled, on every device and in every fusion. Numbers
that need more than one word also take word w of the blocks at b + 2**62, b + 2**61 and
b + 2**62 + 2**61. An op with a second input, [n], skips the first 64 * n numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import cpu_kernels, dtypes
from ...arrays.shapes import TensorType
from ...core.op import Op, define
from ..shape.view import flatten_index

LANES, WORDS = 16, 4  # neighbours with the same word, and words of a block
GROUP = LANES * WORDS  # neighbours that take all words of some blocks
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
    """A uniform number in [0, 1), with as many random bits as its dtype holds."""
    if dtype.itemsize <= 4:
        (word,) = _words(k, index, state, before, shape, 1)
        bits = _bits(dtype)
        return k.cast(word >> (32 - bits), dtype) * 2.0 ** -bits
    high, low = _words(k, index, state, before, shape, 2)
    return (k.cast(high >> 5, dtype) * 2.0 ** 26 + k.cast(low >> 6, dtype)) * 2.0 ** -53


def _bits(dtype: Any) -> int:
    """The number of random bits that a number below 1 of this dtype can hold."""
    return {dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}[dtype]


_STARTS = (0, 2 ** 62, 2 ** 61, 2 ** 62 + 2 ** 61)  # of the first, second, ... word of an element


def _words(k: Any, index: Any, state: Any, before: Any, shape: Any, count: int) -> list[Any]:
    """The first `count` random words of the element at `index`.

    `before`: if present, the number of groups of 64 elements before the first one.
    """
    flat = flatten_index(index, shape)
    block = flat // GROUP * LANES + flat % LANES
    for groups in before:
        block = groups(0) * LANES + block
    word = k.cast(flat % GROUP // LANES, np.dtype("uint32"))
    return [_word(k, block + start, state(1), state(0), word) for start in _STARTS[:count]]


def _word(k: Any, block: Any, counter: Any, seed: Any, word: Any) -> Any:
    u32 = np.dtype("uint32")
    halves = [k.cast(part, u32) for v in (block, counter, seed) for part in (v & _LOW, v >> 32)]
    a, b, c, d = philox(k, halves[:4], halves[4:])
    return k.where(word == 0, a, k.where(word == 1, b, k.where(word == 2, c, d)))


class _Words:
    """Runs `philox` on whole arrays, for eager tensors."""

    @staticmethod
    def mulhi(x: Any, y: int) -> Any:
        return ((x.astype(np.uint64) * np.uint64(y)) >> np.uint64(32)).astype(np.uint32)


_BLOCKS_PER_PASS = 1 << 13  # the data of a round stays in the innermost caches


def blocks(xp: Any, seed: int, counter: int, positions: Any) -> Any:
    """The words of the blocks at `positions`, as an array (4, len(positions))."""
    count = len(positions)
    out = xp.empty((4, count), np.uint32)
    key = [np.uint32(half) for half in _halves(seed)]
    step = _BLOCKS_PER_PASS if xp is cpu_kernels else max(count, 1)  # a GPU takes all at once
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
    """The `_words` of all elements, as arrays of `shape`."""
    size = int(np.prod(shape, dtype=np.int64))
    seed, counter = int(state[0]), int(state[1])
    positions = xp.arange(-(-size // GROUP) * LANES, dtype=np.int64)
    for groups in before:
        positions += groups[0] * LANES

    def words(start: int) -> Any:
        grouped = blocks(xp, seed, counter, positions + start).reshape(WORDS, -1, LANES)
        return grouped.transpose(1, 0, 2).reshape(-1)[:size].reshape(shape)

    return [words(start) for start in _STARTS[:count]]


def _uniform_impl(xp: Any, state: Any, *before: Any, shape: Any, dtype: Any) -> Any:
    if dtype.itemsize <= 4:
        bits = _bits(dtype)
        (word,) = _all_words(xp, state, before, shape, 1)
        return (word >> (32 - bits)).astype(dtype) * dtype.type(2.0 ** -bits)
    high, low = _all_words(xp, state, before, shape, 2)
    return ((high >> 5).astype(dtype) * 2.0 ** 26 + (low >> 6).astype(dtype)) * 2.0 ** -53


_WHY = {"vjp": "does not depend on its input smoothly",
        "onnx": "a model would draw other random numbers; dropout does nothing in eval mode"}
uniform_op = define(Op(
    "uniform", "create", lambda state, *before, shape, dtype: TensorType(tuple(shape), dtype),
    _uniform_impl, _uniform_value, why=_WHY, draws=True, same_bits=True))


# ---- normal numbers
def box_muller(k: Any, u: Any, v: Any) -> Any:
    """A standard normal number from two uniform ones; `k` has log, sqrt and cos."""
    return k.sqrt(k.log(1 - u) * -2.0) * k.cos(v * (2 * np.pi))


def _normal_value(k: Any, index: Any, state: Any, *before: Any, shape: Any, dtype: Any) -> Any:
    """A standard normal number, from the uniform numbers of a state and of the next one."""
    u, v = (_uniform_value(k, index, s, *before, shape=shape, dtype=dtype)
            for s in (state, lambda half: state(half) + half))
    return box_muller(k, u, v)


def _normal_impl(xp: Any, state: Any, *before: Any, shape: Any, dtype: Any) -> Any:
    u, v = (_uniform_impl(xp, (state[0], state[1] + step), *before, shape=shape, dtype=dtype)
            for step in (0, 1))
    return box_muller(xp, u, v)


normal_op = define(Op(
    "normal", "create", lambda state, *before, shape, dtype: TensorType(tuple(shape), dtype),
    _normal_impl, _normal_value, why=_WHY, draws=True))


# ---- whole numbers
def _scaled(words: list[Any], count: int, const: Any) -> Any:
    """floor(count * r), where `words` are the digits of the fraction r < 1 to the base 2**32.

    It multiplies digit by digit in uint64, which cannot overflow. `words` are uint64.
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
    """The number of words for a uniform choice among `count` numbers: 32 bits more than needed."""
    return 2 if count <= 2 ** 32 else 4


def _randint_value(k: Any, index: Any, state: Any, *before: Any, shape: Any, dtype: Any, low: int,
                   count: int) -> Any:
    u64 = np.dtype("uint64")
    words = [k.cast(w, u64) for w in _words(k, index, state, before, shape, _digits(count))]
    drawn = k.cast(_scaled(words, count, lambda v: k.const(v, u64)), dtypes.int64)
    return k.cast(drawn + signed(low), dtype)


def _randint_impl(xp: Any, state: Any, *before: Any, shape: Any, dtype: Any, low: int, count: int
                  ) -> Any:
    words = [w.astype(np.uint64) for w in _all_words(xp, state, before, shape, _digits(count))]
    drawn = _scaled(words, count, np.uint64).astype(np.int64)
    return (drawn + np.int64(signed(low))).astype(dtype)


def signed(value: int) -> int:
    """The int64 with the lowest 64 bits of `value`."""
    return (value + 2 ** 63) % 2 ** 64 - 2 ** 63


randint_op = define(Op(
    "randint", "create",
    lambda state, *before, shape, dtype, low, count: TensorType(tuple(shape), dtype),
    _randint_impl, _randint_value, why=_WHY, draws=True, same_bits=True))
