"""Statistics: means and quantiles, counts, covariances."""

from __future__ import annotations

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import ArgumentError

NAN = float("nan")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_summed_in_float32(dtype: str) -> None:
    x = fw.full((4000,), 100.0, dtype)
    assert x.mean().item() == 100 and x.std().item() == 0 and fw.nanmean(x).item() == 100
    assert fw.ones(3000, dtype=dtype).sum().item() == float(np.asarray(3000).astype(x.dtype))
    assert all(v.dtype == x.dtype for v in (x.mean(), x.var(), x.std(), x.sum(), fw.median(x)))


def test_extremes_of_bfloat16() -> None:
    x = fw.tensor([[1.0, -2.0], [NAN, 3.0]], dtype=fw.bfloat16)
    assert x.max(axis=0).tolist()[1] == 3 and x.isnan().any().item()
    assert fw.nanmin(x).item() == -2 and fw.nanmax(x, axis=0).tolist() == [1, 3]


def test_complex_sums_and_products() -> None:
    z = fw.tensor([1 + 1j, 2 - 1j])
    assert (z.sum().item(), z.prod().item(), z.mean().item()) == (3 + 0j, 3 + 1j, 1.5 + 0j)
    assert z.var().item() == 1.25 and z.var().dtype == fw.float32  # of the distances


def test_std_of_equal_elements_has_the_gradient_0() -> None:
    x = fw.ones(3).requires_grad_()
    x.std().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_what_is_left_without_nan() -> None:
    x = fw.tensor([[1.0, NAN], [3.0, NAN]])
    assert fw.nansum(x, axis=0).tolist() == [4, 0]
    for f in (fw.nanmean, fw.nanvar, fw.nanmax, fw.nanmin, fw.nanmedian):
        first, second = f(x, axis=0).tolist()
        assert first == first and second != second, "nothing is left of the second column"
    assert fw.nansum(fw.tensor([1, 2])).item() == 3 and fw.nanmax(fw.tensor([1, 2])).item() == 2


def test_nan_gets_no_gradient() -> None:
    for f in (fw.nansum, fw.nanmean, fw.nanstd, fw.nanmedian, fw.nanmax):
        x = fw.tensor([1.0, NAN, 4.0, 2.0]).requires_grad_()
        f(x).backward()
        assert x.grad[1].item() == 0 and np.isfinite(x.grad.numpy()).all()


def test_quantiles() -> None:
    x = fw.tensor([3.0, 1.0, 2.0, 4.0])
    assert fw.median(x).item() == 2.5
    assert fw.quantile(x, fw.tensor([[0.0, 1.0]])).tolist() == [[1, 4]]
    assert fw.quantile(fw.tensor([1.0, NAN]), 0.0).isnan().item(), "nan is not left out"
    assert fw.quantile(fw.tensor([float("inf")] * 2), 0.3).item() == float("inf")
    with pytest.raises(ArgumentError, match="fractions go from 0 to 1"):
        fw.quantile(x, fw.tensor(1.5))


def test_closest_observation_takes_the_even_one_of_two() -> None:
    """The third definition of Hyndman and Fan, counted from 1."""
    x = fw.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    found = fw.quantile(x, [0.3, 0.5, 0.7, 0.9, 0.61], method="closest_observation")
    assert found.tolist() == [2, 2, 4, 4, 3]


def test_gradient_of_a_median_is_shared_by_the_middle_two() -> None:
    x = fw.tensor([3.0, 1.0, 2.0, 4.0]).requires_grad_()
    fw.median(x).backward()
    assert x.grad.tolist() == [0.5, 0, 0.5, 0]


# ---- counts
def test_bincount() -> None:
    assert fw.bincount(fw.tensor([1, 1, 3]), minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    assert fw.bincount(fw.zeros(0, dtype=fw.int64)).shape == (0,)
    w = fw.tensor([1.0, 2.0, 4.0]).requires_grad_()
    out = fw.bincount(fw.tensor([1, 1, 0]), w)
    assert out.tolist() == [4, 3]
    (out * fw.tensor([10.0, 1.0])).sum().backward()
    assert w.grad.tolist() == [1, 1, 10]


@pytest.mark.parametrize("dtype", [fw.bool, fw.uint8, fw.int64, fw.float64])
@pytest.mark.parametrize("count", [0, 3])
def test_weights_are_summed_in_float64(dtype: np.dtype, count: int) -> None:
    numbers, weights = np.array([1, 1, 3][:count]), np.array([1, 2, 3][:count]).astype(dtype)
    found = fw.bincount(fw.asarray(numbers.astype(int)), fw.asarray(weights))
    assert found.dtype == fw.float64
    assert found.tolist() == np.bincount(numbers.astype(int), weights).tolist()


@pytest.mark.parametrize("bins", [1, 10, [-1.0, 0.0, 0.1, 2.0]])
@pytest.mark.parametrize("limits", [None, (-1.0, 1.0)])
@pytest.mark.parametrize("density", [False, True])
def test_histogram_is_numpys(bins: object, limits: object, density: bool) -> None:
    x = np.random.default_rng(0).standard_normal(100).round(1)
    found = fw.histogram(fw.from_numpy(x), bins, range=limits, density=density)
    hist, edges = np.histogram(x, bins, range=limits, density=density)
    np.testing.assert_allclose(found.hist.numpy(), hist)
    np.testing.assert_allclose(found.bin_edges.numpy(), edges)


def test_histogram_of_equal_elements_and_of_nothing() -> None:
    assert fw.histogram(fw.ones(3), 2).bin_edges.tolist() == [0.5, 1.0, 1.5]
    assert fw.histogram(fw.zeros(0), 2).hist.tolist() == [0, 0]
    with pytest.raises(ArgumentError, match="no bins can be made from nan"):
        fw.histogram(fw.tensor([NAN]))


# ---- two variables
def test_covariances() -> None:
    x = np.random.default_rng(0).standard_normal((3, 8))
    f, a = np.array([1, 2, 1, 3, 1, 1, 2, 1]), np.linspace(0.5, 1, 8)
    given = fw.from_numpy(x)
    np.testing.assert_allclose(fw.cov(given).numpy(), np.cov(x))
    np.testing.assert_allclose(
        fw.cov(given, fweights=fw.from_numpy(f), aweights=fw.from_numpy(a)).numpy(),
        np.cov(x, fweights=f, aweights=a))
    np.testing.assert_allclose(fw.corrcoef(given).numpy(), np.corrcoef(x))
    assert fw.cov(given[0]).shape == () and fw.corrcoef(given[0]).item() == 1


REDUCTIONS = ["all", "any", "argmax", "argmin", "count_nonzero", "cummax", "cumsum",
              "log_softmax", "logsumexp", "max", "mean", "median", "min", "nanmean", "nansum",
              "prod", "softmax", "sort", "squeeze", "std", "sum", "var"]


def first(result: object) -> fw.Tensor:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_number_has_the_axes_0_and_minus_1(name: str, axis: int) -> None:
    """As in NumPy and PyTorch: it counts as a vector of one element, and the result is 0-d."""
    function = getattr(fw, name)
    expected = first(function(fw.tensor([2.5]), axis=0)).reshape(())
    compiled = fw.compile(lambda x: first(function(x, axis=axis)))
    for result in (first(function(fw.tensor(2.5), axis=axis)), compiled(fw.tensor(2.5))):
        assert (result.shape, result.dtype, result.item()) == ((), expected.dtype, expected.item())


@pytest.mark.parametrize("axis", [1, -2, (0, -1)])
@pytest.mark.parametrize("name", ["mean", "sum", "max", "squeeze"])
def test_a_number_has_no_other_axes(name: str, axis: object) -> None:
    with pytest.raises(fw.ShapeError, match=f"{name}: .*axis"):
        getattr(fw, name)(fw.tensor(2.5), axis=axis)


def test_gradients_of_reductions_of_a_number() -> None:
    x = fw.tensor(3.0).requires_grad_()
    (x.sum(axis=0) + x.mean(axis=-1) + x.max(axis=0) + fw.logsumexp(x, axis=0)).backward()
    assert x.grad.item() == 4


def test_argmax_of_a_number_keeps_no_axes() -> None:
    assert fw.argmax(fw.tensor(2.5), axis=0, keepdims=True).shape == ()
