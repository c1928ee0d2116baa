"""Numbers that vary become tensors without a recording for each: rates, counts, means of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agreement import agree

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim
from fusewire.eager.errors import DTypeError
from fusewire.optim import lr_scheduler

MADE: dict[str, Callable[[fw.Tensor, Any], Any]] = {
    "tensor": lambda x, n: fw.tensor(n),
    "asarray": lambda x, n: fw.asarray(n) * x,
    "full": lambda x, n: fw.full((2, 2), n),
    "full_like": lambda x, n: fw.full_like(x, n),
    "copy_": lambda x, n: x.copy_(n),
    "item": lambda x, n: fw.tensor(x.sum().item() * n),
    "dtype": lambda x, n: fw.tensor(n, dtype=fw.float64) / 3,
}


@pytest.mark.parametrize("name", MADE)
def test_of_a_float(name: str) -> None:
    numbers = (0.5, 1.5, -0.0, 0.0, 1e30, float("inf"), -7.25, 0.1)
    agree(lambda: MADE[name], *[(fw.tensor([1.0, 2.0]), n) for n in numbers], recordings=2)


@pytest.mark.parametrize("name", MADE)
def test_of_an_int(name: str) -> None:
    numbers = (1, 2, -3, 0, 2**53 + 1, 7)
    agree(lambda: MADE[name], *[(fw.tensor([1.0, 2.0]), n) for n in numbers], recordings=2)


def test_an_int_that_is_too_large() -> None:
    compiled = fw.compile(lambda n: fw.tensor(n))
    assert [compiled(n).item() for n in (1, 2, 3)] == [1, 2, 3]
    with pytest.raises(DTypeError, match="cannot make a tensor of int"):
        compiled(2**70)
    assert compiled(4).item() == 4


def test_of_the_turn_of_a_loop() -> None:
    def f(x: fw.Tensor) -> Any:
        n = 0
        while x.sum() < 40:
            x = x * 1.3 + fw.tensor(n)
            n += 1
        return x, fw.tensor(n)

    agree(lambda: f, *[(fw.tensor([v, 1.0]),) for v in (3.0, 1.0, 7.0, 0.0, 30.0)], recordings=4)


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "step": lambda o: lr_scheduler.StepLR(o, 2),
    "multi-step": lambda o: lr_scheduler.MultiStepLR(o, [2, 4]),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (epoch + 1)),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 50),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=40),
    "triangles": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_inside_of_the_step(name: str) -> None:
    def make() -> Any:
        fw.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = SCHEDULES[name](optimizer)

        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), fw.ones(4, 2))
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss
        return step, [model, optimizer, schedule.__dict__["_last_lr"], optimizer.param_groups]

    agree(make, *[(fw.ones(4, 3) * (k + 1) / 8,) for k in range(16)], recordings=6)


def test_a_plateau_inside_of_the_step() -> None:
    def make() -> Any:
        x = fw.tensor([4.0], requires_grad=True)
        optimizer = optim.SGD([x], lr=0.1)
        schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)

        def step(y: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = ((x - y) ** 2).sum()
            loss.backward()
            optimizer.step()
            schedule.step(loss.item())
            return loss
        return step, [x, optimizer.param_groups]

    compiled = agree(make, *[(fw.tensor([float(k % 3)]),) for k in range(24)])
    assert compiled.stats.replays >= 12
