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
from fusewire.distributed.groups import membership

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "100"))
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
