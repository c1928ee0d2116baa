"""Tensors from numbers, arrays and buffers; even steps, diagonals, triangles and grids."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

import fusewire as fw


# ---- asarray
@pytest.mark.parametrize(("data", "dtype"), [
    (True, fw.bool), ([True, 2], fw.int64), ([1, 2.5], fw.float32), ([1, 2.5, 3j], fw.complex64),
    ([], fw.float32), ([[1], [2]], fw.int64), (np.float64(1), fw.float64),
    (np.zeros(2, np.int8), fw.int8), ([fw.tensor(1.0), 2], fw.float32),
    ([[fw.ones(2, dtype=fw.float64), [1, 2]]], fw.float64), ([np.int8(1), True], fw.int8),
    ([np.ones(2, np.uint8), fw.ones(2, dtype=fw.int8)], fw.int16),
    ([fw.tensor(1, dtype=fw.int8), 1.5], fw.float32)], ids=str)
def test_asarray_finds_the_dtype(data: Any, dtype: Any) -> None:
    assert fw.asarray(data).dtype == dtype


def test_asarray_of_buffers() -> None:
    assert fw.asarray(memoryview(b"ab")).tolist() == [97, 98]
    assert fw.asarray(array.array("d", [1.5, 2])).dtype == fw.float64
    assert fw.asarray(array.array("i", [1, 2]), dtype=fw.float32).tolist() == [1.0, 2.0]


def test_asarray_copies_what_it_has_to() -> None:
    owner = np.zeros(3)
    held, shared, copied = fw.asarray(owner), fw.asarray(owner, copy=False), \
        fw.asarray(owner, copy=True)
    owner[0] = 7
    assert (held[0].item(), shared[0].item(), copied[0].item()) == (0, 7, 0)
    for needs_a_copy in (lambda: fw.asarray([1, 2], copy=False), lambda: fw.asarray(1, copy=False),
                         lambda: fw.asarray(owner, dtype=fw.float32, copy=False)):
        with pytest.raises(ValueError, match="without a copy"):
            needs_a_copy()


def test_asarray_of_a_tensor() -> None:
    x = fw.ones(2).requires_grad_()
    assert fw.asarray(x, copy=False) is x and fw.asarray(x) is not x
    (fw.asarray(x, dtype=fw.float64) * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and x.grad.dtype == fw.float32


@pytest.mark.parametrize("data", ["x", object(), [1, [2]], None, [2 ** 64]],
                         ids=["text", "object", "ragged", "None", "large"])
def test_asarray_refuses_what_is_no_numbers(data: Any) -> None:
    with pytest.raises(fw.FusewireError, match="cannot make a tensor"):
        fw.asarray(data)


# ---- even steps
@pytest.mark.parametrize("arguments", [
    (5,), (2, 9), (2, 9, 3), (9, 2, -3), (0, 0), (5, 2), (-3, 4, 2), (0, 10, 11), (1, 0, -1)])
def test_arange_of_whole_numbers_is_a_range(arguments: Any) -> None:
    assert fw.arange(*arguments).tolist() == list(range(*arguments))
    assert fw.arange(*arguments, dtype=fw.float64).tolist() == list(range(*arguments))


def test_arange_is_exact_where_numbers_are_large() -> None:
    big = 2 ** 63 - 5
    assert fw.arange(big, 2 ** 63 - 1, 2).tolist() == [big, big + 2]
    assert fw.arange(-2 ** 63, 2 ** 63 - 1, 2 ** 63 - 1).tolist() == [-2 ** 63, -1, 2 ** 63 - 2]
    top = 2 ** 64 - 1
    assert fw.arange(top, top - 3, -1, dtype=fw.uint64).tolist() == [top, top - 1, top - 2]
    assert fw.arange(-128, 127, 200, dtype=fw.int8).tolist() == [-128, 72]
    assert fw.arange(2 ** 53, 2 ** 53 + 4, dtype=fw.float64)[-1].item() == 2 ** 53 + 4
    assert fw.arange(0, 2 ** 70, 2 ** 69, dtype=fw.float64).tolist() == [0, 2.0 ** 69]


def test_arange_of_fractions_is_rounded_once() -> None:
    x = fw.arange(0, 1000, 0.1)
    assert x.dtype == fw.float32 and x.shape == (10000,)
    np.testing.assert_array_equal(x.numpy(), (np.arange(10000) * 0.1).astype(np.float32))
    assert fw.arange(1.5).tolist() == [0.0, 1.0] and fw.arange(0, 1, -0.5).shape == (0,)
    with pytest.raises(fw.ShapeError, match="step is 0"):
        fw.arange(0, 1, 0)


def test_linspace_meets_both_ends() -> None:
    for start, stop in ((0.1, 0.7), (-1e30, 3e30), (5, -5), (0.1, 0.1)):
        x = fw.linspace(start, stop, 51, dtype=fw.float64)
        assert (x[0].item(), x[-1].item()) == (start, stop)
        np.testing.assert_allclose(x.numpy(), np.linspace(start, stop, 51), rtol=1e-14, atol=1e-15)
    assert fw.linspace(-1.7e308, 1.7e308, 3, dtype=fw.float64).tolist() == [-1.7e308, 0.0, 1.7e308]
    assert fw.linspace(1, 2, 0).shape == (0,) and fw.linspace(3, 4, 1).tolist() == [3.0]
    assert fw.linspace(0, 4, 4, endpoint=False).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_linspace_of_complex_numbers() -> None:
    x = fw.linspace(1, 3 + 4j, 3)
    assert x.dtype == fw.complex64 and x.tolist() == [1 + 0j, 2 + 2j, 3 + 4j]
    assert fw.linspace(0, 1, 2, dtype=fw.complex128).dtype == fw.complex128
    with pytest.raises(fw.DTypeError, match="float32 does not hold complex"):
        fw.linspace(0, 1j, 2, dtype=fw.float32)
    with pytest.raises(fw.ShapeError, match="num is a whole number"):
        fw.linspace(0, 1, -1)


# ---- filled, and like others
def test_filled() -> None:
    assert fw.zeros((2, 3)).shape == fw.zeros(2, 3).shape == fw.empty([2, 3]).shape == (2, 3)
    assert fw.ones(4).shape == (4,) and fw.zeros().shape == fw.ones(()).shape == ()
    assert [fw.full(1, v).dtype for v in (True, 1, 1.0, 1j)] == [
        fw.bool, fw.int64, fw.float32, fw.complex64]
    assert fw.full((), 2 ** 64 - 1, dtype=fw.uint64).item() == 2 ** 64 - 1
    assert fw.full((), 1e300).item() == float("inf")
    x = fw.zeros(2, dtype=fw.int8)
    assert [fw.empty_like(x).dtype, fw.ones_like(x, dtype=fw.bool).dtype] == [fw.int8, fw.bool]
    assert fw.full_like(x, 3, device="cpu").tolist() == [3, 3]
    with pytest.raises(fw.DeviceError, match="'tpu' is not available"):
        fw.zeros_like(x, device="tpu")


# ---- diagonals, triangles, grids
@pytest.mark.parametrize("k", [-2 ** 70, -5, -1, 0, 1, 5, 2 ** 63])
def test_diagonals_and_triangles_are_numpys(k: int) -> None:
    a, near = np.arange(1, 25).reshape(2, 3, 4), max(-9, min(k, 9))
    np.testing.assert_array_equal(fw.eye(3, 4, k=k).numpy(), np.eye(3, 4, k=near))
    np.testing.assert_array_equal(fw.tril(fw.asarray(a), k=k).numpy(), np.tril(a, near))
    np.testing.assert_array_equal(fw.triu(fw.asarray(a), k=k).numpy(), np.triu(a, near))


def test_triangles_keep_dtypes_and_have_gradients() -> None:
    x = fw.ones(2, 2, dtype=fw.float64).requires_grad_()
    fw.triu(x * 2).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [0.0, 2.0]]
    for dtype in (fw.bool, fw.uint8, fw.bfloat16, fw.complex64):
        assert fw.tril(fw.ones(2, 3, dtype=dtype)).dtype == fw.eye(2, dtype=dtype).dtype == dtype
    assert fw.tril(fw.full((2, 2), float("nan")))[0, 1].item() == 0
    with pytest.raises(fw.ShapeError, match="tril: needs matrices"):
        fw.tril(fw.ones(3))


def test_grids_are_numpys() -> None:
    vectors = [np.arange(2), np.arange(3.0), np.arange(4)]
    for count in range(4):
        for indexing in ("xy", "ij"):
            got = fw.meshgrid(*map(fw.asarray, vectors[:count]), indexing=indexing)
            expected = np.meshgrid(*vectors[:count], indexing=indexing)
            assert type(got) is tuple and len(got) == count
            for g, e in zip(got, expected):
                np.testing.assert_array_equal(g.numpy(), e)
    with pytest.raises(fw.ShapeError, match="indexing is 'xy' or 'ij'"):
        fw.meshgrid(fw.ones(2), indexing="yx")
    with pytest.raises(fw.ShapeError, match="takes vectors"):
        fw.meshgrid(fw.ones(2, 2))
