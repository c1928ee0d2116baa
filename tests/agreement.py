"""Compares a compiled function with the eager one: results, changed arguments and state."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from programs.running import differs, freeze

import fusewire as fw
from fusewire.capture.runtime.warnings import CaptureWarning


def agree(
    make: Callable[[], Any], *calls: Sequence[Any], fullgraph: bool = True, recordings: int = 0,
) -> Any:
    """The compiled function, after calls of it and of the eager function, which have to agree. Each
    of them has its own state and copies of the arguments.

    `make` returns a function, or a function and a list of state to compare. `fullgraph`: if False,
    graph breaks are allowed. `recordings`: the most recordings that are allowed; 0 for any number.
    """
    (eager, eager_state), (traced, compiled_state) = _parts(make()), _parts(make())
    compiled = fw.compile(traced, fullgraph=fullgraph)
    results: list[tuple[Any, Any]] = []
    for number, args in enumerate(calls):
        eager_args, compiled_args = copy.deepcopy(tuple(args)), copy.deepcopy(tuple(args))
        fw.manual_seed(number)
        want = eager(*eager_args)
        fw.manual_seed(number)
        with warnings.catch_warnings():
            if not fullgraph:
                warnings.simplefilter("ignore", CaptureWarning)
            got = compiled(*compiled_args)
        results.append((got, want))
        assert_equal([got, compiled_args, compiled_state], [want, eager_args, eager_state],
                     f"call {number}")
    assert_equal(*map(list, zip(*results)), "in the end")  # later calls do not overwrite outputs
    if recordings:
        assert compiled.stats.recordings <= recordings, compiled.explain()
    return compiled


def assert_equal(got: Any, want: Any, where: str = "") -> None:
    """Asserts that both have equal types, values and gradients, and share objects equally."""
    difference = differs(freeze(got), freeze(want))
    assert not difference, f"{where}: {difference}"


def _parts(result: Any) -> tuple[Any, Any]:
    return result if isinstance(result, tuple) else (result, [])
