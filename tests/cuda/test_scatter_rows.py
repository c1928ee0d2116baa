"""Rows written at indices known only at run time, on a GPU: of several rows for an index the last
one remains, whichever thread comes first."""

from __future__ import annotations

import numpy as np
import pytest
from device_runs import assert_bits, program, resources

import fusewire as fw
from fusewire.eager.ops.indexing.index_put import index_put

MANY = 1030  # rows that are put in order first


def numbers(*shape: int, dtype: str = "float32") -> fw.Tensor:
    drawn = np.random.default_rng(len(shape)).integers(-99, 99, shape)
    return fw.from_numpy(drawn.astype(dtype))


def places(*shape: int, below: int) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(1).integers(0, below, shape))


@pytest.mark.parametrize(("x", "i"), [
    ((5, 2), (3,)), ((4,), (2, 3)), ((3, 2), ()), ((3, 2), (0,)), ((9, 3, 17), (4, 1, 5)),
    ((2, 33), (70,)), ((1, 1), (6,)),
])
def test_rows_of_every_shape(x: tuple[int, ...], i: tuple[int, ...]) -> None:
    assert_bits(index_put, numbers(*x), numbers(*i, *x[1:]), places(*i, below=x[0]))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("count", [9, MANY])
def test_dtypes(count: int, dtype: str) -> None:
    assert_bits(index_put, numbers(50, 3, dtype=dtype), numbers(count, 3, dtype=dtype),
                places(count, below=50), interpret=False, orders=(7,))


def test_the_last_of_several_rows_for_a_place_stays() -> None:
    """Also where several teams write a row."""
    assert_bits(index_put, numbers(2, 2500), numbers(6, 2500), fw.tensor([1, 0, 1, 1, 0, 1]),
                interpret=False)


@pytest.mark.parametrize("below", [1, 3, 4000])
def test_many_rows(below: int) -> None:
    assert_bits(index_put, numbers(below, 2), numbers(10, 103, 2), places(10, 103, below=below),
                interpret=False)


@pytest.mark.parametrize("count", [7, MANY])
def test_of_what_is_computed(count: int) -> None:
    def put(x: fw.Tensor, v: fw.Tensor, i: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        return index_put(x.T * 2.0, v[::-1] + 1.0, (i * 2) % 3) * 3.0, x + 1.0

    assert_bits(put, numbers(4, 3), numbers(count, 4), places(count, below=3), interpret=False)


def test_rows_of_the_array_itself_are_read_before_any_is_written() -> None:
    assert_bits(lambda x, i: index_put(x, x, i), numbers(7, 3), fw.tensor([1, 2, 3, 4, 5, 6, 0]))


def test_gradients() -> None:
    def gradients(x: fw.Tensor, v: fw.Tensor, i: fw.Tensor, u: fw.Tensor) -> list[fw.Tensor]:
        return fw.grad(index_put(x, v, i), [x, v], u)

    x, v = numbers(6, 3).requires_grad_(), numbers(9, 3).requires_grad_()
    assert_bits(gradients, x, v, places(9, below=6), numbers(6, 3), interpret=False)


@pytest.mark.parametrize(("count", "width", "teams"), [
    (300, 64, [300]),                # a team for each row
    (2, 5000, [10]),                 # five for each
    (MANY, 64, [1, 258]),            # their order, and a thread for each element
])
def test_how_many_teams_there_are(count: int, width: int, teams: list[int]) -> None:
    made = program(lambda x, v, i: index_put(x, v, i), numbers(8, width), numbers(count, width),
                   places(count, below=8)).program
    functions = [made.module.functions[s.function] for s in made.steps]
    tasks = {f.name: f.kernels[0].tasks for f in functions}
    assert [n for name, n in tasks.items() if not name.endswith("copy")] == teams


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nothing_is_spilled(arch: str) -> None:
    for count in (40, MANY):
        taken = resources(index_put, numbers(9, 1500), numbers(count, 1500),
                          places(count, below=9), arch=arch)
        for each in taken.values():
            assert (each.stack, each.spill_stores, each.spill_loads) == (0, 0, 0)
