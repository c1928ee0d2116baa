"""PSNR and SSIM are those of scikit-image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from metric_parts import same, value_of

import fusewire as fw
from fusewire.metrics import PSNR, SSIM

theirs = pytest.importorskip("skimage.metrics")
SEEDS = range(3)


def images(seed: int, data_range: float, size: tuple[int, int] = (14, 19)) -> tuple[Any, Any]:
    """Noisy images and their originals, (5, 3, height, width)."""
    rng = np.random.default_rng(seed)
    targets = rng.random((5, 3, *size))
    noisy = np.clip(targets + 0.1 * rng.normal(size=targets.shape), 0, 1)
    scaled = [(x * data_range).astype(np.uint8 if data_range == 255 else np.float32)
              for x in (noisy, targets)]
    return scaled[0], scaled[1]


@pytest.mark.parametrize("data_range", [1, 255])
@pytest.mark.parametrize("seed", SEEDS)
def test_psnr(seed: int, data_range: int) -> None:
    noisy, targets = images(seed, data_range)
    wide, original = noisy.astype(float), targets.astype(float)
    same(value_of(lambda: PSNR(data_range), noisy, targets),
         theirs.peak_signal_noise_ratio(original, wide, data_range=data_range))
    each = [theirs.peak_signal_noise_ratio(x, y, data_range=data_range)
            for x, y in zip(original, wide)]
    same(value_of(lambda: PSNR(data_range, per_image=True), noisy, targets), np.mean(each))


def test_images_without_error() -> None:
    same_image = images(0, 1)[0]
    assert value_of(lambda: PSNR(1), same_image, same_image) == np.inf
    same(value_of(lambda: SSIM(1), same_image, same_image), 1)


@pytest.mark.parametrize("data_range", [1, 255])
@pytest.mark.parametrize("size", [(11, 11), (14, 19)])
@pytest.mark.parametrize("seed", SEEDS)
def test_ssim(seed: int, size: tuple[int, int], data_range: int) -> None:
    noisy, targets = images(seed, data_range, size)
    each = [theirs.structural_similarity(
        x.astype(float), y.astype(float), data_range=data_range, channel_axis=0,
        gaussian_weights=True, sigma=1.5, use_sample_covariance=False)
        for x, y in zip(targets, noisy)]
    same(value_of(lambda: SSIM(data_range), noisy, targets), np.mean(each))


def test_flat_images_keep_their_digits() -> None:
    """The variance is 0, and the squares are 10^8 times as large as its rounding in float32."""
    flat = np.full((1, 1, 12, 12), 250.3, np.float32)
    ssim = SSIM(255)
    ssim.update(fw.asarray(flat), fw.asarray(flat))
    assert ssim.compute().item() == pytest.approx(1, abs=1e-9)


def test_images_that_do_not_fit_are_errors() -> None:
    with pytest.raises(fw.ShapeError, match="at least 11 by 11"):
        SSIM(1).update(fw.zeros(1, 1, 10, 20), fw.zeros(1, 1, 10, 20))
    with pytest.raises(fw.ShapeError, match="differ in shape"):
        PSNR(1).update(fw.zeros(1, 1, 10, 20), fw.zeros(1, 3, 10, 20))
    with pytest.raises(fw.ArgumentError, match="data_range=0"):
        PSNR(0)
