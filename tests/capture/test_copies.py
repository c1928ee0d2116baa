"""Copies of a compiled model: each is a model of its own, as copies of any model are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from agreement import assert_equal

import fusewire as fw
from fusewire import nn

X = fw.arange(12.0).reshape(4, 3) / 10


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(3, 4)
        self.last = nn.Linear(4, 2)
        self.scale = 2.0

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.last(fw.tanh(self.inside(x))) * self.scale


def written(model: Net) -> None:
    with fw.no_grad():
        model.inside.weight *= 3


def trained(model: Net) -> None:
    optimizer = fw.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (model(X) ** 2).mean().backward()
        optimizer.step()


def another_layer(model: Net) -> None:
    model.last = nn.Linear(4, 2)


def a_hook(model: Net) -> None:
    model.inside.register_forward_hook(lambda layer, args, out: out - 1)


def another_number(model: Net) -> None:
    model.scale = 5.0


def networks(calls: int) -> tuple[Net, Net]:
    """A compiled model that was called so often, and the same model not compiled."""
    fw.manual_seed(0)
    plain = Net()
    compiled = fw.compile(copy.deepcopy(plain))
    for _ in range(calls):
        compiled(X)
    return compiled, plain


@pytest.mark.parametrize("change", [written, trained, another_layer, a_hook, another_number])
@pytest.mark.parametrize("calls", [0, 1, 4])
@pytest.mark.parametrize("which", [0, 1])
def test_what_is_done_to_one_is_not_done_to_the_other(change: Callable[[Net], None], calls: int,
                                                      which: int) -> None:
    models = networks(calls)
    pairs = [(model, copy.deepcopy(model)) for model in models]
    for pair in pairs:
        for _ in range(calls):
            pair[0](X), pair[1](X)
        fw.manual_seed(1)
        change(pair[which])
    compiled, eager = pairs
    assert not {id(p) for p in compiled[0].parameters()} & {id(p) for p in compiled[1].parameters()}
    for _ in range(3):
        for mine, expected in zip(compiled, eager):
            assert_equal(mine(X), expected(X))
            assert_equal(gradients(mine), gradients(expected))


def gradients(model: Net) -> list[Any]:
    return [p.grad for p in model.parameters()]


def test_a_model_around_a_compiled_one() -> None:
    models = networks(2)
    around = [nn.Sequential(model, nn.Linear(2, 2, bias=False)) for model in models]
    around[1][1].weight = around[0][1].weight
    copies = [copy.deepcopy(model) for model in around]
    for model in copies:
        written(model[0])
    for _ in range(3):
        assert_equal([m(X) for m in (around[0], copies[0])], [m(X) for m in (around[1], copies[1])])
