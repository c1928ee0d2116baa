"""Each kind of computation has one program for all sizes, and is right at each of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dynamic_rows import ROWS, Row
from oracle import assert_same
from sized_programs import sized_program

import fusewire as fw
from fusewire.capture.graph.bind_sizes import bind_sizes
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.compile import compile_dynamic

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "12"))
SIZES = (1, 2, 3, 5, 7, 8, 11, 13, 15, 16, 17, 23, 31, 32, 33, 47, 53, 60, 61, 63, 64)
"""Primes, powers of two, sizes beside them, and the capacity."""


@pytest.mark.parametrize("name", ROWS)
def test_one_program_is_right_at_all_sizes(name: str) -> None:
    row = ROWS[name]
    graph = row.graph()
    program = compile_dynamic(graph, row.sizes(max(SIZES)))
    checked = 0
    for size in SIZES:
        sizes = row.sizes(size)
        arrays: list[Any] = row.arrays(sizes, size)
        with np.errstate(all="ignore"):
            expected = evaluate(bind_sizes(graph, sizes), arrays)
        if program.has_room(sizes):
            checked += 1
            for got, want in zip(program.bind(sizes)(list(arrays)), expected, strict=True):
                assert got.shape == want.shape
                assert_same(got, want, row.ulps, f"{name} at {sizes}")
    assert checked >= len(SIZES) - 2


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program_is_right_at_twenty_sets_of_sizes(seed: int) -> None:
    program = sized_program(seed)
    row, rng = program.row(), np.random.default_rng(seed)
    graph = row.graph()
    compiled = compile_dynamic(graph, dict.fromkeys(row.names(), 40))
    for _ in range(20):
        sizes = {name: int(rng.integers(3, 41)) for name in row.names()}
        arrays: list[Any] = row.arrays(sizes, seed)
        with np.errstate(all="ignore"):
            expected = evaluate(bind_sizes(graph, sizes), arrays)
        for got, want in zip(compiled.bind(sizes)(list(arrays)), expected, strict=True):
            assert_same(got, want, row.ulps, f"{program}\nat {sizes}")


@pytest.mark.parametrize("function", [
    lambda x: x[1:].T * 2, lambda x: x[1:].sum(axis=0), lambda x: x[1:] @ x[1:].T,
    lambda x: fw.concat([x[1:], x], axis=0), lambda x: x[1:].reshape(2, -1) + 1,
    lambda x: fw.tanh(x[1:]).permute_dims((1, 0)).sum(axis=0), lambda x: fw.cumsum(x[1:], 1)])
def test_a_value_may_have_no_elements(function: Callable[..., Any]) -> None:
    row = Row(function, (("n", 6),), least=1)
    graph = row.graph()
    program = compile_dynamic(graph, {"n": 30})
    for n in (1, 2, 3, 1, 30):
        arrays: list[Any] = row.arrays({"n": n})
        (want,) = evaluate(bind_sizes(graph, {"n": n}), arrays)
        (got,) = program.bind({"n": n})(list(arrays))
        assert_same(got, want, 30, f"at {n}")
