"""Random programs, saved before each call and loaded: what a loaded function gives for a call, and
makes of its arguments, is what the original gives; or it says that it was not saved for that."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
from programs.running import differs, freeze, outcomes
from programs.writing import write

import fusewire as fw
from fusewire.capture.graph.bind_sizes import has_symbols
from fusewire.capture.graph.graph import Graph
from fusewire.capture.replay.compiled_function import Compiled
from fusewire.codegen.dynamic.specializations import DynamicExecutable
from fusewire.codegen.partition.hybrid_executable import op_by_op
from fusewire.eager.errors import ArgumentError, ExportError

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "10"))
AT_ONCE = 10
LEAST = 0.15  # of all calls, that are compared


def by_ops(graph: Graph) -> Any:
    """A graph as an executable without code of its own: nothing is compiled."""
    return DynamicExecutable(graph, op_by_op) if has_symbols(graph) else op_by_op(graph)


class Beside:
    """A compiled function; each call is made of what is loaded as well, if it can be."""

    def __init__(self, fn: Any, path: Path, seed: int) -> None:
        self.compiled, self.path, self.seed = Compiled(fn, by_ops), path, seed
        self.calls = self.compared = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        given = copy.deepcopy((args, kwargs))
        args, kwargs = copy.deepcopy((args, kwargs))  # arguments are no part of the state
        fw.manual_seed(self.seed + self.calls)
        found = self._loaded(*given)
        fw.manual_seed(self.seed + self.calls)
        try:
            result = self.compiled(*args, **kwargs)
        except Exception as error:
            assert found is None or found == type(error).__name__, (found, error)
            raise
        if found is not None:
            self.compared += 1
            assert not isinstance(found, str), found
            assert not differs(found, freeze([result, args, kwargs]))
        return result

    def _loaded(self, args: Any, kwargs: Any) -> Any:
        """What is seen of a loaded call; the name of what it raises; None where it does not fit."""
        try:
            self.compiled.save(self.path)
            result = fw.load_compiled(self.path)(*args, **kwargs)
        except ExportError:
            return None
        except ArgumentError as error:
            return None if "was not saved for this call" in str(error) else type(error).__name__
        except Exception as error:
            return type(error).__name__
        return freeze([result, args, kwargs])


@pytest.mark.parametrize("start", range(0, PROGRAMS, AT_ONCE))
def test_programs(start: int, tmp_path: Path) -> None:
    calls = compared = 0
    for seed in range(start, start + AT_ONCE):
        program = write(seed)
        beside: list[Beside] = []

        def wrap(fn: Any, seed: int = seed, beside: list[Beside] = beside) -> Beside:
            beside.append(Beside(fn, tmp_path / f"{seed}.fw", seed))
            return beside[0]

        found, _ = outcomes(program, wrap)
        wrong = [o.error for o in found if o.error.startswith("AssertionError")]
        assert not wrong, f"{program}\n{wrong[0]}"
        calls, compared = calls + beside[0].calls, compared + beside[0].compared
    assert compared >= LEAST * calls, f"{compared} of {calls} calls were compared"
