"""x[...] reads and writes what NumPy would, and never aliases."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fusewire as fw
from fusewire.eager.errors import IndexingError, ShapeError

A = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)

BASIC = [np.s_[0], np.s_[-1, 2], np.s_[1, 1, 1], np.s_[:, None, 1:], np.s_[..., -1], np.s_[1:1],
         np.s_[::-1, ::2], np.s_[None], np.s_[...], np.s_[()], np.s_[:], np.s_[5:],
         np.s_[:, -9:9:2, 3:0:-2], np.s_[np.int64(1), ..., None], np.s_[..., ::-3]]
ARRAYS = [np.s_[[1, 0, 1]], np.s_[:, [0, -1]], np.s_[..., [[0, 1], [2, 3]]], np.s_[[0, 1], [2, 0]],
          np.s_[:, [0, 1], [-1, 2]], np.s_[[[0], [1]], [0, 2]], np.s_[1, [2, 0]],
          np.s_[0, 1, [3, 3]],
          np.s_[[0], 1], np.s_[[]], np.s_[np.array([1, 0]), 1:], np.s_[::-1, [2, 1], 1:3],
          np.s_[[0, 1], None], np.s_[[0], :, [0]], np.s_[1, :, [0, -1]], np.s_[[1, 0], :, 2],
          np.s_[[0, 1], None, [0, 2]], np.s_[None, 0, ..., [[3], [1]]], np.s_[:, [0, 1], [-1]],
          np.s_[np.array([1, 0], np.int8), :, np.array([[2], [3]], np.uint8)], np.s_[[1, 1], 1:],
          np.s_[[[0, 1]], 1, :2], np.s_[..., [0], 1]]
MASKS = [A > 11, A[:, :, 0] > 3, A[:, 0, 0] > 3, np.s_[:, A[0, :, 0] > 3],
         np.s_[..., A[0, 0] > 1], A < 0, np.s_[A[:, 0, 0] > 3, 1], np.s_[1, A[0] > 3],
         np.s_[A[:, 0, 0] > -1, :, [0, 1]], np.s_[A[:, :, 0] > 7, 1:3], np.s_[True], np.s_[False],
         np.s_[[True, False], None, :, [1]], np.s_[..., True, 0], np.s_[0, True, [1, 2]],
         np.s_[A[:, 0, 0] > 3, :, A[0, 0] == 3], np.s_[np.True_, 1:]]


@pytest.mark.parametrize("index", BASIC + ARRAYS + MASKS, ids=str)
def test_getitem_is_numpys(index: Any) -> None:
    x = fw.tensor(A)
    np.testing.assert_array_equal(x[index].numpy(), A[index])


def as_tensors(index: Any) -> Any:
    def converted(i: Any) -> Any:
        array = isinstance(i, (np.ndarray, bool)) or (isinstance(i, list) and len(i))
        return fw.tensor(i) if array else i

    return tuple(map(converted, index if isinstance(index, tuple) else (index,)))


@pytest.mark.parametrize("index", ARRAYS + MASKS, ids=str)
def test_tensors_index_as_arrays_do(index: Any) -> None:
    np.testing.assert_array_equal(fw.tensor(A)[as_tensors(index)].numpy(), A[index])


def test_a_0d_tensor_indexes_as_its_number() -> None:
    assert fw.tensor(A)[fw.tensor(1), fw.tensor(-1)].tolist() == A[1, -1].tolist()


@pytest.mark.parametrize("index", BASIC + ARRAYS + MASKS, ids=str)
@pytest.mark.parametrize("value", [7, 1.5, "part", "whole", True], ids=str)
def test_setitem_is_numpys(index: Any, value: Any) -> None:
    if value == "part":
        value = np.atleast_1d(A[index] * 3 + 1)[..., :1]
        value = value if np.ndim(A[index]) else value[0]
    elif value == "whole":  # where a place is named twice, the last of these values stays
        value = np.asarray(np.arange(A[index].size).reshape(A[index].shape), np.float32)
    x, a = fw.tensor(A), A.copy()
    x[index] = value
    a[index] = value
    np.testing.assert_array_equal(x.numpy(), a)


slices = st.slices(4) | st.integers(-4, 3) | st.none() | st.just(slice(None))


@settings(max_examples=150, deadline=None)
@given(st.lists(slices, max_size=5).filter(lambda i: sum(s is not None for s in i) <= 3))
def test_any_basic_index(index: list[Any]) -> None:
    a = np.arange(64).reshape(4, 4, 4)
    np.testing.assert_array_equal(fw.tensor(a)[tuple(index)].numpy(), a[tuple(index)])
    x, b = fw.tensor(a), a.copy()
    x[tuple(index)] = -1
    b[tuple(index)] = -1
    np.testing.assert_array_equal(x.numpy(), b)


@pytest.mark.parametrize("same", [
    lambda x: x.astype(x.dtype), lambda x: x.clip(), lambda x: x.flip(()),
    lambda x: x.sum(axis=()), lambda x: fw.tensor(x), lambda x: fw.zeros(2, 3).copy_(x)])
def test_copies_do_not_alias(same: Any) -> None:
    x = fw.ones(2, 3)
    y = same(x)
    y += 1
    x[0] = 5
    assert y.tolist() == [[2.0] * 3] * 2 and x.tolist() == [[5.0] * 3, [1.0] * 3]


def test_gradients_flow_into_and_out_of_parts() -> None:
    x = fw.tensor(A, requires_grad=True)
    v = fw.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = x * 2
    y[1, 0] = v
    y[:, [0, 0], 1].sum().backward()  # the same element twice
    expected = np.zeros_like(A)
    expected[0, 0, 1] = 4
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    assert v.grad.tolist() == [0.0, 2.0, 0.0, 0.0]


def test_gradients_of_values_written_to_places() -> None:
    """Only the last value of a place, and what stays of x, have gradients."""
    x = fw.ones(4).requires_grad_()
    v = fw.tensor([5.0, 6.0, 7.0], requires_grad=True)
    y = x * 1
    y[fw.tensor([1, 3, 1])] = v
    assert y.tolist() == [1.0, 7.0, 1.0, 6.0]
    (y * fw.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 3.0, 0.0] and v.grad.tolist() == [0.0, 4.0, 2.0]


def test_a_mask_with_an_empty_side_picks_nothing() -> None:
    """The standard: a side of a mask is that of the tensor, or 0."""
    assert fw.tensor(A)[fw.zeros((0, 3), dtype=bool)].shape == (0, 4)
    assert fw.tensor(A)[:, fw.zeros((0,), dtype=bool)].shape == (2, 0, 4)


def test_small_dtypes_index_long_axes() -> None:
    x = fw.arange(200 * 200).reshape(200, 200)
    i = fw.tensor([-1, 100], dtype=fw.int8)
    assert x[i, i].tolist() == [39999, 20100] and x[i].shape == (2, 200)
    assert x[fw.tensor([199], dtype=fw.uint8), 199].item() == 39999


def test_gradient_of_a_mask() -> None:
    x = fw.tensor([1.0, -2.0, 3.0], requires_grad=True)
    (x[x > 0] * fw.tensor([10.0, 20.0])).sum().backward()
    assert x.grad.tolist() == [10.0, 0.0, 20.0]


@pytest.mark.parametrize(("index", "error", "words"), [
    (2, IndexingError, "index 2 is out of range for axis 0 of shape (2, 3, 4)"),
    (np.s_[0, -4], IndexingError, "index -4 is out of range for axis 1"),
    (np.s_[0, 0, 0, 0], IndexingError, "too many indices: 4 for a tensor with 3 axes"),
    (np.s_[..., 0, ...], IndexingError, "an index can hold ... only once"),
    (1.0, IndexingError, "cannot index with 1.0"),
    ("a", IndexingError, "cannot index with 'a'"),
    (np.s_[::0], IndexingError, "the step of a slice cannot be 0"),
    (np.s_["a":], IndexingError, "the limits of a slice are integers or None"),
    ([2], IndexingError, "index 2 is out of range for size 2"),
    (np.s_[[0], [-4]], IndexingError, "index -4 is out of range for size 3"),
    ([0.5], IndexingError, "index: indices must be integers, not float32"),
    (np.s_[0, :, [4]], IndexingError, "index 4 is out of range for size 4"),
    (np.s_[2, :, [0]], IndexingError, "index 2 is out of range for axis 0"),
    (np.ones((3, 3), bool), IndexingError,
     "a mask of shape (3, 3) does not fit the shape (2, 3, 4)"),
    (np.s_[:, np.ones((3, 4, 1), bool)], IndexingError, "too many indices: 4"),
    (np.s_[[0, 1], [0, 1, 2]], ShapeError, "index: shapes (2,) and (3,) do not broadcast"),
])
def test_wrong_indices(index: Any, error: type, words: str) -> None:
    with pytest.raises(error) as caught:
        fw.tensor(A)[index]
    assert words in caught.value.message and caught.value.help


def test_wrong_assignments() -> None:
    x = fw.zeros(2, 3)
    with pytest.raises(ShapeError, match="broadcast_to"):
        x[0] = fw.zeros(2)
    with pytest.raises(IndexingError, match="out of range"):
        x[[0, 2]] = 1
    with pytest.raises(ShapeError, match="broadcast_to"):
        x[[0, 1]] = fw.zeros(2)
    with pytest.raises(IndexingError, match="out of range"):
        x[2] = 1


def test_a_value_set_in_a_copy_that_nobody_holds_is_an_error() -> None:
    x = fw.zeros(2, 3)
    with pytest.raises(IndexingError, match=r"write x\[i, j\] = value"):
        x[[0]][0] = 1
    with pytest.raises(IndexingError, match="discarded at once"):
        x[x == 0][1] = 1
    assert not x.any()
    x[0][1] = 1
    x[0][1] += 1
    assert x.tolist() == [[0, 2, 0], [0, 0, 0]]


def test_whoever_holds_a_tensor_can_set_its_items() -> None:
    x = fw.zeros(3)
    held = {"list": [x], "dict": {0: x}}
    held["list"][0][0] = 1
    held["dict"][0][1] = 1
    (lambda: x)()[2] = 1
    operator.setitem(x, 0, 2)
    for row in [x]:
        row[1] = 2
    layer = fw.nn.Linear(2, 1)
    with fw.no_grad():
        layer.weight[0, 1] += layer.bias[0]
        layer.bias[range(1)] = 3
    assert x.tolist() == [2, 2, 1] and layer.bias.item() == 3
