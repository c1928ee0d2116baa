"""Chains of views of views in one kernel: slices with negative steps, padding, flips, reshapes.

A kernel reads through all views of a chain at once, so it computes the index of the first tensor
from the index of the last one. The gradients read through the adjoint of the chain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw

STEPS = [1, 1, 2, 3, -1, -2, -3]
View = Callable[[Any, Any], Any]  # of an array, by the functions of NumPy or fusewire


def sliced(rng: np.random.Generator, shape: tuple[int, ...]) -> View | None:
    items = []
    for n in shape:
        start = rng.integers(n) if n and rng.random() < 0.5 else None
        items.append(slice(start, None, int(rng.choice(STEPS))))
    return lambda xp, x: x[tuple(items)]


def padded(rng: np.random.Generator, shape: tuple[int, ...]) -> View | None:
    widths = [tuple(map(int, rng.integers(3, size=2))) for _ in shape]
    return lambda xp, x: xp.pad(x, widths)


def flipped(rng: np.random.Generator, shape: tuple[int, ...]) -> View | None:
    axis = int(rng.integers(len(shape)))
    return lambda xp, x: xp.flip(x, axis=axis)


def rolled(rng: np.random.Generator, shape: tuple[int, ...]) -> View | None:
    axis, shift = int(rng.integers(len(shape))), int(rng.integers(-4, 5))
    return lambda xp, x: xp.roll(x, shift, axis=axis)


def reshaped(rng: np.random.Generator, shape: tuple[int, ...]) -> View | None:
    size = int(np.prod(shape))
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    if not divisors:
        return None
    rows = int(rng.choice(divisors))
    return lambda xp, x: xp.reshape(x, (rows, size // rows))


def permuted(rng: np.random.Generator, shape: tuple[int, ...]) -> View | None:
    order = tuple(map(int, rng.permutation(len(shape))))
    return lambda xp, x: xp.permute_dims(x, order)


def joined(rng: np.random.Generator, shape: tuple[int, ...]) -> View | None:
    axis = int(rng.integers(len(shape)))
    return lambda xp, x: xp.concat([x, xp.flip(x, axis=axis)], axis=axis)


VIEWS = [sliced, sliced, padded, flipped, rolled, reshaped, permuted, joined]


def chain(seed: int) -> tuple[np.ndarray, Callable[[Any, Any], Any]]:
    """An array of small whole numbers, and a chain of two to five views of it."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, size=tuple(rng.integers(1, 7, size=rng.integers(1, 4)))).astype("f4")
    views, y = [], x
    for _ in range(rng.integers(2, 6)):
        view = VIEWS[rng.integers(len(VIEWS))](rng, y.shape)
        if view is not None and view(np, y).size <= 2000:
            views.append(view)
            y = view(np, y)

    def apply(xp: Any, x: Any) -> Any:
        for view in views:
            x = view(xp, x)
        return x

    return x, apply


def adjoint(view: Callable[[Any, Any], Any], x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The gradient of (view(x) * weights).sum(): each element gets the weights of its copies."""
    numbers = view(np, np.arange(1, x.size + 1).reshape(x.shape))  # 0 is padding
    sums = np.bincount(numbers.ravel(), weights.ravel(), minlength=x.size + 1)
    return sums[1:].reshape(x.shape).astype("f4")


def check(seed: int) -> None:
    x, view = chain(seed)
    expected = view(np, x)
    weights = np.arange(1, 1 + expected.size, dtype="f4").reshape(expected.shape)
    compiled = fw.compile(lambda x: view(fw, x))
    for _ in range(3):  # op by op, compiled, by the fast path
        tensor = fw.tensor(x, requires_grad=True)
        result = compiled(tensor)
        (result * fw.tensor(weights)).sum().backward()
        np.testing.assert_array_equal(result.numpy(), expected, f"seed {seed}")
        np.testing.assert_array_equal(tensor.grad.numpy(), adjoint(view, x, weights),
                                      f"gradient, seed {seed}")


@pytest.mark.parametrize("start", range(0, 60, 15))
def test_chains_of_views(start: int) -> None:
    for seed in range(start, start + 15):
        check(seed)


def test_the_gradient_of_a_slice_of_every_second_element_backwards() -> None:
    """Machine code divided the negative number -i by 2, and the range analysis said 0."""
    compiled = fw.compile(lambda x: x[::-2][0:1])
    for _ in range(3):
        x = fw.zeros(5).requires_grad_()
        compiled(x).sum().backward()
        assert x.grad.tolist() == [0, 0, 0, 0, 1]
