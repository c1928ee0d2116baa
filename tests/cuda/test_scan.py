"""Scans on a GPU: eager's numbers, but for the rounding of sums and products of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from device_runs import assert_bits, program, ran, resources
from oracle import assert_same

import fusewire as fw

SIZES = [1, 16, 17, 31, 33, 255, 257, 1000, 1025, 5000]
EXACT: dict[str, Callable[..., fw.Tensor]] = {
    "highest": lambda x, axis: fw.cummax(x, axis).values,
    "lowest": lambda x, axis: fw.cummin(x, axis).values,
}
ROUNDED: dict[str, Callable[..., fw.Tensor]] = {
    "sum": fw.cumulative_sum, "product": fw.cumulative_prod, "logcumsumexp": fw.logcumsumexp,
}


def numbers(shape: tuple[int, ...], dtype: str) -> fw.Tensor:
    drawn = np.random.default_rng(0).uniform(0.5, 1.5, shape)
    return fw.from_numpy((drawn * 99 if "int" in dtype else drawn).astype(dtype))


@pytest.mark.parametrize("size", SIZES)
def test_rows_of_every_length(size: int) -> None:
    x = numbers((3, size), "int64")
    assert_bits(lambda x: fw.cumulative_sum(x, axis=1), x, interpret=size < 2000)
    y = numbers((3, size), "float32")
    for got, want in zip(*ran(lambda y: fw.cumulative_sum(y, axis=1), y, interpret=False)):
        assert_same(got, want, 2.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32"])
@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_what_is_combined(name: str, dtype: str) -> None:
    x = numbers((2, 3, 140), dtype)
    if name == "logcumsumexp" and "int" in dtype:
        pytest.skip("of floats alone")
    scan = (EXACT | ROUNDED)[name]

    def all_axes(x: fw.Tensor) -> list[fw.Tensor]:
        return [scan(x, axis=a) for a in range(x.ndim)]

    if name in EXACT or "int" in dtype:
        assert_bits(all_axes, x)
        return
    own_functions = name == "logcumsumexp"  # of the C library, other ones than NumPy's
    for got, want in zip(*ran(all_axes, x, interpret=not own_functions)):
        assert_same(got, want, 10.0)


@pytest.mark.parametrize(("shape", "axis"), [
    ((5000,), 0), ((2, 9001), 1), ((1000, 3), 0), ((2, 700, 5), 1), ((129, 40), 0), ((300, 17), 1),
    ((9, 1, 7), 1),
])
def test_along_every_axis_in_pieces_or_not(shape: tuple[int, ...], axis: int) -> None:
    assert_bits(lambda x: fw.cumulative_sum(x, axis=axis), numbers(shape, "int64"),
                interpret=False)


@pytest.mark.parametrize("length", [300, 5000])
def test_nan_stays_and_of_equal_zeros_the_later_one_is_taken(length: int) -> None:
    drawn = np.random.default_rng(1).integers(-2, 1, (4, length)).astype(np.float32)
    drawn[drawn == 0] *= -1.0
    drawn[2, 100::3] *= -1.0
    drawn[3, length // 2] = np.nan
    given = fw.from_numpy(drawn)
    for axis, x in ((1, given), (0, fw.matrix_transpose(given))):
        for scan in EXACT.values():
            assert_bits(lambda x, s=scan, a=axis: s(x, axis=a), x, interpret=False)


def test_the_first_elements_keep_their_sign() -> None:
    zeros = np.full((2, 200), -0.0, np.float32)
    zeros[1, 7:] = 0.0
    assert_bits(lambda x: fw.cumulative_sum(x, axis=1), fw.from_numpy(zeros))


def test_infinities() -> None:
    x = np.zeros((3, 70), np.float32)
    x[0, 5], x[1, 9], x[1, 40], x[2, :] = np.inf, np.inf, -np.inf, -np.inf
    for scan in (fw.cumulative_sum, fw.logcumsumexp):
        for got, want in zip(*ran(lambda x, s=scan: s(x, axis=1), fw.from_numpy(x))):
            assert_same(got, want)


def test_of_views_and_of_what_is_computed() -> None:
    def views(x: fw.Tensor, y: fw.Tensor) -> list[fw.Tensor]:
        turned, back = fw.matrix_transpose(x), fw.flip(x, axis=1)
        many = [turned, back, x[1:, ::2], fw.broadcast_to(y, (5, 42)), x * 2 + y]
        return [fw.cumulative_sum(v, axis=a) for v in many for a in (0, 1)]

    assert_bits(views, numbers((20, 42), "int64"), numbers((42,), "int64"))


def test_gradients() -> None:
    def gradient(x: fw.Tensor, u: fw.Tensor) -> list[fw.Tensor]:
        outs = [fw.cumulative_sum(x, axis=0), fw.cumulative_prod(x, axis=1), fw.logcumsumexp(x, 1)]
        return [fw.grad(out, [x], u)[0] for out in outs]

    x, u = numbers((9, 33), "float64").requires_grad_(), numbers((9, 33), "float64")
    for got, want in zip(*ran(gradient, x, u, orders=(0, 7), interpret=False)):
        assert_same(got, want, 10.0)


@pytest.mark.parametrize(("shape", "axis", "teams"), [
    ((4000, 1000), 1, [4000]),               # a team for each row
    ((4, 1 << 16), 1, [256, 4, 256]),        # few rows, in pieces
    ((1 << 16, 4), 0, [32, 1, 32]),          # few columns, in pieces
    ((64, 1 << 14), 0, [512]),               # a thread for each column
])
def test_how_many_teams_there_are(shape: tuple[int, ...], axis: int, teams: list[int]) -> None:
    x = fw.from_numpy(np.zeros(shape, np.float32))
    made = program(lambda x: fw.cumulative_sum(x, axis=axis), x).program
    assert [made.module.functions[s.function].kernels[0].tasks for s in made.steps] == teams


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nothing_is_spilled(arch: str) -> None:
    def scans(x: fw.Tensor, y: fw.Tensor, z: fw.Tensor) -> list[Any]:
        return [fw.cumulative_sum(x, axis=a) for a in (0, 1)] + [
            fw.cumulative_prod(y, axis=1), fw.cummax(z, axis=1).values]

    given = [numbers((40, 5001), "float32"), numbers((3, 400), "float64"),
             numbers((3, 900), "float16")]
    for taken in resources(scans, *given, arch=arch).values():
        assert (taken.stack, taken.spill_stores, taken.spill_loads) == (0, 0, 0)
