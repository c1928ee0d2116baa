"""Pooling: windows counted by hand, corners of every way to say them, and what errors say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fusewire as fw
from fusewire.eager import nn
from fusewire.eager.errors import ArgumentError, DTypeError, IndexingError, ShapeError

F = nn.functional
INF, NAN = float("inf"), float("nan")


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def row(*numbers):
    """One sample of one channel."""
    return fw.tensor([[list(map(float, numbers))]])


# ---- the largest of each window
def test_max_pool_of_windows_that_do_not_overlap():
    x = values(2, 3, 4, 6)
    assert_array_equal(F.max_pool2d(fw.tensor(x), 2), x.reshape(2, 3, 2, 2, 3, 2).max((3, 5)))


def test_stride_padding_and_dilation():
    x = row(1, 5, 2, 0, 7, 3)
    assert F.max_pool1d(x, 3, stride=1).tolist() == [[[5, 5, 7, 7]]]
    assert F.max_pool1d(x, 3, stride=2, padding=1).tolist() == [[[5, 5, 7]]]
    assert F.max_pool1d(x, 2, stride=1, dilation=3).tolist() == [[[1, 7, 3]]]


def test_ceil_mode_keeps_what_a_last_window_only_begins_in():
    x = row(1, 5, 2, 0, 7)
    assert F.max_pool1d(x, 2).tolist() == [[[5, 2]]]
    assert F.max_pool1d(x, 2, ceil_mode=True).tolist() == [[[5, 2, 7]]]
    assert F.max_pool1d(x, 2, 4, ceil_mode=True).shape == (1, 1, 2)
    assert F.max_pool1d(x, 1, 3, ceil_mode=True).shape == (1, 1, 2), "none begins outside"


def test_indices_count_through_the_plane():
    x = fw.tensor([[[[1.0, 5, 2], [0, 7, 3]]]])
    found, at = F.max_pool2d(x, (2, 2), stride=1, return_indices=True)
    assert found.tolist() == [[[[7, 7]]]] and at.tolist() == [[[[4, 4]]]]
    assert at.dtype == fw.int64
    assert [t.tolist() for t in F.max_pool2d_with_indices(x, (1, 3))] == [
        [[[[5], [7]]]], [[[[1], [4]]]]]


def test_the_first_of_equal_elements_gets_index_and_gradient():
    x = row(3, 3, 3, 1).requires_grad_()
    found, at = F.max_pool1d(x, 4, return_indices=True)
    assert at.tolist() == [[[0]]]
    found.sum().backward()
    assert x.grad.tolist() == [[[1, 0, 0, 0]]]


def test_a_nan_is_the_largest_and_the_last_one_counts():
    found, at = F.max_pool1d(row(1, NAN, INF, NAN, 2, 0), 3, 1, return_indices=True)
    assert np.isnan(found.numpy()[..., :4]).all()
    assert at.tolist() == [[[1, 3, 3, 3]]]


def test_padding_is_never_chosen():
    x = row(-INF, -INF, -INF).requires_grad_()
    found, at = F.max_pool1d(x, 3, stride=1, padding=1, return_indices=True)
    assert found.tolist() == [[[-INF] * 3]] and at.tolist() == [[[0, 0, 1]]]
    found.sum().backward()
    assert x.grad.tolist() == [[[2, 1, 0]]]


def test_max_pool_of_integers():
    x = fw.tensor([[[-128, 3, 5, 1]]], dtype=fw.int8)
    assert F.max_pool1d(x, 3, 1, padding=1).tolist() == [[[3, 5, 5, 5]]]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_sample_needs_no_axis_of_samples(d):
    x = fw.tensor(values(3, *(6,) * d))
    for name, args in (("max_pool", (2,)), ("avg_pool", (2,)), ("adaptive_max_pool", (4,)),
                       ("adaptive_avg_pool", (4,)), ("lp_pool", (2, 2))):
        pool = getattr(F, f"{name}{d}d")
        assert_array_equal(pool(x, *args), pool(x[None], *args)[0])


# ---- back to where they were
def test_unpooling_puts_elements_back():
    x = row(1, 5, 2, 0, 7)
    found, at = nn.MaxPool1d(2, return_indices=True)(x)
    unpool = nn.MaxUnpool1d(2)
    assert unpool(found, at).tolist() == [[[0, 5, 2, 0]]]
    assert unpool(found, at, output_size=(5,)).tolist() == [[[0, 5, 2, 0, 0]]]
    assert unpool(found, at, output_size=x.shape).shape == x.shape
    with pytest.raises(ShapeError, match=r"output_size \(7,\) cannot be pooled to \(2,\)"):
        unpool(found, at, output_size=(7,))
    with pytest.raises(IndexingError, match=r"max_unpool1d: index 9 is out of range for size 4"):
        unpool(found, at + 7)
    with pytest.raises(ShapeError, match=r"indices \(1, 1, 1\) differ in shape"):
        unpool(found, at[..., :1])


# ---- averages
def test_averages_count_the_padding_or_not():
    x = row(2, 4, 6, 8)
    assert F.avg_pool1d(x, 2).tolist() == [[[3, 7]]]
    assert F.avg_pool1d(x, 2, padding=1).tolist() == [[[1, 5, 4]]]
    assert F.avg_pool1d(x, 2, padding=1, count_include_pad=False).tolist() == [[[2, 5, 8]]]


def test_a_last_window_is_divided_by_what_it_has_of_the_padded_input():
    x = row(2, 4, 6)
    assert F.avg_pool1d(x, 2, ceil_mode=True).tolist() == [[[3, 6]]]
    assert F.avg_pool1d(x, 2, 2, 1, ceil_mode=True).tolist() == [[[1, 5]]]


def test_divisor_override():
    assert F.avg_pool2d(fw.ones(1, 2, 2), 2, divisor_override=8).item() == 0.5
    with pytest.raises(ArgumentError, match="divisor_override must not be 0"):
        F.avg_pool2d(fw.ones(1, 2, 2), 2, divisor_override=0)


def test_small_floats_are_added_up_in_float32():
    x = fw.full((1, 1, 4096), 1.0, dtype=fw.float16) + fw.arange(4096) % 2 * 0.5
    assert F.avg_pool1d(x.astype(fw.float16), 4096).tolist() == [[[1.25]]]


def test_lp_pool_is_the_norm_of_each_window():
    x = abs(values(1, 2, 6, 4))
    expected = (x.reshape(1, 2, 3, 2, 2, 2).astype(np.float64) ** 3).sum((3, 5)) ** (1 / 3)
    assert_allclose(nn.LPPool2d(3, 2)(fw.tensor(x)), expected, rtol=1e-5)
    assert nn.LPPool1d(2, 2)(row(3, 4)).tolist() == [[[5]]]


# ---- windows that follow from the sizes
def windows(n, size):
    """Window i of m along an axis of n: from floor(i n / m) to ceil((i + 1) n / m)."""
    return [slice(i * n // size, -(-(i + 1) * n // size)) for i in range(size)]


@pytest.mark.parametrize(("space", "size"), [
    ((6, 4), (3, 2)), ((7, 5), (3, 5)), ((3, 4), (5, 7)), ((7, 5), (1, 1)), ((6, 5), (2, None))])
def test_adaptive_pools_are_as_their_windows(space, size):
    x = values(2, 3, *space)
    wanted = tuple(n if m is None else m for n, m in zip(space, size, strict=True))
    for pool, of in ((F.adaptive_avg_pool2d, np.mean), (F.adaptive_max_pool2d, np.max)):
        expected = np.stack([np.stack([of(x[:, :, r, c], (2, 3)) for c in windows(
            space[1], wanted[1])], -1) for r in windows(space[0], wanted[0])], -2)
        assert_allclose(pool(fw.tensor(x), size), expected, rtol=1e-5, atol=1e-6)
    found, at = F.adaptive_max_pool2d_with_indices(fw.tensor(x), size)
    flat = np.take_along_axis(x.reshape(2, 3, -1), at.numpy().reshape(2, 3, -1), 2)
    assert_array_equal(flat, found.numpy().reshape(2, 3, -1))


def test_the_gradient_of_uneven_averages():
    x = row(1, 2, 3, 4, 5).requires_grad_()
    (F.adaptive_avg_pool1d(x, 3) * fw.tensor([6.0, 60, 600])).sum().backward()
    assert_allclose(x.grad, [[[3, 23, 20, 320, 300]]], rtol=1e-6)


def test_infinity_stays_in_its_windows():
    assert F.adaptive_avg_pool1d(row(INF, 2, 3, 4, 5), 3).tolist() == [[[INF, 3, 4.5]]]


# ---- windows at random places
def test_fractional_pooling_takes_windows_that_cover_the_ends():
    fw.manual_seed(0)
    x = fw.arange(100, dtype=fw.float32).reshape(1, 1, 10, 10)
    found, at = nn.FractionalMaxPool2d(2, output_size=6, return_indices=True)(x)
    assert found.shape == (1, 1, 6, 6) and found[0, 0, -1, -1].item() == 99
    assert_array_equal(found, at)
    assert nn.FractionalMaxPool3d(2, output_ratio=0.5)(fw.ones(1, 2, 8, 6, 4)).shape == (
        1, 2, 4, 3, 2)


def test_fractional_pooling_with_given_numbers():
    x = fw.arange(7, dtype=fw.float32).reshape(1, 1, 7)
    samples = fw.tensor([[[0.0, 0.0]], [[0.3, 0.0]]])  # that of the width comes first
    both = fw.stack([x, x])
    found = F.fractional_max_pool2d(both, (1, 2), (1, 3), _random_samples=samples)
    assert found.tolist() == [[[[1, 3, 6]]], [[[1, 4, 6]]]]


# ---- errors
def test_wrong_shapes_and_arguments_say_what_fits():
    x = fw.ones(1, 2, 6, 6)
    with pytest.raises(ShapeError, match=r"max_pool2d: takes \(n, channels, height, width\) or "
                                         r"\(channels, height, width\), got shape \(6, 6\)"):
        nn.MaxPool2d(2)(x[0, 0])
    with pytest.raises(ShapeError, match=r"avg_pool1d: takes \(n, channels, length\)"):
        F.avg_pool1d(x, 2)
    with pytest.raises(ShapeError, match="a window of 9 does not fit into an axis of size 6"):
        F.max_pool2d(x, 9)
    with pytest.raises(ArgumentError, match=r"padding \(2, 2\) is more than half the kernel"):
        F.avg_pool2d(x, 2, padding=2)
    with pytest.raises(ArgumentError, match="stride must be at least 1, got 0"):
        F.max_pool2d(x, 2, 0)
    with pytest.raises(ShapeError, match="kernel_size must be a number or 2 of them"):
        F.max_pool2d(x, (2, 2, 2))
    with pytest.raises(ArgumentError, match="output_size must be at least 1"):
        F.adaptive_avg_pool2d(x, (0, 2))
    with pytest.raises(DTypeError, match="avg_pool2d: takes real floating point tensors"):
        F.avg_pool2d(fw.arange(16).reshape(1, 4, 4), 2)
    with pytest.raises(DTypeError, match="max_pool2d: takes real numbers, not complex64"):
        F.max_pool2d(x.astype(fw.complex64), 2)


def test_fractional_pooling_says_what_it_needs():
    with pytest.raises(ArgumentError, match="needs output_size or output_ratio, and not both"):
        nn.FractionalMaxPool2d(2)
    with pytest.raises(ArgumentError, match="output_ratio must be between 0 and 1"):
        nn.FractionalMaxPool2d(2, output_ratio=1.5)
    with pytest.raises(ShapeError, match="6 windows of 2 do not begin at different places"):
        F.fractional_max_pool2d(fw.ones(1, 2, 6, 6), 2, 6)
    with pytest.raises(ShapeError, match=r"_random_samples must be .* = \(1, 2, 2\)"):
        F.fractional_max_pool2d(fw.ones(1, 2, 6, 6), 2, 3, _random_samples=fw.ones(1, 2))


def test_text():
    assert repr(nn.AvgPool1d(2)) == "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))"
    assert repr(nn.AdaptiveAvgPool2d((None, 3))) == "AdaptiveAvgPool2d(output_size=(None, 3))"
    assert F.max_pool3d.__name__ == "max_pool3d"
