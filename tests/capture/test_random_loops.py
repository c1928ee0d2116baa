"""Random loops in native code give what they give in Python: values, objects and arguments.

More programs, for a night: `FUSEWIRE_TEST_PROGRAMS=20000 pytest tests/capture/test_random_loops.py`
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_programs import ROWS, WIDTH, Writer
from made_functions import function_of

import fusewire as fw
from fusewire.codegen.control_vm.native_control import NativeControl

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "100")) // 20
FIRST = 1000  # the seed of the first program: those below served to write this file
CALLS = 12


def arguments(seed: int, moved: float = 0.0) -> list[Any]:
    """The arguments of a call. `moved`: how far numbers are from those of other calls."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    x, v, u, a = (fw.tensor(rng.standard_normal(shape) + moved)
                  for shape in [(ROWS, WIDTH), WIDTH, WIDTH, ()])
    return [x, v, u, draw.randint(0, 9), draw.uniform(-1, 1), a]


def outcome(function: Callable[..., Any], call: list[Any]) -> tuple[list[int], list[Any]]:
    """The objects that the results are, and all values after each result was changed in turn."""
    with fw.no_grad():
        everything = [*call, *function(*call)]
        values = [np.array(value) for value in everything]
        tensors = [t for t in everything if isinstance(t, fw.Tensor)]
        for tensor in tensors:
            tensor *= 0.5
    objects = [next(i for i, other in enumerate(tensors) if other is t) for t in tensors]
    return objects, [*values, *map(np.array, tensors)]


def is_equal(one: Any, other: Any) -> bool:
    return one[0] == other[0] and all(
        a.dtype == b.dtype and np.allclose(a, b, 1e-9, 1e-9) for a, b in zip(one[1], other[1]))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS))
def test_a_program_of_loops(seed: int, tmp_path: Path) -> None:
    source = Writer(seed).program()
    function = function_of(source, tmp_path)
    compiled = fw.compile(function)
    for call in range(CALLS):
        number = seed * CALLS + call
        expected = outcome(function, arguments(number))
        if not is_equal(expected, outcome(function, arguments(number, 1e-13))):
            continue  # a rounding decides
        assert is_equal(expected, outcome(compiled, arguments(number))), f"{source}\n{number}"


def test_the_loops_of_a_program_run_natively(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run, calls = NativeControl.__call__, list[int]()

    def counted(self: NativeControl, *args: Any) -> Any:
        result = run(self, *args)
        calls.append(result[1])
        return result

    monkeypatch.setattr(NativeControl, "__call__", counted)
    compiled = fw.compile(function_of(Writer(FIRST + 2).program(), tmp_path))
    with fw.no_grad():
        for call in range(2 * CALLS):
            compiled(*arguments(call))
    assert sum(end >= 0 for end in calls) > CALLS // 2
    assert "loops, carrying" in str(compiled.explain())
