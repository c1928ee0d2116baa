"""Tensors joined, cut and rearranged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import ArgumentError, AxisError, ShapeError

X = fw.arange(24).reshape(2, 3, 4)


def test_an_axis_out_of_range_is_an_index_error_and_a_value_error() -> None:
    """The standard asks for the one, NumPy's users for the other."""
    for call in (lambda: fw.expand_dims(X, 4), lambda: fw.flip(X, axis=3), lambda: X.sum(axis=-4)):
        with pytest.raises(AxisError) as caught:
            call()
        assert isinstance(caught.value, IndexError) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("axis", "shape"), [
    (0, (1, 2, 3, 4)), (-1, (2, 3, 4, 1)), ((0, 1), (1, 1, 2, 3, 4)), ((0, -1), (1, 2, 3, 4, 1)),
    ((2,), (2, 3, 1, 4)), ((4, 0), (1, 2, 3, 4, 1)), ((), (2, 3, 4))])
def test_expand_dims_at_places_of_the_result(axis: object, shape: object) -> None:
    assert fw.expand_dims(X, axis).shape == shape


def test_expand_dims_twice_at_one_place() -> None:
    with pytest.raises(ShapeError, match="an axis is given twice"):
        fw.expand_dims(X, (0, -5))


def test_squeeze_refuses_other_axes() -> None:
    assert fw.squeeze(fw.zeros(1, 2, 1), (0, -1)).shape == (2,)
    with pytest.raises(ShapeError, match="has size 2, not 1"):
        fw.squeeze(fw.zeros(1, 2), 1)


def test_reshape_without_a_copy() -> None:
    assert fw.reshape(X, (6, 4), copy=False).tolist() == X.reshape(6, 4).tolist()
    assert fw.reshape(X.mT, (24,), copy=True).shape == (24,)
    with pytest.raises(ShapeError, match="needs a copy"):
        fw.reshape(X.mT, (24,), copy=False)


def test_broadcasting() -> None:
    a, b = fw.broadcast_arrays(fw.zeros(3, 1), fw.ones(4))
    assert (a.shape, b.shape) == ((3, 4), (3, 4))
    assert fw.broadcast_arrays() == ()
    assert fw.broadcast_shapes((), (0, 1), (3,)) == (0, 3)
    with pytest.raises(ShapeError, match="axis -1 is 2 on one side and 3 on the other"):
        fw.broadcast_shapes((2,), (3,))


def test_concat_promotes_inside_a_kind_and_between_them() -> None:
    small = fw.zeros(2, dtype=fw.int8)
    assert fw.concat([small, fw.zeros(2, dtype=fw.int32)]).dtype == fw.int32
    assert fw.stack([small, fw.zeros(2, dtype=fw.float64)]).dtype == fw.float64
    assert fw.concat([X, X], axis=None).shape == (48,)


def test_parts_are_what_concat_joins() -> None:
    for parts in (fw.split(X, 3, axis=2), fw.split(X, [1, 0, 3], axis=2), fw.chunk(X, 3, axis=2),
                  fw.tensor_split(X, 3, axis=2), fw.tensor_split(X, (1, 1), axis=2)):
        assert fw.concat(parts, axis=2).tolist() == X.tolist()
    assert [p.shape[0] for p in fw.tensor_split(fw.arange(7), 3)] == [3, 2, 2]
    assert [p.shape[0] for p in fw.chunk(fw.arange(7), 3)] == [3, 3, 1]
    assert [p.shape[0] for p in fw.split(fw.arange(7), 5)] == [5, 2]
    assert fw.stack(fw.unstack(X, axis=1), axis=1).tolist() == X.tolist()
    assert fw.unstack(fw.zeros(0, 3)) == ()


def test_a_write_to_a_part_is_a_write_to_the_whole() -> None:
    x = X + 0
    (whole,) = fw.split(x, 4, axis=2)
    whole += 1
    fw.chunk(x, 3, axis=2)[0][:] = 5
    assert x[0, 0, 0] == 5 and (x[..., 2:] == X[..., 2:] + 1).all()


def test_parts_have_gradients() -> None:
    x = fw.arange(6.0).requires_grad_()
    a, _, c = fw.split(x, 2)
    (a * 2 + c).sum().backward()
    assert x.grad.tolist() == [2, 2, 0, 0, 1, 1]


def test_atleast() -> None:
    shapes = [[getattr(fw, f"atleast_{n}d")(fw.zeros(s)).shape for n in (1, 2, 3)]
              for s in ((), (2,), (2, 3))]
    assert shapes == [[(1,), (1, 1), (1, 1, 1)], [(2,), (1, 2), (1, 2, 1)],
                      [(2, 3), (2, 3), (2, 3, 1)]]


def test_repeat_by_a_tensor() -> None:
    x = fw.tensor([1.0, 2.0, 3.0]).requires_grad_()
    out = fw.repeat(x, fw.tensor([2, 0, 1]))
    assert out.tolist() == [1, 1, 3]
    out.sum().backward()
    assert x.grad.tolist() == [2, 0, 1]
    assert fw.repeat(X, fw.tensor([2], dtype=fw.uint8), axis=1).shape == (2, 6, 4)
    assert fw.repeat(X, 0, axis=1).shape == (2, 0, 4)


def test_roll_goes_round() -> None:
    array = X.numpy()
    for shift, axis in ((25, None), (-3, 1), ((1, 5), (0, 0))):
        assert fw.roll(X, shift, axis=axis).tolist() == np.roll(array, shift, axis).tolist()
    assert fw.roll(fw.zeros(0, 2), 1, axis=0).shape == (0, 2)


def test_unflatten_undoes_flatten() -> None:
    assert fw.unflatten(X.flatten(1), 1, (3, 4)).tolist() == X.tolist()
    with pytest.raises(ShapeError, match="12 elements"):
        fw.unflatten(X.flatten(1), 1, (5, -1))


def test_differences_undo_sums() -> None:
    x = fw.tensor([[1, 5, 2], [0, 3, 3]])
    assert fw.diff(fw.cumulative_sum(x, axis=1, include_initial=True)).tolist() == x.tolist()
    assert fw.diff(fw.tensor([True, False, False])).tolist() == [True, False]
    assert fw.diff(x, n=0).tolist() == x.tolist()
    with pytest.raises(ArgumentError, match="n is a whole number"):
        fw.diff(x, n=-1)


@pytest.mark.parametrize("shape", [(-2, 3), (-3,), None, (2, -1, -1), -2])
def test_reshape_refuses_what_numpy_takes_for_a_shape(shape: Any) -> None:
    with pytest.raises(ShapeError):
        fw.reshape(fw.arange(6), shape)
