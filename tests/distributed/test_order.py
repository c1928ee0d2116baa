"""Collectives happen once and in the order of the program, whether a rank records or replays.

More random programs: `FUSEWIRE_TEST_PROGRAMS=1000 pytest tests/distributed/test_order.py`.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from collective_programs import Writer

import fusewire as fw
import fusewire.distributed as dist
from fusewire.capture.replay.replay import NOT_TRACED
from fusewire.distributed.groups import membership

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "40"))
FIRST = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS_FROM", "0"))
CALLS = 4


def log() -> list[str]:
    """The collectives of this rank so far."""
    return membership().engine.log  # type: ignore[attr-defined]


def function_of(seed: int) -> Callable[..., Any]:
    """The step of a random program; ranks that share its code object share line numbers."""
    scope: dict[str, Any] = {"fw": fw, "dist": dist, "__name__": "random_program"}
    exec(compile(Writer(seed).program(), f"program{seed}.py", "exec"), scope)
    return scope["step"]  # type: ignore[no-any-return]


def run(seed: int, compiled: bool) -> tuple[list[str], list[Any]]:
    """The log of one rank and its results. Compiled, it forgets its recordings, checks them or
    runs Python at random, so some ranks record while others replay."""
    step, rank = function_of(seed), dist.get_rank()
    choose = random.Random(seed * 10 + rank)
    check: Any = choose.choice([None, None, None, "always"])
    called = fw.compile(step, check=check) if compiled else step
    w = fw.tensor(np.random.default_rng(seed).standard_normal(4)).requires_grad_()
    results = []
    for call in range(CALLS):
        x = np.random.default_rng([seed, call % 3, rank]).standard_normal(4)
        what = choose.random() if compiled else 1.0
        if what < 0.2:
            called.clear()
        elif what < 0.35:
            called.explain()
        x = fw.tensor(x).requires_grad_()
        values = (step if 0.35 <= what < 0.5 else called)(x, w)
        if values[0].edge is not None:
            w.grad = None
            values[0].backward()  # outside of the compiled function
            values.append(w.grad)
        results.append([v.detach().numpy() for v in values])
    return list(log()), results


@pytest.mark.parametrize("part", range(10))
def test_random_programs_with_recordings_that_diverge(part: int) -> None:
    for seed in range(FIRST + part, FIRST + PROGRAMS, 10):
        ranks = 2 + 2 * (seed % 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # graph breaks
            eager = dist.run_fake(ranks, run, seed, False, timeout=60)
            compiled = dist.run_fake(ranks, run, seed, True, timeout=60)
        for (log, values), (log_of_rank, found) in zip(eager, compiled):
            assert log_of_rank == log, f"program {seed}"
            for one, other in zip(values, found):
                for a, b in zip(one, other):
                    np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12, err_msg=str(seed))


def test_a_check_after_a_loop_had_to_be_unrolled() -> None:
    """The gradient of an iteration has a collective, so later traces unroll the loop. The program
    of a call with one iteration was traced before: it is right, though its path differs."""
    def step(x: Any, w: Any) -> Any:
        v, n = x * 1, x.sum()
        while n < 1:
            v, n = dist.replicate_values(w), n + 0.7
        w.grad = None
        (v * v).sum().backward()
        return w.grad + 0

    def run() -> list[float]:
        called, w = fw.compile(step, check="always"), fw.ones(2).requires_grad_()
        return [float(called(fw.full((2,), v).requires_grad_(), w)[0]) for v in (0.25, -0.6, 0.25)]

    assert dist.run_fake(2, run) == [[4.0] * 3] * 2


@pytest.mark.parametrize("calls", [1, 3, 9])
def test_a_collective_that_failed_is_not_issued_again(calls: int) -> None:
    """In the first call, in a replay, and on the fast path, rank 1 does not come."""
    logs: dict[int, int] = {}

    def run() -> None:
        step = fw.compile(lambda x: dist.all_reduce(x + 1) * 2)
        for _ in range(calls - dist.get_rank()):
            step(fw.ones(3))
        logs[dist.get_rank()] = 0

    def counting() -> None:
        try:
            run()
        finally:
            logs[dist.get_rank()] = len(log())

    with pytest.raises(fw.CollectiveError, match="rank 0 waited"):
        dist.run_fake(2, counting, timeout=0.2)
    assert logs == {0: calls, 1: calls - 1}


def test_fast_paths_of_calls_with_collectives() -> None:
    """Calls take the fast path. A decision after a collective sends a call back to Python, which
    issues it once."""
    def run() -> tuple[list[float], int, bool]:
        def step(x: Any) -> Any:
            total = dist.all_reduce(x)
            return total * 2 if float(total.sum()) > 0 else total * 3

        called = fw.compile(step)
        values = [float(called(fw.full((2,), v))[0]) for v in (*[1.0] * 8, -1.0, -1.0, 1.0)]
        issued = len(log())
        return values, issued, any(p.direct((fw.ones(2),), {}) is not NOT_TRACED
                                   for p in called.programs)

    for values, issued, is_fast in dist.run_fake(2, run):
        assert values == [*[4.0] * 8, -6.0, -6.0, 4.0]
        assert issued == len(values)
        assert is_fast
