"""Order: sorting, searching, scans."""

from __future__ import annotations

import pytest

import fusewire as fw
from fusewire.eager.errors import DTypeError, ShapeError

NAN, INF = float("nan"), float("inf")


def test_equal_elements_stay_in_order_either_way_round() -> None:
    x = fw.tensor([1, 0, 1, 0])
    assert fw.argsort(x).tolist() == [1, 3, 0, 2]
    assert fw.argsort(x, descending=True).tolist() == [0, 2, 1, 3]
    unsigned = fw.tensor([0, 255, 1], dtype=fw.uint8)
    assert fw.sort(unsigned, descending=True).tolist() == [255, 1, 0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_is_the_largest(dtype: str) -> None:
    x = fw.tensor([NAN, INF, -INF, 0.0], dtype=dtype)
    assert fw.argsort(x).tolist() == [2, 3, 1, 0]
    assert fw.argsort(x, descending=True).tolist() == [0, 1, 3, 2]
    assert fw.argmax(x).item() == 0 and fw.argmin(x).item() == 0, "nan is where one looks first"


def test_zeros_of_either_sign_stay_in_order() -> None:
    x = fw.tensor([1.0, 0.0, -0.0, 0.0, -1.0])
    assert fw.signbit(fw.sort(x)).tolist() == [True, False, True, False, False]
    assert fw.signbit(fw.sort(x, descending=True)).tolist() == [False, False, True, False, True]


def test_a_0d_tensor_is_sorted() -> None:
    assert fw.sort(fw.tensor(3.0)).item() == 3 and fw.argsort(fw.tensor(3.0)).item() == 0


def test_gradient_of_sort_goes_back_to_where_elements_were() -> None:
    x = fw.tensor([[3.0, 1.0, 2.0]]).requires_grad_()
    (fw.sort(x, axis=1) * fw.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [[100, 1, 10]]


def test_topk_and_kthvalue() -> None:
    x = fw.tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    best = x.topk(2)
    assert (best.values.tolist(), best.indices.tolist()) == ([[3, 2], [6, 5]], [[0, 2], [1, 2]])
    values, indices = x.topk(1, axis=0, largest=False)
    assert (values.tolist(), indices.tolist()) == ([[3, 1, 2]], [[0, 0, 0]])
    assert x.kthvalue(2).values.tolist() == [2, 5]
    assert x.kthvalue(2, axis=1, keepdims=True).indices.tolist() == [[2], [2]]
    assert x.topk(0).values.shape == (2, 0)


def test_searchsorted_places_numbers_and_tensors() -> None:
    x = fw.tensor([1.0, 3.0, 3.0, 5.0])
    assert fw.searchsorted(x, 3).item() == 1
    assert fw.searchsorted(x, 3.0, side="right").item() == 3
    assert fw.searchsorted(x, fw.tensor([[0.0], [9.0]])).tolist() == [[0], [4]]
    turned = fw.tensor([5.0, 3.0, 1.0, 3.0])
    assert fw.searchsorted(turned, 3.0, sorter=fw.argsort(turned)).item() == 1
    assert fw.searchsorted(fw.tensor([1.0, NAN]), NAN, side="right").item() == 2
    assert fw.searchsorted(fw.zeros(0), 1.0).item() == 0


def test_nonzero_counts_nan_and_complex() -> None:
    x = fw.tensor([[0.0, NAN], [-0.0, INF]])
    assert [i.tolist() for i in fw.nonzero(x)] == [[0, 1], [1, 1]]
    assert fw.argwhere(x).tolist() == [[0, 1], [1, 1]]
    assert fw.argwhere(fw.tensor(2)).shape == (1, 0) and fw.argwhere(fw.tensor(0)).shape == (0, 0)
    assert fw.count_nonzero(fw.tensor([0j, 1j])).item() == 1
    assert fw.count_nonzero(x, axis=1, keepdims=True).tolist() == [[1], [1]]
    with pytest.raises(ShapeError, match="0-d tensor has no axes"):
        fw.nonzero(fw.tensor(1))


def test_complex_numbers_have_no_order() -> None:
    for call in (fw.sort, fw.argsort, fw.argmax, fw.median, fw.max):
        with pytest.raises(DTypeError):
            call(fw.zeros(2, dtype=fw.complex64))


# ---- scans
def test_scans_widen_small_integers() -> None:
    x = fw.tensor([100, 100, 100], dtype=fw.int8)
    assert fw.cumulative_sum(x).tolist() == [100, 200, 300]
    assert fw.cumulative_sum(x).dtype == fw.int64
    assert fw.cumulative_prod(fw.tensor([2, 3], dtype=fw.uint8)).dtype == fw.uint64
    assert fw.cumulative_sum(x, dtype=fw.float64).dtype == fw.float64
    assert fw.cumulative_sum(fw.zeros(0), include_initial=True).tolist() == [0]


def test_indices_of_scans_are_the_last_extreme_ones() -> None:
    found = fw.cummax(fw.tensor([1.0, 3.0, 2.0, 3.0, NAN, 9.0]), 0)
    assert found.indices.tolist() == [0, 1, 1, 3, 4, 4]
    assert fw.cummin(fw.tensor([2, 2, 1, 5]), 0).indices.tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("values", [[2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 5.0], [0.0, 0, 0, 1]])
def test_third_derivative_of_cumprod_with_zeros(values: list[float]) -> None:
    """d3 (a b c d) / da db dc is d, whatever is zero."""
    x = fw.tensor(values, dtype=fw.float64).requires_grad_()
    value = fw.cumprod(x, 0)[3]
    for i in range(3):
        (g,) = fw.grad(value, x, create_graph=True)
        value = g[i]
    assert value.item() == values[3]


def test_logcumsumexp_does_not_overflow() -> None:
    x = fw.tensor([-INF, 1000.0, 1000.0, -1000.0]).requires_grad_()
    out = fw.logcumsumexp(x, 0)
    assert out.tolist() == pytest.approx([-INF, 1000, 1000.6931, 1000.6931])
    out[3].backward()
    assert x.grad.tolist() == pytest.approx([0, 0.5, 0.5, 0], rel=1e-4)
