"""Rows of the ops that make tensors out of nothing, random numbers among them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rows.row import Array, Bad, f2, f4, f8, row

import fusewire as fw
from fusewire.eager.core.dispatch import apply
from fusewire.eager.ops import create
from fusewire.eager.ops.random import generator as random_ops
from fusewire.eager.ops.random.philox import normal_op

row("full", lambda: create.full((2, 3), 1.5), [lambda rng: ()], lambda: np.full((2, 3), 1.5),
    errors=(Bad(lambda: create.full((2, -1), 0.0), "full: sizes are not negative"),
            Bad(lambda: create.full((2,), 300, fw.int8), "full: int8 does not hold 300"),
            Bad(lambda: create.full((2,), "x"), "'x' is not a number")))
for shape, axis in (((3, 4), 0), ((3, 4), -1), ((0, 2), 1), ((5,), 0)):
    row("iota", lambda s=shape, a=axis: create.iota(s, a), [lambda rng: ()],
        lambda s=shape, a=axis: np.indices(s)[a], label=f"{shape}, {axis}", errors=(
            Bad(lambda: create.iota((), 0), "iota: axis 0 is out of range"),))


def uniform(state: Any, shape: Any, dtype: Any) -> Any:
    generator = random_ops.Generator()
    generator.set_state(state)
    return random_ops.rand(*shape, dtype=dtype, generator=generator)


def uniform_reference(state: Array, shape: Any, dtype: Any) -> Array:
    """Philox as in the paper, one number after the other, in Python's integers."""
    seed, counter = (int(v) % 2 ** 64 for v in state)
    out = np.empty(math.prod(shape), dtype)
    for i in range(out.size):
        block, word = i // 64 * 16 + i % 16, i % 64 // 16
        first = philox(block, counter, seed)[word]
        if dtype == f8:
            second = philox(block + 2 ** 62, counter, seed)[word]
            out[i] = ((first >> 5) * 2 ** 26 + (second >> 6)) * 2.0 ** -53
        else:
            bits = 24 if dtype == f4 else 11
            out[i] = (first >> (32 - bits)) * 2.0 ** -bits
    return out.reshape(shape)


def philox(block: int, counter: int, seed: int) -> list[int]:
    """The four words of Philox4x32-10 at (block, counter) under the key `seed`."""
    c = [block % 2 ** 32, block >> 32, counter % 2 ** 32, counter >> 32]
    k = [seed % 2 ** 32, seed >> 32]
    for _ in range(10):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(q >> 32) ^ c[1] ^ k[0], q % 2 ** 32, (p >> 32) ^ c[3] ^ k[1], p % 2 ** 32]
        k = [(k[0] + 0x9E3779B9) % 2 ** 32, (k[1] + 0xBB67AE85) % 2 ** 32]
    return c


for shape, dtype in (((5, 27), f4), ((), f4), ((0, 3), f4), ((70,), f8), ((9,), f2)):
    row("uniform", lambda s, a=shape, d=dtype: uniform(s, a, d),
        [lambda rng: (np.array([7, 3]),), lambda rng: (np.array([-2 ** 63, 2 ** 40 + 1]),)],
        lambda s, a=shape, d=dtype: uniform_reference(s, a, d), label=f"{shape} {dtype}",
        grad=False, errors=(Bad(lambda: fw.rand(2, dtype=fw.int32), "rand: numbers from 0 to 1"),
                Bad(lambda: fw.rand(-2), "rand: sizes are not negative")))


def normal(state: Any, shape: Any, dtype: Any) -> Any:
    return apply(normal_op, (state,), {"shape": shape, "dtype": np.dtype(dtype)})


def normal_reference(state: Array, shape: Any, dtype: Any) -> Array:
    """Box and Muller's transform of the numbers of two states, in float64."""
    u, v = (uniform_reference(state + [0, step], shape, dtype).astype(f8) for step in (0, 1))
    return (np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)).astype(dtype)


for shape, dtype in (((5, 27), f4), ((), f4), ((0, 3), f4), ((3, 2, 64), f4), ((70,), f8)):
    row("normal", lambda s, a=shape, d=dtype: normal(s, a, d), [lambda rng: (np.array([7, 3]),)],
        lambda s, a=shape, d=dtype: normal_reference(s, a, d), label=f"{shape} {dtype}",
        grad=False)
for args, more in (((0, 3, 7), {}), ((1, -1, 3), {"base": 2.0}), ((0, 2, 4), {"endpoint": False})):
    row("pow", lambda a=args, m=more: fw.logspace(*a, **m, dtype=fw.float64), [lambda rng: ()],
        lambda a=args, m=more: np.logspace(*a, **m), label=f"logspace {args} {more}", errors=(
            Bad(lambda: fw.logspace(0, 1, -1), "logspace: num is a whole number"),))
