"""Changes the colours of batches of images."""

from __future__ import annotations

from collections.abc import Sequence

import fusewire as fw
import fusewire.nn.functional as F

from .checks import check_images, for_each, uniform

_LUMA = (0.2989, 0.587, 0.114)  # of red, green and blue, as ITU-R 601 weighs them for the eye


def to_float(images: fw.Tensor) -> fw.Tensor:
    """Bytes from 0 to 255 as float32 from 0 to 1; floats as they are.

    Example:
        >>> import fusewire as fw
        >>> fw.data.transforms.to_float(fw.tensor([0, 255], dtype=fw.uint8))
        tensor([0., 1.])
    """
    return images.astype(fw.float32) / 255 if images.dtype == fw.uint8 else images


def normalize(images: fw.Tensor, mean: Sequence[float], std: Sequence[float]) -> fw.Tensor:
    """(images - mean) / std, channel by channel.

    Args:
        images: floats (n, channels, height, width).
        mean, std: a number for each channel.

    Raises:
        ShapeError: not as many numbers as channels.

    Example:
        >>> import fusewire as fw
        >>> fw.data.transforms.normalize(fw.ones(1, 2, 1, 1), [0.5, 1.0], [0.5, 1.0]).tolist()
        [[[[1.0]], [[0.0]]]]
    """
    check_images("normalize", images)
    if not len(mean) == len(std) == images.shape[1]:
        raise fw.ShapeError(f"normalize: {len(mean)} means and {len(std)} deviations for images "
                            f"{images.shape}", "each channel needs one of both")
    centre, scale = (fw.tensor(list(x), dtype=images.dtype, device=images.device)
                     .reshape(1, -1, 1, 1) for x in (mean, std))
    return (images - centre) / scale


def brightness(images: fw.Tensor, factor: float | fw.Tensor) -> fw.Tensor:
    """The images with all values times `factor`, a number or (n,), clipped to 0 and 1."""
    return _blended(images, fw.zeros_like(images), factor)


def contrast(images: fw.Tensor, factor: float | fw.Tensor) -> fw.Tensor:
    """The images with distances from their mean grey times `factor`, a number or (n,)."""
    return _blended(images, _grey(images).mean(axis=(1, 2, 3), keepdims=True), factor)


def saturation(images: fw.Tensor, factor: float | fw.Tensor) -> fw.Tensor:
    """The images with distances from grey times `factor`, a number or (n,)."""
    return _blended(images, _grey(images), factor)


def sharpness(images: fw.Tensor, factor: float | fw.Tensor) -> fw.Tensor:
    """The images with distances from a blurred copy times `factor`, a number or (n,).

    Pixels at the edge stay as they are.
    """
    return _blended(images, blurred(images), factor)


def blurred(images: fw.Tensor) -> fw.Tensor:
    """The images with each pixel a mean of itself, with weight 5 of 13, and its neighbours."""
    count, channels, height, width = images.shape
    if min(height, width) < 3:
        return images
    weights = (fw.ones(3, 3, dtype=images.dtype, device=images.device)
               + F.pad(fw.full((1, 1), 4.0, dtype=images.dtype, device=images.device), (1,) * 4))
    inner = F.conv2d(images.reshape(-1, 1, height, width), weights.reshape(1, 1, 3, 3) / 13)
    whole = F.pad(inner.reshape(count, channels, height - 2, width - 2), (1,) * 4)
    is_inner = F.pad(fw.ones(height - 2, width - 2, device=images.device), (1,) * 4) > 0
    return fw.where(is_inner, whole, images)


def hue(images: fw.Tensor, shift: float | fw.Tensor) -> fw.Tensor:
    """The images with colours moved around the circle of hues by `shift`, a number or (n,).

    Args:
        images: floats (n, 3, height, width) from 0 to 1.
        shift: in turns, from -0.5 to 0.5.
    """
    check_images("hue", images, colours=True)
    red, green, blue = fw.unstack(images, axis=1)
    high, low = images.max(axis=1), images.min(axis=1)
    spread = high - low
    safe = fw.where(spread == 0, 1, spread)
    of_red, of_green, of_blue = ((high - x) / safe for x in (red, green, blue))
    angle = fw.where(high == red, of_blue - of_green,
                     fw.where(high == green, 2 + of_red - of_blue, 4 + of_green - of_red)) / 6
    moved = for_each(shift, images)
    angle = (angle + (moved.squeeze(3) if isinstance(moved, fw.Tensor) else moved)) % 1
    # Each channel is a trapezoid over the circle: source, the formula of HSV to RGB by Smith, 1978.
    channels = [high - spread * fw.minimum(x, 4 - x).clip(0, 1)
                for x in ((n + angle * 6) % 6 for n in (5, 3, 1))]
    return fw.stack(channels, axis=1)


def colour_jitter(images: fw.Tensor, brightness: float = 0.0, contrast: float = 0.0,
                  saturation: float = 0.0, hue: float = 0.0,
                  generator: fw.Generator | None = None) -> fw.Tensor:
    """The images with random brightness, contrast, saturation and hue, in this order.

    Args:
        images: floats (n, 3, height, width) from 0 to 1.
        brightness, contrast, saturation: each image draws a factor from 1 - value to 1 + value.
            Default 0: no change.
        hue: each image draws a shift from -hue to hue, at most 0.5. Default 0.
        generator: source of the factors. Default None: the default generator.

    Raises:
        ArgumentError: a value is negative, or a hue above 0.5.

    Example:
        >>> import fusewire as fw
        >>> images = fw.rand(2, 3, 4, 4)
        >>> fw.data.transforms.colour_jitter(images, 0.4, 0.4, 0.4, 0.1).shape
        (2, 3, 4, 4)
    """
    check_images("colour_jitter", images, colours=True)
    if min(brightness, contrast, saturation, hue) < 0 or hue > 0.5:
        raise fw.ArgumentError(f"colour_jitter: brightness={brightness}, contrast={contrast}, "
                               f"saturation={saturation}, hue={hue}", "0 or more; hue up to 0.5")
    for change, width in zip(_FACTORS, (brightness, contrast, saturation)):
        if width:
            factor = uniform(max(0.0, 1 - width), 1 + width, images, generator)
            images = change(images, factor)
    return _hue(images, uniform(-hue, hue, images, generator)) if hue else images


_FACTORS = (brightness, contrast, saturation)
_hue = hue  # the argument of `colour_jitter` hides the function


def _grey(images: fw.Tensor) -> fw.Tensor:
    """The brightness for the eye, (n, 1, height, width)."""
    if images.shape[1] != 3:
        return images.mean(axis=1, keepdims=True)
    weights = fw.tensor(_LUMA, dtype=images.dtype, device=images.device).reshape(1, 3, 1, 1)
    return (images * weights).sum(axis=1, keepdims=True)


def _blended(images: fw.Tensor, other: fw.Tensor, factor: float | fw.Tensor) -> fw.Tensor:
    check_images("a change of colours", images)
    return (other + for_each(factor, images) * (images - other)).clip(0, 1)
