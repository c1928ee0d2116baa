"""Crops, flips, resizes and turns batches of images."""

from __future__ import annotations

from collections.abc import Sequence

import fusewire as fw
import fusewire.nn.functional as F

from .checks import check_images, check_probability, uniform


def random_crop(images: fw.Tensor, size: tuple[int, int], padding: int = 0, value: float = 0.0,
                generator: fw.Generator | None = None) -> fw.Tensor:
    """A random part of each image, (n, channels, *size).

    Args:
        images: (n, channels, height, width) of any dtype.
        size: height and width of the parts, in pixels.
        padding: pixels that are added on each side before. Default 0.
        value: of the added pixels. Default 0.
        generator: source of the positions. Default None: the default generator.

    Raises:
        ShapeError: the padded images are smaller than `size`.

    Example:
        >>> import fusewire as fw
        >>> images = fw.rand(2, 3, 32, 32)
        >>> fw.data.transforms.random_crop(images, (32, 32), padding=4).shape
        (2, 3, 32, 32)
    """
    check_images("random_crop", images, floats=False)
    if padding:
        images = F.pad(images, (padding,) * 4, value=value)
    count, channels, *room = images.shape
    if room[0] < size[0] or room[1] < size[1]:
        raise fw.ShapeError(f"random_crop: a part {tuple(size)} does not fit into padded images "
                            f"{tuple(room)}", "raise padding, or resize the images")
    rows, columns = (
        fw.randint(0, whole - part + 1, (count, 1), generator=generator, device=images.device)
        + fw.arange(part, device=images.device) for whole, part in zip(room, size))
    image = fw.arange(count, device=images.device).reshape(-1, 1, 1, 1)
    channel = fw.arange(channels, device=images.device).reshape(1, -1, 1, 1)
    return images[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


def random_horizontal_flip(images: fw.Tensor, probability: float = 0.5,
                           generator: fw.Generator | None = None) -> fw.Tensor:
    """The images, of which a random part is mirrored from left to right.

    Args:
        images: (n, channels, height, width) of any dtype.
        probability: of each image to be mirrored. Default 0.5.
        generator: source of the choice. Default None: the default generator.

    Example:
        >>> import fusewire as fw
        >>> image = fw.tensor([[[[1, 2, 3]]]])
        >>> fw.data.transforms.random_horizontal_flip(image, probability=1.0).tolist()
        [[[[3, 2, 1]]]]
    """
    check_images("random_horizontal_flip", images, floats=False)
    check_probability("random_horizontal_flip", "probability", probability)
    is_turned = uniform(0, 1, images, generator) < probability
    return fw.where(is_turned.reshape(-1, 1, 1, 1), fw.flip(images, axis=3), images)


def resize(images: fw.Tensor, size: tuple[int, int], antialias: bool = True) -> fw.Tensor:
    """The images at another size, by bilinear interpolation.

    Args:
        images: floats (n, channels, height, width).
        size: height and width in pixels.
        antialias: smaller images average all pixels that they cover. Default True.

    Example:
        >>> import fusewire as fw
        >>> fw.data.transforms.resize(fw.rand(1, 3, 8, 6), (4, 3)).shape
        (1, 3, 4, 3)
    """
    check_images("resize", images)
    rows, columns = (_weights(whole, part, antialias, images)
                     for whole, part in zip(images.shape[2:], size))
    return rows @ images @ columns.T


def _weights(before: int, after: int, antialias: bool, images: fw.Tensor) -> fw.Tensor:
    """The weights of pixels along an axis in each pixel of the result, (after, before).

    They are made by ops, so that they are part of a compiled step.
    """
    ratio = before / after
    reach = max(ratio, 1.0) if antialias else 1.0
    centre = (fw.arange(after, dtype=fw.float64, device=images.device) + 0.5) * ratio
    pixel = fw.arange(before, dtype=fw.float64, device=images.device) + 0.5
    weights = (1 - (pixel - centre.expand_dims(1)).abs() / reach).clip(0, None)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(images.dtype)


def affine(images: fw.Tensor, degrees: float | fw.Tensor = 0.0,
           shift: Sequence[float | fw.Tensor] = (0.0, 0.0),
           shear: Sequence[float | fw.Tensor] = (0.0, 0.0)) -> fw.Tensor:
    """The images turned, sheared and shifted about their centres, by bilinear interpolation.

    Pixels from outside of an image are 0. Each number may be a tensor (n,) with one for each image.

    Args:
        images: floats (n, channels, height, width).
        degrees: counter-clockwise. Default 0.
        shift: to the right and down, in pixels. Default no shift.
        shear: shift to the right by each pixel down, and down by each pixel to the right. Default
            none.

    Example:
        >>> import fusewire as fw
        >>> image = fw.tensor([[[[1.0, 2.0, 3.0]]]])
        >>> fw.data.transforms.affine(image, shift=(1, 0)).round().tolist()
        [[[[0.0, 1.0, 2.0]]]]
    """
    check_images("affine", images)
    count, _, height, width = images.shape
    zero = fw.zeros(count, dtype=images.dtype, device=images.device)
    angle, right, down, along, across = (
        zero + value for value in (degrees, *shift, *shear))
    angle = angle * (fw.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    # The rows say from where a pixel comes: the inverse of shear, then of the turn. Coordinates are
    # in halves of the width and of the height.
    scale = 1 / (1 - along * across)
    x_from = [(cos - along * sin) * scale, (-sin - along * cos) * scale]
    y_from = [(sin - across * cos) * scale, (cos + across * sin) * scale]
    x_shift = -(x_from[0] * right + x_from[1] * down) * (2 / width)
    y_shift = -(y_from[0] * right + y_from[1] * down) * (2 / height)
    matrix = fw.stack([x_from[0], x_from[1] * (height / width), x_shift,
                       y_from[0] * (width / height), y_from[1], y_shift], axis=1)
    grid = F.affine_grid(matrix.reshape(count, 2, 3), images.shape, align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)
