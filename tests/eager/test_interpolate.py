"""Functions of images: other sizes, windows as columns, channels as pixels, sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.eager.errors import FusewireError


def line(*values: float) -> fw.Tensor:
    return fw.tensor([[list(map(float, values))]])


def resized(x: fw.Tensor, *args: Any, **more: Any) -> Any:
    return F.interpolate(x, *args, **more).numpy()[0, 0]


# ---- by hand: element i of n' lies at (i + 1/2) n / n' - 1/2
@pytest.mark.parametrize(("mode", "size", "expected"), [
    ("nearest", 6, [1, 1, 2, 2, 4, 4]), ("nearest", 2, [1, 2]), ("nearest", 4, [1, 1, 2, 4]),
    ("nearest-exact", 2, [1, 4]), ("nearest-exact", 1, [2]),
    ("linear", 6, [1, 1.25, 1.75, 2.5, 3.5, 4]), ("linear", 1, [2]), ("linear", 3, [1, 2, 4]),
    ("area", 1, [7 / 3]), ("area", 2, [1.5, 3]), ("area", 6, [1, 1, 2, 2, 4, 4]),
])
def test_a_line(mode: str, size: int, expected: list[float]) -> None:
    np.testing.assert_allclose(resized(line(1, 2, 4), size, mode=mode), expected, rtol=1e-6)


def test_aligned_corners_keep_the_ends() -> None:
    got = resized(line(1, 2, 4), 5, mode="linear", align_corners=True)
    np.testing.assert_allclose(got, [1, 1.5, 2, 3, 4])
    assert resized(line(1, 2, 4), 1, mode="linear", align_corners=True).tolist() == [1]


def test_bilinear_keeps_bilinear_functions() -> None:
    """A bilinear function of the place is not changed, away from the edges."""
    y, x = np.mgrid[:8, :8]
    image = fw.tensor((2.0 * x - y + 0.5 * x * y)[None, None])
    at = (np.arange(16) + 0.5) / 2 - 0.5
    expected = 2 * at - at[:, None] + 0.5 * at * at[:, None]
    got = resized(image, (16, 16), mode="bilinear")
    np.testing.assert_allclose(got[1:-1, 1:-1], expected[1:-1, 1:-1], rtol=1e-12)


def test_bicubic_weights() -> None:
    """Half way between elements: -3/32, 19/32, 19/32, -3/32, with Keys's coefficient -3/4."""
    got = resized(fw.tensor([[np.tile([0.0, 0, 32, 0, 0, 0], (6, 1)).tolist()]]), (6, 11),
                  mode="bicubic", align_corners=True)
    np.testing.assert_allclose(got[0], [0, -3, 0, 19, 32, 19, 0, -3, 0, 0, 0], atol=1e-4)


def test_antialias_averages_what_becomes_smaller() -> None:
    """Triangles of twice the width: of 8 elements, those at 0.5 ... 4.5 around the middle of 2."""
    x = fw.tensor([[[[0.0, 0, 0, 0, 1, 0, 0, 0]] * 2]])
    got = resized(x, (2, 4), mode="bilinear", antialias=True)
    np.testing.assert_allclose(got[0], [0, 0.125, 0.375, 0], atol=1e-6)
    plain = resized(x, (2, 4), mode="bilinear")
    np.testing.assert_allclose(plain[0], [0, 0, 0.5, 0], atol=1e-6)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias_keeps_constants_and_changes_no_larger_image(mode: str) -> None:
    ones = F.interpolate(fw.ones(1, 1, 9, 7), (4, 3), mode=mode, antialias=True)
    np.testing.assert_allclose(ones.numpy(), 1, rtol=1e-6)
    if mode == "bilinear":
        x = fw.tensor(np.random.default_rng(0).standard_normal((1, 2, 3, 4)))
        np.testing.assert_allclose(resized(x, (5, 9), mode=mode, antialias=True)[1:-1, 2:-2],
                                   resized(x, (5, 9), mode=mode)[1:-1, 2:-2], rtol=1e-12)


def test_a_scale_factor_says_how_far_elements_lie_apart() -> None:
    x = line(*range(5))
    assert resized(x, scale_factor=1.3, mode="nearest").tolist() == [0, 0, 1, 2, 3, 3]
    assert resized(x, 6, mode="nearest").tolist() == [0, 0, 1, 2, 3, 4]
    recomputed = F.interpolate(x, scale_factor=1.3, recompute_scale_factor=True)
    assert recomputed.numpy()[0, 0].tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 4), (6, 8), (2, 9), (1, 1)])
def test_gradients_are_the_transposed_map(mode: str, size: Any) -> None:
    """sum(resize(x) * u) is linear in x: its gradient applied to another x gives that sum."""
    rng = np.random.default_rng(0)
    x = fw.tensor(rng.standard_normal((1, 2, 3, 4)), requires_grad=True)
    u = fw.tensor(rng.standard_normal((1, 2, *size)))
    (g,) = fw.grad((F.interpolate(x, size, mode=mode) * u).sum(), [x])
    other = fw.tensor(rng.standard_normal((1, 2, 3, 4)))
    np.testing.assert_allclose((g * other).sum().item(),
                               (F.interpolate(other, size, mode=mode) * u).sum().item())


def test_every_number_of_axes_and_small_dtypes() -> None:
    assert F.interpolate(fw.ones(1, 2, 3, 4, 5), (6, 2, 7), mode="trilinear").shape == (
        1, 2, 6, 2, 7)
    half = F.interpolate(fw.ones(1, 1, 3, dtype=fw.bfloat16), 5, mode="linear")
    assert half.dtype == fw.bfloat16 and half.tolist() == [[[1] * 5]]
    assert F.interpolate(fw.ones(1, 1, 2, dtype=fw.int64), 4).tolist() == [[[1] * 4]]


# ---- windows as columns
def test_unfold_reads_windows_and_fold_adds_them_up() -> None:
    x = fw.arange(12, dtype=fw.float64).reshape(1, 1, 3, 4)
    columns = F.unfold(x, (2, 2))
    assert columns.shape == (1, 4, 6)
    assert columns[0, :, 0].tolist() == [0, 1, 4, 5]
    assert columns[0, :, 5].tolist() == [6, 7, 10, 11]
    times = F.fold(F.unfold(fw.ones_like(x), 2), (3, 4), 2)
    assert times[0, 0].tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [1, 2, 2, 1]]
    np.testing.assert_array_equal(F.fold(columns, (3, 4), 2).numpy(), (x * times).numpy())
    assert F.unfold(x[0], 2, padding=1, stride=2).shape == (4, 6)


def test_unfold_along_one_axis() -> None:
    x = fw.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(
        x.unfold(1, 2, 1).numpy(), np.lib.stride_tricks.sliding_window_view(x.numpy(), 2, 1))
    assert x.unfold(0, 2, 1).tolist() == [[[0, 3], [1, 4], [2, 5]]]
    assert fw.arange(5).unfold(-1, 2, 3).tolist() == [[0, 1], [3, 4]]


# ---- channels and pixels
def test_pixels_are_shuffled_back_and_forth() -> None:
    x = fw.arange(16).reshape(1, 4, 2, 2)
    big = F.pixel_shuffle(x, 2)
    assert big[0, 0].tolist() == [[0, 4, 1, 5], [8, 12, 9, 13], [2, 6, 3, 7], [10, 14, 11, 15]]
    assert F.pixel_unshuffle(big, 2).tolist() == x.tolist()


def test_channels_are_shuffled_between_groups() -> None:
    x = fw.arange(12).reshape(1, 6, 2)
    assert F.channel_shuffle(x, 2)[0, :, 0].tolist() == [0, 6, 2, 8, 4, 10]
    assert F.channel_shuffle(F.channel_shuffle(x, 2), 3).tolist() == x.tolist()


# ---- layers
def test_layers_of_images() -> None:
    x = fw.arange(96, dtype=fw.float32).reshape(1, 4, 4, 6)
    nn = fw.nn
    for layer, expected in (
            (nn.Upsample(scale_factor=2), F.interpolate(x, scale_factor=2.0)),
            (nn.Upsample((2, 3), mode="bicubic"), F.interpolate(x, (2, 3), mode="bicubic")),
            (nn.UpsamplingNearest2d((2, 3)), F.interpolate(x, (2, 3))),
            (nn.UpsamplingBilinear2d(scale_factor=(2, 1)), F.interpolate(
                x, (8, 6), mode="bilinear", align_corners=True)),
            (nn.PixelShuffle(2), F.pixel_shuffle(x, 2)),
            (nn.PixelUnshuffle(2), F.pixel_unshuffle(x, 2)),
            (nn.ChannelShuffle(2), F.channel_shuffle(x, 2)),
            (nn.Unfold(2, stride=2), F.unfold(x, 2, stride=2))):
        assert layer(x).tolist() == expected.tolist(), repr(layer)
    columns = F.unfold(x, 2, stride=2)
    assert nn.Fold((4, 6), 2, stride=2)(columns).tolist() == x.tolist()


def test_text() -> None:
    nn = fw.nn
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2.0, mode='nearest')"
    assert repr(nn.UpsamplingBilinear2d(4)) == "UpsamplingBilinear2d(size=4, mode='bilinear')"
    assert repr(nn.Unfold(2)) == "Unfold(kernel_size=2, dilation=1, padding=0, stride=1)"
    assert repr(nn.PixelShuffle(3)) == "PixelShuffle(upscale_factor=3)"


# ---- sampling
IMAGE = [[[[1.0, 2.0], [3.0, 5.0]]]]


@pytest.mark.parametrize(("place", "more", "expected"), [
    ((0, 0), {}, 2.75), ((-0.5, -0.5), {}, 1), ((1, 1), {}, 1.25), ((3, 0), {}, 0),
    ((1, 1), {"align_corners": True}, 5), ((3, 1), {"padding_mode": "border"}, 5),
    ((-1.5, -0.5), {"padding_mode": "reflection"}, 1), ((0.2, -0.7), {"mode": "nearest"}, 2),
    ((1.4, 0), {"padding_mode": "reflection", "align_corners": True}, 3.2),
])
def test_grid_sample(place: Any, more: dict[str, Any], expected: float) -> None:
    got = F.grid_sample(fw.tensor(IMAGE), fw.tensor([[[list(map(float, place))]]]), **more)
    assert got.shape == (1, 1, 1, 1) and got.item() == pytest.approx(expected)


@pytest.mark.parametrize("align", [True, False])
def test_the_identity_of_affine_grid_samples_the_image_itself(align: bool) -> None:
    x = fw.arange(24, dtype=fw.float32).reshape(1, 2, 3, 4)
    theta = fw.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], requires_grad=True)
    out = F.grid_sample(x, F.affine_grid(theta, x.shape, align), align_corners=align)
    np.testing.assert_allclose(out.numpy(), x.numpy(), rtol=1e-5, atol=1e-5)
    (g,) = fw.grad((out * x).sum(), [theta])
    assert g.shape == theta.shape and np.isfinite(g.numpy()).all()


@pytest.mark.parametrize("align", [True, False])
def test_volumes_are_sampled_too(align: bool) -> None:
    x = fw.arange(48, dtype=fw.float64).reshape(1, 2, 2, 3, 4)
    theta = fw.tensor(np.eye(3, 4)[None])
    grid = F.affine_grid(theta, x.shape, align)
    assert grid.shape == (1, 2, 3, 4, 3)
    for mode in ("bilinear", "nearest"):
        out = F.grid_sample(x, grid, mode, align_corners=align)
        np.testing.assert_allclose(out.numpy(), x.numpy(), atol=1e-12)


def test_bicubic_sampling_at_pixels_and_between_them() -> None:
    x = fw.tensor([[[[0.0, 0, 32, 0, 0]]]])
    places = fw.tensor([[[[i / 2 - 1, 0.0] for i in (1, 1.5, 2, 2.5)]]])
    got = F.grid_sample(x, places, "bicubic", "border", align_corners=True)
    assert got.flatten().tolist() == [0, 19, 32, 19]


@pytest.mark.parametrize(("call", "words"), [
    (lambda: F.interpolate(fw.ones(1, 1, 2, 2), 2, antialias=True), "'nearest' has no antialias"),
    (lambda: F.channel_shuffle(fw.zeros(1, 5, 2), 2), "takes .* with a multiple of 2 channels"),
    (lambda: F.pixel_shuffle(fw.zeros(4, 4), 2), r"takes \(..., c, h, w\), got shape \(4, 4\)"),
    (lambda: F.grid_sample(fw.zeros(1, 1, 2, 2, 2), fw.zeros(1, 1, 1, 1, 3), "bicubic"),
     "'bicubic' takes images"),
    (lambda: F.grid_sample(fw.zeros(1, 1, 2, 2), fw.zeros(1, 1, 1, 2, dtype=fw.float64)),
     "the input is float32, the grid float64"),
    (lambda: F.affine_grid(fw.zeros(1, 2, 3), (1, 1, 2, 2, 2)), r"theta must be \(1, 3, 4\)"),
    (lambda: F.interpolate(line(1), 2, mode="cubic"), "mode 'cubic' is not known"),
    (lambda: F.interpolate(line(1), 2, mode="bilinear"), "'bilinear' takes .* with 2 axes"),
    (lambda: F.interpolate(line(1)), "needs size or scale_factor"),
    (lambda: F.interpolate(line(1), 2, 2.0), "needs size or scale_factor"),
    (lambda: F.interpolate(line(1), (2, 2)), "does not have one number for each"),
    (lambda: F.interpolate(line(1), 0), "all sizes must be at least 1"),
    (lambda: F.interpolate(line(1), 2, align_corners=True), "has no align_corners"),
    (lambda: F.interpolate(fw.ones(1, 1, 2, dtype=fw.int64), 3, mode="area"), "not int64"),
    (lambda: F.unfold(fw.zeros(2, 2), 1), "unfold: takes"),
    (lambda: F.unfold(fw.zeros(1, 2, 2), 3), "a window of 3 does not fit"),
    (lambda: F.fold(fw.zeros(1, 4, 5), (3, 4), 2), "fold: columns"),
    (lambda: fw.zeros(3).unfold(0, 0, 1), "must be at least 1"),
    (lambda: F.pixel_shuffle(fw.zeros(1, 3, 2, 2), 2), "3 channels .* are no multiple"),
    (lambda: F.pixel_unshuffle(fw.zeros(1, 3, 3, 2), 2), "are no multiples of 2"),
    (lambda: F.grid_sample(fw.zeros(1, 1, 2, 2), fw.zeros(2, 1, 1, 2)), "grid_sample: takes"),
    (lambda: F.affine_grid(fw.zeros(1, 3, 3), (1, 1, 2, 2)), "theta must be"),
])
def test_errors(call: Any, words: str) -> None:
    with pytest.raises(FusewireError, match=words):
        call()


@pytest.mark.parametrize("mode, axes", [("linear", 1), ("bilinear", 2), ("trilinear", 3)])
def test_a_linear_scale_that_keeps_the_size_keeps_the_elements(mode, axes):
    x = fw.arange(5 ** axes, dtype=fw.float32).reshape((1, 1) + (5,) * axes)
    out = fw.nn.functional.interpolate(x, scale_factor=1.1, mode=mode)  # int(5.5) is 5
    assert out.tolist() == x.tolist()
