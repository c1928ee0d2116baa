"""A reshape is a view or a copy in a replay as it is in eager code, however the argument lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw

VALUES = np.arange(24.0)


def whole() -> tuple[fw.Tensor, ...]:
    return (fw.asarray(VALUES.reshape(4, 6)),)


def column_major() -> tuple[fw.Tensor, ...]:
    return (fw.asarray(np.asfortranarray(VALUES.reshape(4, 6))),)


def transposed() -> tuple[fw.Tensor, ...]:
    base = fw.asarray(VALUES.reshape(6, 4))
    return base.T, base


def transposed_alone() -> tuple[fw.Tensor, ...]:
    return (fw.asarray(VALUES.reshape(6, 4)).T,)


def rows() -> tuple[fw.Tensor, ...]:
    base = fw.asarray(np.arange(36.0).reshape(6, 6))
    return base[1:5], base


def columns() -> tuple[fw.Tensor, ...]:
    base = fw.asarray(np.arange(48.0).reshape(4, 12))
    return base[:, ::2], base


def broadcast() -> tuple[fw.Tensor, ...]:
    base = fw.asarray(np.arange(6.0))
    return fw.broadcast_to(base, (4, 6)), base


LAYOUTS = [whole, column_major, transposed, transposed_alone, rows, columns, broadcast]


def returned(x: fw.Tensor) -> fw.Tensor:
    return x.reshape(-1)


def transposed_inside(x: fw.Tensor) -> fw.Tensor:
    return x.T.reshape(-1)


def half(x: fw.Tensor) -> fw.Tensor:
    return x.reshape(2, 12)[0]


def written(x: fw.Tensor) -> fw.Tensor:
    flat = x.reshape(-1)
    flat += 1.0
    return x * 2.0


def written_in_a_loop(x: fw.Tensor) -> fw.Tensor:
    for _ in range(3):
        flat = x.reshape(-1)
        flat[0] = flat[0] + 1.0
    return x * 2.0


def written_on_a_path(x: fw.Tensor) -> fw.Tensor:
    flat = x.reshape(8, 3)
    if x.sum() > 0:
        flat[1] = 5.0
    return x * 2.0


def one_row(x: fw.Tensor) -> fw.Tensor:
    x[1] = x[0] + 1.0
    return x * 2.0


def outcome(fn: Callable[..., Any], tensors: tuple[fw.Tensor, ...]) -> list[Any]:
    """The result, or the error, and all tensors after a write to the result."""
    try:
        out = fn(tensors[0])
        out += 1.0
    except fw.ViewError as error:
        return [type(error)]
    return [out.tolist(), *(t.tolist() for t in tensors)]


@pytest.mark.parametrize("fn", [returned, transposed_inside, half, written, written_in_a_loop,
                                written_on_a_path, one_row])
@pytest.mark.parametrize("seed", range(3))
def test_layouts_in_turn(fn: Callable[..., Any], seed: int) -> None:
    compiled = fw.compile(fn)
    for i in np.random.default_rng(seed).integers(0, len(LAYOUTS), 40):
        make = LAYOUTS[i]
        assert outcome(compiled, make()) == outcome(fn, make()), make.__name__


def test_a_product_has_one_recording_for_all_layouts() -> None:
    compiled = fw.compile(lambda x: x.reshape(-1) * 2.0)
    for make in LAYOUTS:
        assert compiled(make()[0]).tolist() == (make()[0].reshape(-1) * 2.0).tolist()
    assert compiled.stats.recordings == 1


def test_the_base_of_an_argument_gets_gradients_that_the_argument_gets() -> None:
    w = fw.tensor([1.0, 2.0], requires_grad=True)

    def f(x: fw.Tensor) -> None:
        x -= w * 2.0

    compiled = fw.compile(f)
    for is_view in (False, True, False, True, True, False):
        gradients = []
        for g in (compiled, f):
            base = fw.ones(6, 2)
            x = base[1::2] if is_view else fw.ones(3, 2)
            g(x)
            assert base.requires_grad == is_view
            gradients.append(fw.autograd.grad(((base if is_view else x) ** 2).sum(), [w])[0])
        assert gradients[0].tolist() == gradients[1].tolist()
    assert compiled.stats.replays == 4
