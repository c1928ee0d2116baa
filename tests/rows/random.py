"""Rows of the random ops beside `uniform`: the documented method, one number after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rows.create import philox
from rows.row import Array, Bad, f4, f8, row

import fusewire as fw
from fusewire.eager.ops.random import count_distributions
from fusewire.eager.ops.random import generator as random

_STATES = [lambda rng: (np.array([7, 3]),), lambda rng: (np.array([-2 ** 63, 2 ** 40 + 1]),)]


def generator(state: Any) -> Any:
    made = random.Generator()
    made.set_state(state)
    return made


def randint(state: Array, low: int, high: int, shape: Any) -> Array:
    """floor(r * (high - low)) for a fraction r of 64 bits, or of 128 where 32 are not enough."""
    seed, counter = (int(v) % 2 ** 64 for v in state)
    starts = (0, 2 ** 62) if high - low <= 2 ** 32 else (0, 2 ** 62, 2 ** 61, 2 ** 62 + 2 ** 61)
    drawn = []
    for i in range(math.prod(shape)):
        block, word = i // 64 * 16 + i % 16, i % 64 // 16
        bits = 0
        for start in starts:
            bits = (bits << 32) + philox(block + start, counter, seed)[word]
        drawn.append(low + (bits * (high - low) >> 32 * len(starts)))
    return np.array(drawn, object).reshape(shape)


for low, high, dtype, shape in (
        (0, 10, "int64", (3, 27)), (-5, 100, "int8", (70,)), (0, 2 ** 32, "uint32", (5,)),
        (-2 ** 63, 2 ** 63, "int64", (9,)), (0, 2 ** 64, "uint64", (9,)), (3, 4, "int32", ()),
        (-2 ** 40, 2 ** 54 + 1, "int64", (4, 5)), (0, 2, "uint8", (0, 3))):
    row("randint", lambda s, a=low, b=high, t=dtype, n=shape: random.randint(
            a, b, n, generator=generator(s), dtype=t), _STATES,
        lambda s, a=low, b=high, t=dtype, n=shape: randint(s, a, b, n).astype(t),
        label=f"{low}, {high}, {dtype}", grad=False, errors=(
            Bad(lambda: fw.randint(0, 300, (2,), dtype=fw.uint8), "uint8 does not hold all of 0"),
            Bad(lambda: fw.randint(0, 3, (2,), dtype=fw.float32), "randint: draws integers, not"),
            Bad(lambda: fw.randint(3, 3), "randint: there are no whole numbers from 3")))


def even(state: Array, i: int) -> float:
    """The number that inversion uses for element i: 53 bits of block i."""
    a, b, *_ = philox(i, int(state[1]) % 2 ** 64, int(state[0]) % 2 ** 64)
    return float(((a >> 5) * 2 ** 26 + (b >> 6)) * 2.0 ** -53)


def counted(u: float, chances: Any) -> int:
    """How many chances lie below u when they are added up."""
    total, count = 0.0, 0
    for p in chances:
        total += p
        if u < total:
            return count
        count += 1
    raise AssertionError("the chances do not add up")


def poisson(state: Array, rate: Array) -> Array:
    return np.reshape([counted(even(state, i), (
        math.exp(-m) * m ** k / math.factorial(k) for k in range(60)))
        for i, m in enumerate(rate.ravel())], rate.shape)


def binomial(state: Array, n: Array, p: Array) -> Array:
    n, p = np.broadcast_arrays(n, p)
    drawn = []
    for i, (tries, chance) in enumerate(zip(n.ravel().astype(int), p.ravel())):
        rare = min(chance, 1 - chance)
        k = counted(even(state, i), (math.comb(tries, j) * rare ** j * (1 - rare) ** (tries - j)
                                     for j in range(tries + 1)))
        drawn.append(tries - k if chance > 0.5 else k)
    return np.reshape(drawn, n.shape)


def with_state(make: Any) -> Any:
    return lambda rng: (np.array([11, 5]), *make(rng))


row("poisson", lambda s, r: count_distributions.poisson(r, generator=generator(s)),
    [with_state(lambda rng: (rng.uniform(0, 9, (3, 40)).astype(f4),)),
     with_state(lambda rng: (rng.uniform(0, 9, (0, 2)),)),
     with_state(lambda rng: (np.array(4.0),))],
    poisson, grad=False, errors=(
        Bad(lambda: fw.poisson(fw.tensor([-1.0])), "poisson: rates are finite and not negative"),))
row("binomial", lambda s, n, p: count_distributions.binomial(n, p, generator=generator(s)),
    [with_state(lambda rng: (rng.integers(0, 9, (3, 1)).astype(f8), rng.uniform(0, 1, (3, 40)))),
     with_state(lambda rng: (np.array([5.0, 5, 0]), np.array([0.0, 1, 0.5])))],
    binomial, grad=False, errors=(
        Bad(lambda: fw.binomial(fw.tensor([1.5]), 0.5), "binomial: counts are whole numbers"),))
