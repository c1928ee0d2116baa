"""Interrupts calls at any of their instructions, as Ctrl-C does, and checks the state afterwards.

`python tests/signals.py 5000` interrupts each kind of call at so many points.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

import fusewire as fw
from fusewire import nn
from fusewire.capture.runtime.warnings import CaptureWarning
from fusewire.eager import interpreter

PACKAGE = os.path.dirname(fw.__file__)
Trace = Callable[[FrameType, str, Any], Any]


class Interrupter:
    """Sends SIGINT when the instructions of this package with these numbers begin to run."""

    def __init__(self, *at: int) -> None:
        self.at, self.count, self.where = sorted(at, reverse=True), 0, ""

    def _call(self, frame: FrameType, event: str, arg: Any) -> Trace | None:
        name = frame.f_code.co_filename
        if not (name.startswith(PACKAGE) or name[0] == "<") or "tests" in name:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._instruction

    def _instruction(self, frame: FrameType, event: str, arg: Any) -> Trace:
        self.count += event == "opcode"
        if self.at and self.count >= self.at[-1]:
            self.at.pop()
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}, instruction {self.count}"
            signal.raise_signal(signal.SIGINT)
        return self._instruction

    def over(self, call: Callable[[], Any]) -> bool:
        """True if an interrupt ended the call."""
        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 needs it in a frame that runs already
        with default_handler():
            sys.settrace(self._call)
            try:
                call()
                return False
            except KeyboardInterrupt:
                return True
            finally:
                sys.settrace(before)


@contextmanager
def default_handler() -> Iterator[None]:
    """A context in which Ctrl-C raises KeyboardInterrupt. Asserts that this still holds at its
    end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


class Training:
    """A model in training, with the state that a step changes."""

    def __init__(self) -> None:
        fw.manual_seed(3)  # no bias in front of the batch norm: its gradient is rounding alone
        self.net = nn.Sequential(nn.Linear(6, 16, bias=False), nn.BatchNorm1d(16),
                                 nn.Tanh(), nn.Linear(16, 3))
        layers = list(self.net.parameters())
        self.optimizer = fw.optim.AdamW([{"params": layers[:2]}, {"params": layers[2:], "lr": 0.1}],
                                        lr=0.05)
        self.scheduler = fw.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.losses: list[float] = []
        self.x = fw.rand(8, 6)

    def tensors(self) -> list[fw.Tensor]:
        """Parameters, buffers, and the optimizer's state."""
        params = list(self.net.parameters())
        state = [t for p in params for t in self.optimizer.state[p].values()]
        return [*params, *self.net.buffers(), *state]

    def state(self) -> list[np.ndarray]:
        """Copies of all values that a step changes."""
        return [np.array(t.detach().numpy()) for t in self.tensors()]

    def put(self, state: list[np.ndarray]) -> None:
        """Sets all values to those of another training, and removes gradients."""
        with fw.no_grad():
            for t, value in zip(self.tensors(), state):
                t[...] = fw.tensor(value)
        for p in self.net.parameters():
            p.grad = None


def step(training: Training) -> Any:
    """One step of a training."""
    training.optimizer.zero_grad()
    loss = (training.net(training.x) ** 2).mean()
    loss.backward()
    training.optimizer.step()
    return loss.detach()


def broken_step(training: Training) -> Any:
    """One step with graph breaks."""
    time.time()
    loss = step(training)
    training.losses.append(float(loss.numpy()))
    return loss


def decided_step(training: Training) -> Any:
    """One step with a loop and a branch that depend on values."""
    scale = (training.x * 0.1).sum()
    while scale < 30:
        scale = scale * 1.7
    loss = (training.net(training.x) ** 2).mean() * 0.01 * scale
    training.optimizer.zero_grad()
    loss.backward()
    if loss > 0:
        training.optimizer.step()
    return loss.detach()


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """True if two states are equal up to rounding."""
    return all(np.allclose(a, b, 2e-3, 2e-4) for a, b in zip(one, other, strict=True))


class Case:
    """A call of `fn` after `before` others, to be interrupted. `whole`: the call makes all of its
    changes or none."""

    def __init__(self, fn: Callable[[Training], Any], before: int, compiled: bool = True,
                 whole: bool = True) -> None:
        self.fn, self.before, self.compiled, self.whole = fn, before, compiled, whole
        self.name = f"{fn.__name__}, call {before}" + ("" if compiled else ", eager")
        self._call: Any = None
        self.training = Training()
        self.start = self._expected(self.training.state(), 0)
        self.end = self._expected(self.start, 1)

    def prepared(self) -> Any:
        """The function after the calls before, with the start state."""
        again = self.before > 2 and self._call is not None
        call = self._call if again else fw.compile(self.fn) if self.compiled else self.fn
        for _ in range(0 if again else self.before):
            call(self.training)
        self._call = call
        self.training.put(self.start)
        return call

    def instructions(self) -> int:
        """The number of instructions of the call."""
        for _ in range(1 if self.before < 3 else 2):  # the first one compiles
            counting, call = Interrupter(), self.prepared()
            counting.over(functools.partial(call, self.training))
        return counting.count

    def interrupt(self, *at: int) -> str:
        """The fault after an interrupt at these instructions, or ""."""
        call, interrupter = self.prepared(), Interrupter(*at)
        interrupter.over(lambda: call(self.training))
        if interpreter.STATE.active is not None or interpreter.in_use or sys.getprofile() or \
                not fw.is_grad_enabled():
            return f"{interrupter.where}: something is left switched on or off"
        return self._wrong_state(call, interrupter.where) if self.whole or at[0] % 2 else \
            self._wrong_later(call, interrupter.where)

    def _wrong_later(self, call: Any, where: str) -> str:
        """The fault in later calls, made before the state is read, or ""."""
        try:
            call(self.training)
            self.training.put(self.start)
            call(self.training)
        except Exception as error:
            return f"{where}: {error!r} in a later call"
        return "" if equal(self.training.state(), self.end) else f"{where}: a later call is wrong"

    def _wrong_state(self, call: Any, where: str) -> str:
        state = self.training.state()
        if self.whole and not (equal(state, self.start) or equal(state, self.end)):
            return f"{where}: the state is neither that before nor that after the call"
        for _ in range(2):
            try:
                call(self.training)
            except Exception as error:
                return f"{where}: {error!r} in a later call"
        if not equal(self.training.state(), self._expected(state, 2)):
            return f"{where}: a later call is wrong"
        return ""

    def _expected(self, state: list[np.ndarray], calls: int) -> list[np.ndarray]:
        """The state after so many calls in Python, from `state` on."""
        training = Training()
        training.put(state)
        for _ in range(calls):
            self.fn(training)
        return training.state()


def only_optimizer(training: Training) -> None:
    """The step of an optimizer alone, with constant gradients."""
    for i, p in enumerate(training.net.parameters()):
        p.grad = fw.full(p.shape, 0.1 * i + 0.1)
    training.optimizer.step()


CASES: dict[str, Callable[[], Case]] = {
    "recording": lambda: Case(step, 0),
    "first replay": lambda: Case(step, 1),
    "second replay": lambda: Case(step, 2),
    "short replay": lambda: Case(step, 6),
    "decisions": lambda: Case(decided_step, 6),
    "recorded decisions": lambda: Case(decided_step, 0),
    "graph breaks": lambda: Case(broken_step, 6, whole=False),
    "first graph breaks": lambda: Case(broken_step, 0, whole=False),
    "optimizer": lambda: Case(only_optimizer, 0, compiled=False),
    "eager": lambda: Case(step, 0, compiled=False, whole=False),
}


def faults(name: str, points: int, seed: int) -> list[str]:
    """The faults after interrupts at so many points of a call; every third run has two."""
    case, draw = CASES[name](), random.Random(seed)
    count, problems = case.instructions(), []
    for n in range(points):
        # Changes are made near the end: half of the points are there.
        at = [draw.randint(1 if n % 2 else max(1, count - 500), count)]
        if n % 3 == 2:
            at.append(at[0] + draw.randint(1, 60))
        problem = case.interrupt(*at)
        if problem:
            problems.append(f"{name}: {problem}")
    return problems


def main(points: int) -> None:
    import warnings
    warnings.simplefilter("ignore", CaptureWarning)
    for name in sys.argv[2:] or CASES:
        start = time.perf_counter()
        problems = faults(name, points, 1)
        print(f"{name}: {points} points, {len(problems)} faults, "
              f"{time.perf_counter() - start:.1f} s")
        for line in problems[:12]:
            print("   ", line)


if __name__ == "__main__":
    main(int(sys.argv[1]))
