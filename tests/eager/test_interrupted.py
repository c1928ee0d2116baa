"""Whatever function of ours an interrupt strikes as it begins, the tape is left as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager import interpreter

X, CLASSES = fw.rand(5, 4), fw.tensor([0, 1, 2, 0, 1])


def training() -> Callable[[], None]:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5),
                        nn.Linear(8, 3))
    optimizer = fw.optim.AdamW(net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X), CLASSES).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    return step


def sequences() -> Callable[[], None]:
    layer, x = nn.LSTM(4, 5), fw.rand(3, 2, 4)
    return lambda: layer(x)[0].sum().backward()


def second_derivatives() -> Callable[[], None]:
    x = fw.rand(3).requires_grad_()
    return lambda: fw.grad(fw.grad((x ** 3).sum(), x, create_graph=True)[0].sum(), x) and None


def compiled() -> Callable[[], None]:
    step = fw.compile(training())
    for _ in range(4):
        step()
    return step


class Interrupt(BaseException):
    """What ctrl-C raises, wherever the program is."""


def interrupted(work: Callable[[], None], number: int) -> str:
    """Where a run of `work` was interrupted, as it called a function for the `number`-th time; an
    empty text where it does not call as many."""
    calls, where = 0, ""

    def trace(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls, where
        calls += 1
        if calls == number:
            where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
            raise Interrupt

    sys.settrace(trace)
    try:
        work()
    except Interrupt:  # or not: it goes unseen where a generator is closed
        pass
    finally:
        sys.settrace(None)
    return where


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("make", [training, sequences, second_derivatives, compiled])
def test_an_interrupt_leaves_the_tape_on(make: Callable[[], Callable[[], None]]) -> None:
    work, number = make(), 1
    work()
    while where := interrupted(work, number):
        assert fw.is_grad_enabled() and not fw.is_inference_mode_enabled(), where
        assert interpreter.STATE.active is None, where
        number += 1
    assert number > 5
    work()
