"""Tensors as sets of values."""

from __future__ import annotations

import pytest

import fusewire as fw

NAN = float("nan")


def test_unique_all_says_where_values_are() -> None:
    x = fw.tensor([[3, 1], [1, 2]])
    values, indices, inverse, counts = fw.unique_all(x)
    assert values.tolist() == [1, 2, 3] and counts.tolist() == [2, 1, 1]
    assert indices.tolist() == [1, 3, 0], "the first of each, in row-major order"
    assert inverse.shape == x.shape and values[inverse].tolist() == x.tolist()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_every_nan_is_a_value_of_its_own(dtype: str) -> None:
    x = fw.tensor([NAN, 1.0, NAN, -0.0, 0.0]).astype(dtype)
    found = fw.unique_counts(x)
    assert found.values.dtype == x.dtype
    assert found.counts.tolist() == [2, 1, 1, 1], "zeros of either sign are equal"
    assert fw.unique_values(x).shape == (4,)
    assert fw.unique_inverse(x).inverse_indices.shape == x.shape


def test_unique_of_nothing_and_of_one() -> None:
    assert fw.unique_values(fw.zeros(0, 3)).shape == (0,)
    found = fw.unique_all(fw.tensor(5))
    assert found.values.tolist() == [5] and found.inverse_indices.shape == ()


def test_unique_values_have_gradients() -> None:
    x = fw.tensor([2.0, 1.0, 2.0]).requires_grad_()
    fw.unique_values(x).sum().backward()
    assert x.grad.tolist() == [1, 1, 0], "the first of equal ones stands for all"


def test_isin() -> None:
    x = fw.tensor([[1, 2], [3, 4]])
    assert fw.isin(x, fw.tensor([4, 1, 9])).tolist() == [[True, False], [False, True]]
    assert fw.isin(x, 2, invert=True).tolist() == [[True, False], [True, True]]
    assert fw.isin(2, x).item() is True and fw.isin(2, x).shape == ()
    assert fw.isin(x, fw.zeros(0, dtype=fw.int64)).any().item() is False


def test_nan_is_in_nothing() -> None:
    assert fw.isin(fw.tensor([NAN, 1.0]), fw.tensor([NAN, 1.0])).tolist() == [False, True]
    z = fw.tensor([1 + 1j, 1 - 1j])
    assert fw.isin(z, fw.tensor([1 - 1j])).tolist() == [False, True]
