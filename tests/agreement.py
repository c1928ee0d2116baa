"""A function compiled gives what it gives eager: results, arguments it changes, state it keeps."""

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
    """Calls what `make` makes, once eager and once compiled, each with its own state and copies of
    the arguments; the compiled function. What is not to be recorded whole may warn. At most so many
    `recordings` are made, where given.

    `make` gives a function, or a function and a list of what else is to be compared."""
    (eager, kept), (plain, own) = _parts(make()), _parts(make())
    compiled = fw.compile(plain, fullgraph=fullgraph)
    results: list[tuple[Any, Any]] = []
    for number, args in enumerate(calls):
        given, other = copy.deepcopy(tuple(args)), copy.deepcopy(tuple(args))
        fw.manual_seed(number)
        want = eager(*given)
        fw.manual_seed(number)
        with warnings.catch_warnings():
            if not fullgraph:
                warnings.simplefilter("ignore", CaptureWarning)
            got = compiled(*other)
        results.append((got, want))
        assert_equal([got, other, own], [want, given, kept], f"call {number}")
    assert_equal(*map(list, zip(*results)), "in the end")  # outputs are kept over later calls
    if recordings:
        assert compiled.stats.recordings <= recordings, compiled.explain()
    return compiled


def assert_equal(got: Any, want: Any, where: str = "") -> None:
    """Both are the same to whoever looks: types, values, gradients, and what is one object."""
    difference = differs(freeze(got), freeze(want))
    assert not difference, f"{where}: {difference}"


def _parts(made: Any) -> tuple[Any, Any]:
    return made if isinstance(made, tuple) else (made, [])
