"""Checks the batches that transforms take."""

from __future__ import annotations

import fusewire as fw


def check_images(owner: str, images: fw.Tensor, floats: bool = True, colours: bool = False) -> None:
    """Raises an error if a tensor is no batch of images.

    Args:
        owner: the transform that messages name.
        images: the tensor.
        floats: the values must be floats. Default True.
        colours: there must be 3 channels: red, green, blue. Default False.

    Raises:
        ShapeError: it is not (n, channels, height, width), or has another number of channels.
        DTypeError: it holds integers.
    """
    if images.ndim != 4 or (colours and images.shape[1] != 3):
        raise fw.ShapeError(f"{owner}: images are (n, {3 if colours else 'channels'}, height, "
                            f"width), got {images.shape}", "a single image is image[None]")
    if floats and not fw.isdtype(images.dtype, "real floating"):
        raise fw.DTypeError(f"{owner}: images are floats from 0 to 1, got {images.dtype}",
                            "data.transforms.to_float(images) divides bytes by 255")


def check_probability(owner: str, name: str, value: float) -> None:
    """Raises an ArgumentError if a number is not from 0 to 1."""
    if not 0 <= value <= 1:
        raise fw.ArgumentError(f"{owner}: {name}={value} is not from 0 to 1")


def for_each(values: float | fw.Tensor, images: fw.Tensor) -> fw.Tensor | float:
    """A number for all images, or numbers (n,) as (n, 1, 1, 1)."""
    if not isinstance(values, fw.Tensor):
        return values
    return values.astype(images.dtype).reshape(-1, 1, 1, 1)


def uniform(low: float, high: float, images: fw.Tensor, generator: fw.Generator | None
            ) -> fw.Tensor:
    """A random number for each image, (n,) on the device of the images."""
    drawn = fw.rand(len(images), generator=generator, device=images.device)
    return low + (high - low) * drawn
