"""Indices that fit in 32 bits: their ranges contain all values that they can have."""

from __future__ import annotations

import itertools

import pytest
from emulated import run_kernels
from loop_kernels import INT, compare_all, kernel, loop

from emulator.emulator import AVAILABLE
from fusewire.codegen.gpu.index_narrowing import Ranges
from fusewire.codegen.ir.loop_ir import KernelBuffer, Store, Var, call, const
from fusewire.codegen.ir.scalar_ops import SCALAR

SPANS = [(-5, -2), (-3, 4), (0, 1), (0, 6), (3, 9), (6, 6)]
OPS = ["add", "sub", "mul", "minimum", "maximum", "and", "xor", "shl", "shr"]


@pytest.mark.parametrize("op", OPS)
def test_a_range_holds_every_value(op: str) -> None:
    x, y = Var("x"), Var("y")
    known = 0
    for first, second in itertools.product(SPANS, SPANS):
        ranges = Ranges()
        for var, (low, high) in ((x, first), (y, second)):
            ranges.bind(var, (low, low), (high + 1, high + 1))
        found = ranges.of(call(op, (x, y), INT))
        if found is not None:
            known += 1
            values = [int(SCALAR[op].function(a, b)) for a in range(first[0], first[1] + 1)
                      for b in range(second[0], second[1] + 1)]
            assert found[0] <= min(values) and max(values) <= found[1], (first, second)
    assert known >= 16


@pytest.mark.parametrize(("op", "by", "fits"), [
    ("shl", 22, True), ("shl", 23, False), ("shl", 31, False), ("shl", -1, False),
    ("shr", 30, True), ("shr", 31, False), ("and", -256, True), ("xor", -1, False)])
def test_what_32_bits_would_get_wrong_has_64(op: str, by: int, fits: bool) -> None:
    x, ranges = Var("x"), Ranges()
    ranges.bind(x, (0, 0), (300, 300))
    assert ranges.fits(call(op, (x, const(by)), INT)) is fits


@pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")
def test_bits_of_indices() -> None:
    """In 32 bits and in 64 they are the same."""
    kernels = []
    for op, by in (("and", -4), ("and", 5), ("xor", 21), ("shl", 5), ("shl", 40), ("shr", 2)):
        out, i = KernelBuffer("out", INT, 40), Var("i")
        store = Store(out, i, call(op, (i, const(by)), INT))
        kernels.append(kernel([], [out], [loop(i, 40, store, lanes=40)]))
    compare_all(kernels, run_kernels)
