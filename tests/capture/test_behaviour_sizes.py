"""Sizes that change from call to call: two recordings do for all of them."""

from __future__ import annotations

from typing import Any

import pytest
from agreement import agree

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn


def batches(*sizes: int) -> list[list[Any]]:
    return [[fw.arange(n * 4).reshape(n, 4) / 7 - 1] for n in sizes]


def test_64_batch_sizes() -> None:
    def make() -> Any:
        fw.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

        def f(x: fw.Tensor) -> fw.Tensor:
            with fw.no_grad():
                return fw.softmax(model(x), -1)

        return f, [model]

    agree(make, *batches(*range(1, 65)), recordings=2)


def test_training_with_a_smaller_last_batch() -> None:
    def make() -> Any:
        fw.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = fw.optim.Adam(model.parameters(), lr=0.1)

        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), fw.arange(x.shape[0]) % 3)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, [model]

    agree(make, *batches(8, 8, 3, 8, 5, 3, 7), recordings=2)


@pytest.mark.parametrize(("name", "fn"), {
    "arithmetic": lambda x: x * x.shape[0] / (x.shape[0] + 1),
    "reshape": lambda x: x.reshape(-1, 2).sum(0),
    "flatten": lambda x: x.reshape(x.shape[0] * 2, 2),
    "slice": lambda x: x[:x.shape[0] // 2],
    "concat": lambda x: fw.concat([x, x[1:]]),
    "broadcast": lambda x: x + fw.ones(1, 4) + fw.ones(x.shape[0], 1),
    "zeros": lambda x: fw.zeros(x.shape[0], 2),
    "mean": lambda x: x.mean(0),
    "product": lambda x: x @ x.T,
    "einsum": lambda x: fw.einsum("ij,jk->ik", x, fw.ones(4, 2)),
    "einsum of three": lambda x: fw.einsum("ij,jk,kl", x, fw.ones(4, 2), fw.ones(2, 3)),
    "several matrices": lambda x: fw.linalg.multi_dot([x, fw.ones(4, 2), fw.ones(2, 3)]),
    "decision": lambda x: x * 2 if x.shape[0] > 4 else x,
    "length": lambda x: x * len(x),
    "returned": lambda x: (x.shape, x.shape[0] + 1),
}.items())
def test_sizes_in(name: str, fn: Any) -> None:
    limit = {"decision": 3, "length": 0}.get(name, 2)  # len() hands out a plain number
    agree(lambda: fn, *batches(2, 3, 5, 6, 9, 2, 17), recordings=limit)


def test_sizes_of_a_convolution_and_a_pool() -> None:
    def make() -> Any:
        fw.manual_seed(0)
        conv = nn.Conv2d(2, 3, 3, padding=1, stride=2)
        return lambda x: F.max_pool2d(conv(x), 2).detach()

    shapes = [(2, 2, 16, 12), (1, 2, 8, 8), (3, 2, 20, 9), (5, 2, 12, 30), (2, 2, 16, 12)]
    agree(make, *[[fw.arange(a * b * c * d).reshape(a, b, c, d) / 99] for a, b, c, d in shapes],
          recordings=3)


def test_a_size_of_one_is_as_any_other() -> None:
    sizes = [(3, 3), (1, 3), (5, 1), (1, 1), (7, 7)]
    agree(lambda: lambda x, y: x + y, *[[fw.ones(a, 4), fw.ones(b, 4)] for a, b in sizes])


def test_sizes_that_no_longer_fit_raise_as_eager_does() -> None:
    f = fw.compile(lambda x, y: x + y)
    for n in (2, 3, 5):
        f(fw.ones(n), fw.ones(n))
    with pytest.raises(fw.ShapeError):
        f(fw.ones(4), fw.ones(6))


def test_a_number_of_elements_that_must_divide() -> None:
    f = fw.compile(lambda x: x.reshape(-1, 3).sum(0), fullgraph=True)
    for n in (3, 6, 9):
        assert f(fw.ones(n)).tolist() == [n // 3] * 3
    with pytest.raises(fw.ShapeError):
        f(fw.ones(7))
    assert f.stats.recordings <= 2


def test_asked_for_from_the_start() -> None:
    f = fw.compile(lambda x: x * x.shape[0], fullgraph=True, dynamic=True)
    for n in (2, 3, 5, 9):
        assert f(fw.ones(n)).tolist() == [n] * n
    assert f.stats.recordings == 1


def test_switched_off() -> None:
    f = fw.compile(lambda x: x * 2, fullgraph=True, dynamic=False)  # type: ignore[call-overload]
    for n in (2, 3, 5, 2):
        f(fw.ones(n))
    assert f.stats.recordings == 3
