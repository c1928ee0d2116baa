"""Runs functions with graph breaks and compares them with eager. No lazy value outlives a call."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import assert_same

import fusewire as fw
from fusewire.capture.graph_breaks.runner import GraphBreakRunner
from fusewire.capture.lazy.lazy_array import LazyArray
from fusewire.codegen.compile import compile_graph

X = fw.from_numpy(np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32))
W = fw.from_numpy(np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32))
T = fw.from_numpy(np.random.default_rng(2).integers(0, 4, 6))


def waiting() -> list[Any]:
    """All lazy values of this process."""
    gc.collect()  # frames of exceptions may refer to some
    return [x for x in gc.get_objects() if type(x) is LazyArray]


class Run:
    """Calls a function as subgraphs between graph breaks."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn, self.graph_breaks = fn, GraphBreakRunner(compile_graph)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.graph_breaks.run(self.fn, args, kwargs)
        finally:
            assert not waiting()


def check(fn: Callable[..., Any], *args: Any, calls: int = 4,
          loose: float = 1.0) -> GraphBreakRunner:
    """The runner after several calls of `fn`. Asserts that the results are those of eager."""
    run = Run(fn)
    for _ in range(calls):
        compare(run(*args), fn(*args), loose)
    return run.graph_breaks


def compare(got: Any, expected: Any, loose: float = 1.0) -> None:
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for x, y in zip(got, expected):
            compare(x, y, loose)
    elif isinstance(expected, (fw.Tensor, np.ndarray)):
        assert_same(got, expected, loose)
    elif isinstance(expected, (float, complex)):
        np.testing.assert_allclose(got, expected, 1e-4 * loose)
    else:
        assert got == expected
