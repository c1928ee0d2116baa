"""Elements read and written at places that a tensor of indices names."""

from __future__ import annotations

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import DTypeError, IndexingError, ShapeError


def test_take_along_axis_reads_what_argsort_found() -> None:
    x = fw.tensor([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]])
    for axis in (0, 1):
        found = fw.take_along_axis(x, fw.argsort(x, axis=axis), axis=axis)
        assert found.tolist() == fw.sort(x, axis=axis).tolist()
    assert fw.take_along_axis(x, fw.tensor([[-1]])).tolist() == [[2], [4]], "sizes of 1 repeat"


def test_gather_may_have_fewer_indices() -> None:
    x = fw.tensor([[1, 2, 3], [4, 5, 6]])
    assert x.gather(0, fw.tensor([[1, 0]])).tolist() == [[4, 2]]
    with pytest.raises(ShapeError, match=r"gather: indices \(3, 1\) are larger"):
        x.gather(1, fw.tensor([[0], [0], [0]]))


def test_of_several_values_for_one_place_the_last_one_stays() -> None:
    x = fw.zeros(3).requires_grad_()
    src = fw.tensor([1.0, 2.0, 3.0]).requires_grad_()
    out = fw.scatter(x, 0, fw.tensor([1, 0, 1]), src)
    assert out.tolist() == [2, 3, 0]
    out.sum().backward()
    assert (x.grad.tolist(), src.grad.tolist()) == ([0, 0, 1], [0, 1, 1])


def test_scatter_combines_with_what_is_there() -> None:
    x, i, src = fw.tensor([1, 5, 2]), fw.tensor([0, 0, -1]), fw.tensor([3, 4, 1])
    for how, wanted in {"add": [8, 5, 3], "prod": [12, 5, 2], "amax": [4, 5, 2],
                        "amin": [1, 5, 1]}.items():
        assert fw.scatter(x, 0, i, src, how).tolist() == wanted
    assert x.tolist() == [1, 5, 2], "x itself stays as it is"
    assert fw.scatter_add(x, 0, i, 10).tolist() == [21, 5, 12]


def test_equal_extremes_share_the_gradient() -> None:
    x = fw.tensor([7.0, 0.0]).requires_grad_()
    src = fw.tensor([7.0, 7.0, 1.0, 2.0]).requires_grad_()
    fw.scatter(x, 0, fw.tensor([0, 0, 1, 1]), src, "amax").sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1 / 3, 0])
    np.testing.assert_allclose(src.grad.numpy(), [1 / 3, 1 / 3, 0, 1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_added_in_float32(dtype: str) -> None:
    ones = fw.ones(3000, dtype=dtype)
    out = fw.scatter_add(fw.zeros(1, dtype=dtype), 0, fw.zeros(3000, dtype=fw.int64), ones)
    assert out.tolist() == [float(np.asarray(3000).astype(ones.dtype))]


def test_index_add_and_index_fill() -> None:
    x = fw.zeros(2, 3)
    added = x.index_add(1, fw.tensor([0, 0, -1]), fw.tensor([[1.0, 2, 3], [4, 5, 6]]))
    assert added.tolist() == [[3, 0, 3], [9, 0, 6]]
    assert x.index_fill(1, fw.tensor([-1]), 7).tolist() == [[0, 0, 7], [0, 0, 7]]
    with pytest.raises(ShapeError, match=r"they have the shape \(1, 3\)"):
        x.index_add(0, fw.tensor([0]), fw.zeros(2, 3))
    with pytest.raises(IndexingError, match="index 2 is out of range"):
        x.index_add(0, fw.tensor([2]), fw.zeros(1, 3))


def test_index_add_has_gradients() -> None:
    x, src = fw.zeros(3).requires_grad_(), fw.ones(2).requires_grad_()
    (x.index_add(0, fw.tensor([2, 2]), src) * fw.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert (x.grad.tolist(), src.grad.tolist()) == ([1, 2, 3], [3, 3])


def test_masked_fill_and_masked_select() -> None:
    x = fw.tensor([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    mask = fw.tensor([True, False])
    assert x.masked_fill(mask, -1).tolist() == [[-1, 2], [-1, 4]]
    picked = x.masked_select(mask)
    assert picked.tolist() == [1, 3]
    picked.sum().backward()
    assert x.grad.tolist() == [[1, 0], [1, 0]]
    with pytest.raises(DTypeError, match="a mask is bool, not int64"):
        x.masked_fill(fw.tensor([1, 0]), 0)


def test_values_keep_the_dtype_of_what_they_go_into() -> None:
    whole = fw.zeros(2, dtype=fw.int64)
    for call in (lambda: whole.masked_fill(whole == 0, 0.5),
                 lambda: whole.scatter(0, fw.tensor([0]), 0.5),
                 lambda: whole.index_add(0, fw.tensor([0]), fw.ones(1))):
        with pytest.raises(DTypeError, match="do not fit into int64"):
            call()
    assert fw.zeros(2).masked_fill(fw.tensor([True, False]), 1).dtype == fw.float32
