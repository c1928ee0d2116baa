"""Defines Python functions that decide by the values of tensors, and inputs for all their paths."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import fusewire as fw


def t(*values: float) -> fw.Tensor:
    return fw.from_numpy(np.array(values, np.float32))


# ---- decisions and loops
def choose(x: fw.Tensor) -> fw.Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def in_turn(x: fw.Tensor) -> fw.Tensor:
    x = x + 1 if x[0] > 0 else x - 1
    if x[1] > 0:
        x = x * 2
    if x[2] > 0 and x[0] > 3:
        return x * 3
    return x


def several_results(x: fw.Tensor) -> dict[str, fw.Tensor]:
    if x.max() > 2:
        return {"a": x, "b": x.argmax()}
    return {"a": x.exp(), "b": fw.tensor(7)}


def halved(x: fw.Tensor) -> fw.Tensor:
    while x.max() > 1:
        x = x / 2
    return x


def counted(x: fw.Tensor) -> Any:
    n = 0
    while x.max() > 1 and n < 4:
        x = x / 2
        n += 1
    return x, x * n + n / 2


def broken_off(x: fw.Tensor) -> Any:
    k = x * 0
    while x.sum() < 100:
        x = x * 2
        if x.max() > 30:
            k = k + 5
            break
        if x.min() > 3:
            continue
        k = k + 1
    return x, k


def returned_inside(x: fw.Tensor) -> fw.Tensor:
    while x.sum() < 100:
        x = x * 2
        if x.max() > 30:
            return x * 100
    return -x


def nested(x: fw.Tensor) -> fw.Tensor:
    y = x * 0
    while x.sum() > 1:
        x = x / 2
        z = x
        while z.sum() > 1:
            z = z - 1
            y = y + z
            if y.max() > 5:
                return y
    return x + y


def one_after_another(x: fw.Tensor) -> fw.Tensor:
    while x.max() > 8:
        x = x / 2
    while x.max() < 7:
        x = x + 1
    return x


def for_with_break(x: fw.Tensor) -> fw.Tensor:
    for _ in range(5):
        if x.sum() > 10:
            break
        x = x * 2
    return x


def by_numbers(x: fw.Tensor) -> fw.Tensor:
    """Newton's method with Python's floats."""
    v, y = x.max().item(), 1.0
    while abs(y * y - v) > 1e-3:
        y = (y + v / y) / 2
    return x * y


def of_whole_numbers(x: fw.Tensor) -> fw.Tensor:
    n, steps = x.astype(fw.int64).max(), 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return x + steps


DECIDE = [choose, in_turn, several_results, halved, counted, broken_off, returned_inside, nested,
             one_after_another, for_with_break, by_numbers, of_whole_numbers]
OF_THREE = [t(1, 2, 3), t(.1, .2, .3), t(10, 20, 3), t(40, 1, 1), t(9, 10, 11), t(0, .3, .1),
          t(.1, -.2, .3), t(3.5, -.5, 1), t(200, 1, 7)]


# ---- paths that join again
def ten_times(x: fw.Tensor) -> fw.Tensor:
    for i in range(10):
        x = x + 1 if x[i] > 0 else x * 2
    return x


def in_a_row(x: fw.Tensor) -> fw.Tensor:
    if x[0] > 0:
        shifted = x + 1
        x = shifted * 0.5
    if x[1] > 0:
        x = x * 2
    elif x[2] > 0:
        x = x - 3
    if x[3] > 0.5:
        x = -x
    return x.exp()


def counting(x: fw.Tensor) -> Any:
    n, scale = 0, 1.0
    if x[0] > 0:
        n += 1
    if x[1] > 0:
        n, scale = n + 2, 0.5
    if x[2] > n:
        scale = scale / 2
    if n > 1:
        x = x * n
    return x * scale, x + n


def broken_off_once(x: fw.Tensor) -> Any:
    total = x * 0
    for i in range(8):
        if x[i] > 1:
            break
        total = total + x[i]
    if total[0] > 0:
        total = total * 2
    return total


def two_deep(x: fw.Tensor) -> fw.Tensor:
    for i in range(3):
        for j in range(3):
            if x[i + j] > x[j]:
                x = x + 0.5 * i
            else:
                x = x - 0.25 * j
    return x


def turns_between(x: fw.Tensor) -> fw.Tensor:
    if x[0] > 0:
        while x.sum() > 1:
            x = x - 0.5
    else:
        while x.sum() < -1:
            x = x + 0.25
    if x[1] > 0:
        x = x * 3
    while x.max() > 2:
        x = x / 2
        if x[2] > 0:
            x = x - 0.125
        if x[3] > 0:
            x = x + 0.0625
    return x


def helped(x: fw.Tensor) -> fw.Tensor:
    def side(y: fw.Tensor, k: int) -> fw.Tensor:
        if y[k] > 0:
            z = y * 2
            return z - 1
        if y[k + 1] > 0:
            y = y + 1
        return y

    x = side(x, 0)
    x = side(x, 4)
    return x if x[8] > 0 else side(x, 6)


def shared(x: fw.Tensor) -> Any:
    y = x * 1
    if x[0] > 0:
        y = x
    if x[1] > 0:
        y += 1
    values = [x, y]
    if x[2] > 0:
        values.append(y * 2)
    else:
        values.append(x * 3)
    if x[3] > 0:
        values[1] = values[2]
    return values[1], values[2]


MEET = [ten_times, in_a_row, counting, broken_off_once, two_deep, turns_between, helped, shared]


def by_index(x: fw.Tensor) -> fw.Tensor:
    """An int that is an index has to be one int on each path."""
    k = 0
    if x[0] > 0:
        k = 3
    if x[1] > 0:
        x = x + 1
    return x * x[k]


def over_a_list(x: fw.Tensor) -> fw.Tensor:
    """Only the iterator knows whether an iteration is the first or the second with k = 1."""
    for k in [1, 1, 2]:
        if x[k] > 0:
            x = x - 0.75
            continue
        x = x * 2
    return x


def skipping(x: fw.Tensor) -> fw.Tensor:
    indices = iter([0, 0, 0, 0])
    for k in indices:
        if x[k] > 0:
            next(indices, None)
            x = x - 0.5
        x = x + 0.1
    return x


def among(x: fw.Tensor) -> fw.Tensor:
    """One line of the code makes several decisions."""
    n = 0
    while n < 2:
        if x[0].item() * 0 + n in [x[1].item() * 0, x[2].item() * 0 + 1]:
            x = x + 1
        n += 1
    return x


def folded(x: fw.Tensor) -> fw.Tensor:
    """The accumulator of `reduce` is invisible to the tracer."""
    return functools.reduce(lambda a, b: a + b if a[0] > 0 else a - b, [x, x * 2, x * 3])


def wrapped(x: fw.Tensor) -> fw.Tensor:
    """The left operand waits on the stack."""
    return (x * 2 if x[0] > 0 else x) + (x * 3 if x[1] > 0 else -x)


def left_early(x: fw.Tensor) -> Any:
    """One outcome leaves the loop, and so skips the point where the other paths join."""
    y, iterations = x + 1, 0
    while x.sum().item() < 3:
        iterations += 1
        if iterations > 4:
            break
        x = x + 0.125
        if x.sum() > 0:
            x, y = y + 1, y - 1
    if x.sum().item() < 3:
        y = fw.tanh(x) * 2
    return x, y


# ---- paths that must not join: their stacks or iterators differ
APART = [left_early, by_index, over_a_list, skipping, among, folded, wrapped]

OF_TWELVE = [t(*np.random.default_rng(i).standard_normal(12)) for i in range(40)]
ALL = [*((fn, OF_THREE) for fn in DECIDE), *((fn, OF_TWELVE) for fn in (*MEET, *APART))]
