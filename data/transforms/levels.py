"""Changes the levels of batches of images, as if they had 256 levels."""

from __future__ import annotations

import fusewire as fw

from .checks import check_images, for_each

_LEVELS = 256


def posterize(images: fw.Tensor, bits: float | fw.Tensor) -> fw.Tensor:
    """The images with the highest `bits` of each byte only, a number or (n,) from 0 to 8."""
    check_images("posterize", images)
    step = 2.0 ** (8 - for_each(bits, images))
    return fw.floor(_bytes(images) / step) * step / (_LEVELS - 1)


def solarize(images: fw.Tensor, threshold: float | fw.Tensor) -> fw.Tensor:
    """The images with values of at least `threshold`, a number or (n,), as 1 - value."""
    check_images("solarize", images)
    return fw.where(images >= for_each(threshold, images), 1 - images, images)


def autocontrast(images: fw.Tensor) -> fw.Tensor:
    """The images with each channel stretched to 0 and 1; a channel of one value stays."""
    check_images("autocontrast", images)
    low = images.min(axis=(2, 3), keepdims=True)
    spread = images.max(axis=(2, 3), keepdims=True) - low
    return fw.where(spread == 0, images, (images - low) / fw.where(spread == 0, 1, spread))


def equalize(images: fw.Tensor) -> fw.Tensor:
    """The images with the levels of each channel used about equally often.

    A channel with so few pixels besides its highest level that a step would be 0 stays.
    """
    check_images("equalize", images)
    count, channels, height, width = images.shape
    planes, pixels = count * channels, height * width
    levels = _bytes(images).astype(fw.int64).reshape(planes, pixels)
    first = fw.arange(planes, device=images.device).expand_dims(1) * _LEVELS
    places = (levels + first).reshape(-1)
    ones = fw.ones(places.shape, dtype=fw.int64, device=images.device)
    bins = fw.zeros(planes * _LEVELS, dtype=fw.int64, device=images.device)
    histogram = bins.index_add(0, places, ones).reshape(planes, _LEVELS)
    highest = histogram.take_along_axis(levels.max(axis=1, keepdims=True), axis=1)
    step = (pixels - highest) // (_LEVELS - 1)
    safe = fw.where(step == 0, 1, step)
    below = fw.cumulative_sum(histogram, axis=1) - histogram
    mapped = ((below + safe // 2) // safe).clip(0, _LEVELS - 1)
    mapped = mapped.take_along_axis(levels, axis=1).astype(images.dtype) / (_LEVELS - 1)
    return fw.where(step == 0, images.reshape(planes, pixels), mapped).reshape(images.shape)


def _bytes(images: fw.Tensor) -> fw.Tensor:
    """The nearest levels, floats from 0 to 255."""
    return (images * (_LEVELS - 1)).round().clip(0, _LEVELS - 1)
