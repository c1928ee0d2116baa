"""Ctrl-C may come anywhere, also while a function is recorded: nothing is left behind by that which
would make a later call wrong, of the same function or of another one."""

from __future__ import annotations

import linecache
import os
import random
import sys
from collections import defaultdict
from typing import Any

import pytest
from programs.running import numpy_backed

import fusewire as fw
from fusewire.capture.replay.compiled_function import Compiled
from fusewire.eager import interpreter
from fusewire.eager.core.tape import is_grad_enabled

PACKAGE = os.path.dirname(fw.__file__)
INPUTS = [(2, 0.5), (2, 0.5), (3, 0.7), (3, 1.1), (4, 0.9)]  # sizes and numbers become symbols


class Interrupter:
    """Raises KeyboardInterrupt at the n-th line of our own code that runs."""

    def __init__(self, at: int) -> None:
        self.at, self.lines = at, 0

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame: Any, event: str, arg: Any) -> Any:
        self.lines += event == "line"
        if self.lines >= self.at > 0 and not leaves_context(frame):
            sys.settrace(None)
            raise KeyboardInterrupt
        return self._line

    def over(self, calls: Any) -> None:
        """Makes the calls, until it interrupts one of them."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            calls()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)


def leaves_context(frame: Any) -> bool:
    """Whether a context may be about to be left: Python lets nothing come before that is done."""
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return frame.f_code.co_name == "__exit__" or text.lstrip().startswith("with ")


class Box:
    def __init__(self) -> None:
        self.rate, self.calls = 0.5, 0
        self.weight = fw.tensor([0.5, 1.0, 2.0], requires_grad=True)
        self.seen: list[float] = []


def decides(box: Box, x: fw.Tensor, k: float) -> Any:
    box.calls += 1
    y, turns = fw.tanh(x) * k, 0
    while y.sum() < 2 and turns < 6:
        y, turns = y + 0.4 * box.rate, turns + 1
    box.rate = k * 2
    return y, turns, x.shape[0] * 2


def trains(box: Box, x: fw.Tensor, k: float) -> Any:
    loss = (box.weight * x).square().mean() * k
    box.weight.grad = None
    loss.backward()
    with fw.no_grad():
        box.weight -= box.weight.grad * 0.1
    box.seen.append(loss.item() * k)
    return loss.detach()


def outcomes(fn: Any) -> list[Any]:
    box, found = Box(), []
    for rows, k in INPUTS:
        x = fw.arange(rows * 3).reshape(rows, 3) * 0.1
        found.append((show(fn(box, x, k)), show([*vars(box).values()])))
    return found


def show(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [show(v) for v in value]
    if isinstance(value, fw.Tensor):
        return value.shape, [round(v, 3) for v in value.flatten().tolist()]
    return type(value), round(value, 3)


@pytest.mark.parametrize("function", [decides, trains])
def test_calls_after_an_interrupted_one_are_right(function: Any) -> None:
    other = trains if function is decides else decides
    expected, expected_of_other = outcomes(function), outcomes(other)
    whole = Interrupter(0)
    whole.over(lambda: outcomes(numpy_backed(function)))
    for at in random.Random(1).sample(range(1, whole.lines), 12):
        run = numpy_backed(function)
        Interrupter(at).over(lambda run=run: outcomes(run))
        assert interpreter.STATE.active is None and not interpreter.in_use, at
        assert sys.getprofile() is None and is_grad_enabled(), at
        assert outcomes(run) == expected, at
        assert outcomes(numpy_backed(other)) == expected_of_other, at


def test_an_interrupt_does_not_change_how_threads_are_counted(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody steps in, ops need not ask: a wrong count would let them pass a recorder by."""
    for first, then in ((Recorder(), None), (None, Recorder())):
        with monkeypatch.context() as patch:
            patch.setattr(type(interpreter.STATE), "_count", interrupted)
            with pytest.raises(KeyboardInterrupt):
                interpreter.STATE.active = first
        interpreter.STATE.active = then
        assert interpreter.in_use == (then is not None)
    interpreter.STATE.active = None
    assert interpreter.in_use == 0


class Recorder:
    """What steps in."""


def test_a_program_that_was_growing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return x + 1 if x.sum() > 0 else x - 1

    run = numpy_backed(f)
    run(fw.ones(2))
    program, = run.programs
    monkeypatch.setattr(program._planner, "plan", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(-fw.ones(2))
    assert run.programs == []
    assert run(-fw.ones(2)).tolist() == [-2, -2] and run(fw.ones(2)).tolist() == [2, 2]


def interrupted(*args: Any) -> None:
    raise KeyboardInterrupt


def test_conditions_put_nothing_into_a_defaultdict() -> None:
    """What a recording read may not be there in another call, and is not made by looking."""
    def f(totals: Any, x: fw.Tensor) -> None:
        for name in list(totals):
            totals[name] = totals[name] + x.sum()

    run: Compiled = numpy_backed(f)
    for names in ("ab", "c", "cd", "ab"):
        totals = defaultdict(float, dict.fromkeys(names, 0.0))
        run(totals, fw.ones(2))
        assert [*totals] == [*names]
