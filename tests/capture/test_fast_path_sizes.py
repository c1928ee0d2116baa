"""Sizes that vary on the fast path of calls: one fast path serves all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fast_paths import fast_path_result

import fusewire as fw
from fusewire import nn
from fusewire.capture.replay.replay import NOT_TRACED
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT
from fusewire.eager.errors import FusewireError

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="objects do not lie as in this CPython")


def scaled(x: fw.Tensor) -> fw.Tensor:
    return x * 2 + 1


def mean(x: fw.Tensor) -> Any:
    return x.sum() / x.shape[0], x.shape[0] * 2, x[: x.shape[0] // 2].sum()


def by_size(x: fw.Tensor) -> fw.Tensor:
    return x - 1 if x.shape[0] > 6 else x + x.shape[0]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.shift = fw.ones(4)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return fw.relu(self.layer(x)) + self.shift


def values(*shape: int) -> fw.Tensor:
    return fw.tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype("float32"))


def same(got: Any, want: Any) -> None:
    got, want = ([x] if isinstance(x, fw.Tensor) else list(x) for x in (got, want))
    for one, other in zip(got, want, strict=True):
        assert type(one) is type(other)
        if isinstance(one, fw.Tensor):
            assert one.shape == other.shape
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5, atol=1e-6)


def warmed(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    compiled = fw.compile(function)
    for shape in shapes * 3:
        compiled(values(*shape))
    return compiled


@pytest.mark.parametrize("function", [scaled, mean])
def test_sizes_that_were_never_met_go_the_fast_path(function: Callable[..., Any]) -> None:
    compiled = warmed(function, (5,), (6,), (7,))
    for n in (2, 5, 8, 33, 100):
        same(fast_path_result(compiled, values(n)), function(values(n)))
    assert compiled.stats.recordings == 2


def test_of_a_module_the_other_sizes_stay_what_they_were() -> None:
    net = Net().requires_grad_(False)
    compiled = warmed(net.forward, (5, 3), (6, 3), (7, 3))
    same(fast_path_result(compiled, values(40, 3)), net(values(40, 3)))
    assert fast_path_result(compiled, values(40, 4)) is NOT_TRACED
    assert fast_path_result(compiled, values(40)) is NOT_TRACED
    assert fast_path_result(compiled, values(2, 40, 3)) is NOT_TRACED
    net.layer.weight = nn.Parameter(fw.zeros((4, 3)), requires_grad=False)
    same(compiled(values(9, 3)), net(values(9, 3)))


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_that_are_cases_of_their_own_are_right(size: int) -> None:
    compiled = warmed(mean, (5,), (6,), (7,))
    if size:
        same(compiled(values(size)), mean(values(size)))
    else:
        assert fast_path_result(compiled, values(size)) is NOT_TRACED


def test_what_was_asked_of_a_size_is_asked_again() -> None:
    compiled = warmed(by_size, (7,), (8,), (9,))
    same(fast_path_result(compiled, values(20)), by_size(values(20)))
    assert fast_path_result(compiled, values(6)) is NOT_TRACED
    for n in (3, 20, 4, 6, 7, 5, 30):
        same(compiled(values(n)), by_size(values(n)))
    same(fast_path_result(compiled, values(2)), by_size(values(2)))


def test_sizes_that_were_equal_have_to_be() -> None:
    def product(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        return (x * y).sum()

    compiled = fw.compile(product)
    for n in (5, 6, 7, 8, 9):
        compiled(values(n), values(n))
    same(fast_path_result(compiled, values(50), values(50)), product(values(50), values(50)))
    assert fast_path_result(compiled, values(50), values(49)) is NOT_TRACED
    with pytest.raises(FusewireError):
        compiled(values(50), values(49))


def test_a_state_of_any_size_is_read_anew() -> None:
    """Also where the tensor is no argument, and its array is another one each time."""
    state = {"x": values(5)}

    def double() -> fw.Tensor:
        return state["x"] * 2

    compiled = fw.compile(double)
    for n in (5, 6, 7, 8, 5, 6, 7, 8, 30):
        state["x"] = values(n)
        same(compiled(), double())
    held = state["x"]
    for n in (11, 12):
        held._data = values(n)._data
        same(compiled(), double())
