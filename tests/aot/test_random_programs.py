"""Random programs with control flow: a library gives what Python gives, or its build says why it
cannot."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_calls import code_and_outputs
from c_programs import HERE
from programs.judging import Endless, is_steady, watched
from programs.running import RELATIVE, outcomes
from programs.writing import Program, write

import fusewire as fw
from fusewire.export.aot.abi import Code

pytestmark = pytest.mark.skipif(bool(HERE.missing), reason=f"not here: {HERE.missing}")

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "10"))
START = 1000  # programs below this number were used for development
AT_ONCE = 10
# What a function without side effects can do. The others change objects, or read the values that
# a library cannot tell.
FEATURES = ["early", "for", "helper", "item", "list", "logic", "mode", "random", "recursion",
            "rows", "while", "if", "layer", "numbers"]
SIZE = 9  # statements: the paths of larger functions are too many
RESULTS = ["({vector}, {scalar}, {float})", "({var:vector}, {scalar}, {float})"]
LEAST = 0.15  # of all calls, that are compared
PATIENCE = 5.0  # seconds of a build: some functions have hundreds of paths


def tensors(value: Any) -> Iterator[fw.Tensor]:
    """The tensors of a result; its numbers as tensors."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    else:
        yield value if isinstance(value, fw.Tensor) else fw.tensor(value)


class Libraries:
    """A function of a program. Each call is made of its library, too, and the results compared."""

    def __init__(self, program: Program, fn: Callable[..., Any], folder: Path) -> None:
        self.program, self.fn, self.folder = program, fn, folder
        self.built: dict[Any, tuple[str, int] | None] = {}
        self.refused: dict[str, None] = {}
        self.calls = self.compared = 0

    def __call__(self, x: fw.Tensor, v: fw.Tensor, k: float, n: int, mode: Any) -> Any:
        fw.manual_seed(self.calls)
        try:
            result = self.fn(x, v, k, n, mode)
        except Exception:
            return None
        library = self._library(x, v, k, n, mode)
        state = np.array([self.calls, 0])
        self.calls += 1
        if library is not None:
            self._compare(library, [x.numpy(), v.numpy()], state, result)
        return result

    def _library(self, *args: Any) -> tuple[str, int] | None:
        """The path of the library for arguments of this kind, and the number of its states."""
        key = tuple(a.shape if isinstance(a, fw.Tensor) else (type(a), a) for a in args)
        if key not in self.built:
            folder = self.folder / str(len(self.built))
            folder.mkdir()
            self.built[key] = None
            try:
                with watched(self.program, PATIENCE):
                    built = fw.aot.build(lambda *given: tuple(tensors(self.fn(*given))), args,
                                         folder / "model", library=True)
                self.built[key] = str(folder / "model.so"), len(built.inputs) - 2
            except fw.ExportError as error:
                self.refused[str(error)] = None
            except Endless:
                self.refused["a build takes long\n  at: many places"] = None
        return self.built[key]

    def _compare(self, library: tuple[str, int], inputs: list[Any], state: Any, result: Any
                 ) -> None:
        path, states = library
        wanted = [t.numpy() for t in tensors(result)]
        code, found = code_and_outputs(path, [*inputs, *[state] * states], wanted)
        assert code == Code.OK, code
        self.compared += 1
        for got, want in zip(found, wanted):
            near = RELATIVE.get(want.dtype.itemsize, 0) if want.dtype.kind == "f" else 0
            assert np.allclose(got, want, near, near, equal_nan=True), (got, want)
        assert not states or state.tolist() == fw.get_rng_state().tolist(), state


def program_of(seed: int) -> Program:
    """The program of this number."""
    return write(seed, FEATURES, SIZE, RESULTS)


def judged(program: Program, folder: Path) -> Libraries:
    """The libraries of a program. AssertionError where one differs by more than rounding."""
    made: list[Libraries] = []

    def wrap(fn: Any) -> Libraries:
        made.append(Libraries(program, fn, folder))
        return made[0]

    found, _ = outcomes(program, wrap)
    wrong = [o.error for o in found if o.error.startswith("AssertionError")]
    assert not wrong or not is_steady(program), f"{program}\n{wrong[0]}"
    others = [o.error for o in found if o.error and not o.error.startswith("AssertionError")]
    assert not others, f"{program}\n{others[0]}"
    return made[0]


@pytest.mark.parametrize("start", range(START, START + PROGRAMS, AT_ONCE))
def test_programs(start: int, tmp_path: Path) -> None:
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(start, start + AT_ONCE):
        folder = tmp_path / str(seed)
        folder.mkdir()
        libraries = judged(program_of(seed), folder)
        counts["calls"] += libraries.calls
        counts["compared"] += libraries.compared
        assert all("\n  at: " in why for why in libraries.refused), libraries.refused
    assert counts["compared"] >= LEAST * counts["calls"], counts
