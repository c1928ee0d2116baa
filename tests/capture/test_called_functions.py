"""Functions that a compiled function calls have symbolic builtins, too, while it is traced."""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.capture.heap.replaced_code import ReplacedCode

SIZES = range(2, 12)


def mean_of(x: fw.Tensor) -> float:
    return float(x.mean())


def root_of(x: fw.Tensor) -> float:
    return math.sqrt(abs(x.sum().item()))


def decayed(x: fw.Tensor) -> fw.Tensor:
    total = fw.zeros(4)
    for t in range(len(x)):
        total = total * 0.5 + x[t]
    return total


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        h = fw.zeros(4)
        for t in range(x.shape[0]):
            h = fw.tanh(self.layer(h) + x[t])
        return h


class Meter:
    scale = 2.0

    def step(self, x: fw.Tensor) -> fw.Tensor:
        return x * self.scaled(x) * self.whole(x)

    def scaled(self, x: fw.Tensor) -> float:
        return float(x.mean()) * self.scale

    @staticmethod
    def whole(x: fw.Tensor) -> int:
        return int(x.sum())


def made_inside(x: fw.Tensor) -> fw.Tensor:
    def scaled(y: fw.Tensor) -> fw.Tensor:
        return y * float(y.sum())

    return scaled(x)


MODEL, METER = Recurrent(), Meter()
PARTIAL, DECORATED = functools.partial(decayed), wrapped(decayed)
FUNCTIONS: dict[str, Callable[[fw.Tensor], fw.Tensor]] = {
    "float": lambda x: x * mean_of(x),
    "math": lambda x: x * root_of(x),
    "a loop": lambda x: decayed(x) * 2,
    "a module": lambda x: MODEL(x) * 2,
    "methods": lambda x: METER.step(x),
    "two levels": lambda x: (lambda y: decayed(y) * mean_of(y))(x),
    "a nested function": made_inside,
    "a partial": lambda x: PARTIAL(x),
    "a decorated one": lambda x: DECORATED(x),
    "called by map": lambda x: next(map(decayed, [x])),
    "from a dict": lambda x: {"a": decayed}["a"](x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_recordings_serve_all_sizes_and_values(name: str) -> None:
    compiled = fw.compile(FUNCTIONS[name])
    for n in SIZES:
        x = fw.rand(n, 4)
        np.testing.assert_allclose(compiled(x).numpy(), FUNCTIONS[name](x).numpy(), rtol=1e-4)
    assert compiled.stats.recordings <= 2, compiled.explain()
    assert compiled.stats.fallbacks == 0


def test_a_function_has_its_own_code_after_a_trace() -> None:
    code = decayed.__code__
    seen = []

    def observed(x: fw.Tensor) -> fw.Tensor:
        seen.append(decayed.__code__)
        return decayed(x)

    fw.compile(observed)(fw.rand(3, 4))
    assert decayed.__code__ is code


def test_an_error_gives_a_function_its_code_back() -> None:
    def failing(x: fw.Tensor) -> fw.Tensor:
        decayed(x)
        raise ValueError(float(x.sum()))

    code = decayed.__code__
    with pytest.raises(ValueError, match=r"12\.0"):
        fw.compile(failing)(fw.ones(3, 4))
    assert decayed.__code__ is code


def test_another_code_of_a_called_function_is_noticed() -> None:
    def helper(x: fw.Tensor) -> fw.Tensor:
        return x * float(x.sum())

    def other(x: fw.Tensor) -> fw.Tensor:
        return x - float(x.sum())

    compiled = fw.compile(lambda x: helper(x))
    for _ in range(3):
        assert compiled(fw.ones(2)).tolist() == [2.0, 2.0]
    helper.__code__ = other.__code__
    for _ in range(3):
        assert compiled(fw.ones(2)).tolist() == [-1.0, -1.0]


def test_threads_trace_with_one_function() -> None:
    """The code is given back when the last trace ends, and guards are about the original."""
    code, results = decayed.__code__, []

    def run() -> None:
        compiled = fw.compile(lambda x: decayed(x) * 1.0)
        for n in SIZES:
            x = fw.ones(n, 4)
            results.append(np.allclose(compiled(x).numpy(), decayed(x).numpy()))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4 * len(SIZES)
    assert decayed.__code__ is code


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # threads may exist
def test_a_forked_process_has_the_own_code_of_functions() -> None:
    code, replaced = decayed.__code__, ReplacedCode(lambda function: mean_of.__code__)
    assert replaced.replace(decayed) is decayed.__code__ is mean_of.__code__
    child = os.fork()
    if child == 0:
        os._exit(0 if decayed.__code__ is code else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    replaced.restore()
    assert decayed.__code__ is code
