"""Runs compiled programs under concurrent disturbances, and checks every result.

There are three callers, more threads than processors, changes of the number of threads, forks,
Ctrl-C, and functions that another thread compiles.

    python tests/soak.py <seconds>

It prints a count of each action. `test_soak.py` runs it for a moment.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

import fusewire as fw

DONE: Counter[str] = Counter()


def program(x: fw.Tensor, w: fw.Tensor) -> list[fw.Tensor]:
    """Products, rows, columns and a sum, each a kernel of several tasks."""
    y = fw.softmax(x @ w, -1)
    return [y, fw.tanh(x) * 2.0 + x, y.sum(), fw.mean(x, 0)]


class Caller:
    """A compiled function with its own inputs, and its results, which later calls have to repeat to
    the last bit."""

    def __init__(self, seed: int, rows: int = 300) -> None:
        rng = np.random.default_rng(seed)
        shapes = (rows, 150), (150, 90)
        self.args = [fw.from_numpy(rng.standard_normal(s).astype("f4")) for s in shapes]
        self.run = fw.compile(program, fullgraph=True)
        self.run(*self.args)
        self.expected = [t.numpy().copy() for t in self.run(*self.args)]
        for got, expected in zip(self.expected, program(*self.args)):
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)

    def check(self, what: str) -> None:
        for got, expected in zip(self.run(*self.args), self.expected):
            np.testing.assert_array_equal(got.numpy(), expected, what)
        DONE[what] += 1


def calls(caller: Caller, end: float, errors: list[BaseException]) -> None:
    """Calls until the time `end`, and adds an error to `errors`."""
    try:
        while time.monotonic() < end:
            caller.check("calls")
    except BaseException as error:
        errors.append(error)


BEGUN: list[Any] = []  # the last functions that another thread compiles


def begun(caller: Caller) -> None:
    """Calls a new function, and the last ones before it."""
    BEGUN.append(fw.compile(program, background=True, fullgraph=True))
    del BEGUN[:-3]
    for function in BEGUN:
        for got, expected in zip(function(*caller.args), caller.expected):
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)
        DONE["calls beside a compiler"] += 1


def forked(caller: Caller) -> None:
    """Forks a child, which has its own workers and has to get equal results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of forks among threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)  # a child that hangs is killed
            for _ in range(5):
                caller.check("in a child")
                begun(caller)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, "a forked child failed or hung"
    DONE["forks"] += 1


def interrupted(caller: Caller) -> None:
    """Interrupts a call, and checks the next one."""
    timer = threading.Timer(0.002, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        timer.start()
        while True:
            caller.run(*caller.args)
    except KeyboardInterrupt:
        DONE["interrupts"] += 1
    timer.join()
    caller.check("after an interrupt")


def disturb(caller: Caller, number: int) -> None:
    """Changes the number of threads, compiles, interrupts and forks, while others call."""
    fw.set_num_threads((1, 2, 3, 4, 2 * (os.cpu_count() or 1) + 3)[number % 5])
    DONE["numbers of threads"] += 1
    caller.check("calls")
    begun(caller)
    if os.name == "posix":
        interrupted(caller)
        if number % 4 == 0:
            forked(caller)


def main(seconds: float) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it runs in the background
    caller, *others = [Caller(seed, 200 + 100 * seed) for seed in range(4)]
    end = time.monotonic() + seconds
    errors: list[BaseException] = []
    threads: list[Any] = [threading.Thread(target=calls, args=(c, end, errors)) for c in others]
    for thread in threads:
        thread.start()
    number = 0
    while time.monotonic() < end:
        disturb(caller, number)
        number += 1
    for thread in threads:
        thread.join()
    for error in errors:
        raise error
    print(dict(DONE))


if __name__ == "__main__":
    main(float(sys.argv[1]))
