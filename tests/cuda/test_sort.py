"""The order of elements on a GPU: NumPy's stable one, for rows of every length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from device_runs import assert_bits, program, resources

import fusewire as fw

LENGTHS = [1, 2, 31, 33, 64, 65, 255, 257, 1000]
DTYPES = ["float32", "float64", "float16", "int64", "int32", "int8", "uint16", "bool"]


def numbers(shape: tuple[int, ...], dtype: str = "float32", most: int = 40) -> fw.Tensor:
    """Few different numbers, so that many are equal; those of floats have both zeros."""
    drawn = np.random.default_rng(len(shape)).integers(0 if "u" in dtype else -most, most, shape)
    found = (drawn % 2 if dtype == "bool" else drawn).astype(dtype)
    return fw.from_numpy(np.where(drawn == 0, -found, found) if "float" in dtype else found)


def order(axis: int = -1, descending: bool = False) -> Callable[[fw.Tensor], fw.Tensor]:
    return lambda x: fw.argsort(x, axis=axis, descending=descending)


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_every_length(length: int) -> None:
    assert_bits(order(), numbers((3, length)), interpret=length < 70)


@pytest.mark.parametrize("length", [9000, 20_481])
def test_rows_longer_than_shared_memory(length: int) -> None:
    """In three pieces, and in six: a run that stays alone is filled up."""
    assert_bits(order(descending=length > 9000), numbers((1, length), most=900), interpret=False,
                orders=(7,), mode="fast")


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    def orders(*xs: fw.Tensor) -> list[fw.Tensor]:
        return [order(descending=down)(x) for x in xs for down in (False, True)]

    assert_bits(orders, numbers((5, 50), dtype), numbers((2, 100), dtype), interpret=False,
                orders=(7,))


@pytest.mark.parametrize("length", [40, 300])
def test_nan_comes_last_and_zeros_are_equal(length: int) -> None:
    drawn = np.random.default_rng(2).choice(
        np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1.0], np.float32), (2, length))
    for descending in (False, True):
        assert_bits(order(descending=descending), fw.from_numpy(drawn), interpret=False,
                    orders=(0, 7))


@pytest.mark.parametrize("shape", [(3, 40), (2, 300), (300, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_values_in_order(shape: tuple[int, int], dtype: str) -> None:
    """What is a call of NumPy on the CPU: by the order, from where the values are read."""
    x = numbers(shape, dtype)
    if "float" in dtype:
        x[1, ::7] = float("nan")
    for axis, descending in ((0, False), (1, True)):
        assert_bits(lambda x, a=axis, d=descending: fw.sort(x * 1, a, d), x, interpret=False,
                    orders=(0, 7))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64"])
def test_the_largest_integers(dtype: str) -> None:
    """Equal to what fills up a piece: places tell them apart."""
    drawn = np.full((2, 150), np.iinfo(dtype).max, dtype)
    drawn[1, ::7] = np.iinfo(dtype).min
    for descending in (False, True):
        assert_bits(order(descending=descending), fw.from_numpy(drawn), interpret=False,
                    orders=(7,))


@pytest.mark.parametrize(("length", "count"), [(30, 1), (30, 29), (70, 4), (9000, 5000),
                                               (9000, 10), (20_481, 6000)])
def test_the_first_few(length: int, count: int) -> None:
    long = length > 100
    assert_bits(lambda x: tuple(fw.topk(x, count, largest=long)), numbers((2, length)),
                interpret=not long, orders=(7,), mode="fast" if long else "check")


def test_pieces_in_every_order_of_threads() -> None:
    assert_bits(lambda x: fw.topk(x, 20)[1], numbers((1, 9000)), interpret=False, orders=(0, 1))


def test_along_other_axes_and_of_views() -> None:
    def orders(x: fw.Tensor) -> list[fw.Tensor]:
        return [order(axis)(v) for v in (x, fw.flip(x, axis=1), x[:, ::2], x * x)
                for axis in range(3)]

    assert_bits(orders, numbers((3, 80, 5)), interpret=False)


@pytest.mark.parametrize(("shape", "teams"), [
    ((1000, 8), [63]),                # short rows: a thread for each element
    ((500, 1000), [500]),             # a team for each row
    ((2, 10_000), [6, 96, 128]),      # pieces of 4,096, and two merges
])
def test_how_many_teams_there_are(shape: tuple[int, int], teams: list[int]) -> None:
    made = program(order(), fw.from_numpy(np.zeros(shape, np.float32))).program
    assert [made.module.functions[s.function].kernels[0].tasks for s in made.steps] == teams


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nothing_is_spilled(arch: str) -> None:
    def orders(*xs: fw.Tensor) -> list[fw.Tensor]:
        return [order()(x) for x in xs]

    given = [numbers((2, 50)), numbers((2, 9000)), numbers((2, 5000), "float64"),
             numbers((2, 300), "float16")]
    for taken in resources(orders, *given, arch=arch).values():
        assert (taken.stack, taken.spill_stores, taken.spill_loads) == (0, 0, 0)
