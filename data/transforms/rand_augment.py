"""Changes each image of a batch by random operations, which RandAugment draws from a list."""

from __future__ import annotations

import fusewire as fw

from .checks import check_images, check_probability, for_each, uniform
from .colour import blurred, brightness, contrast, saturation
from .geometry import affine
from .levels import autocontrast, equalize, posterize, solarize

OPERATIONS = ("identity", "shear_x", "shear_y", "shift_x", "shift_y", "rotate", "brightness",
              "colour", "contrast", "sharpness", "posterize", "solarize", "autocontrast",
              "equalize")
_SHEAR, _DEGREES, _FACTOR, _BITS = 0.3, 30.0, 0.9, 4.0  # changes at the full strength
_SHIFT = 150 / 331  # of the width or of the height, at the full strength


def rand_augment(images: fw.Tensor, operations: int = 2, strength: float = 0.3,
                 generator: fw.Generator | None = None) -> fw.Tensor:
    """The images, each changed by random operations of a list of 14.

    All operations are computed for all images, and each image takes its own: so the work does not
    depend on the draw, and a compiled step has no branch. Turns are bilinear, about the
    centre.
    Source: Cubuk et al., RandAugment: Practical Automated Data Augmentation with a Reduced Search
    Space, 2020.

    Args:
        images: floats (n, 3, height, width) from 0 to 1.
        operations: operations for each image, one after the other. Default 2.
        strength: of the changes, from 0 to 1; 0.3 is magnitude 9 of 30. Default 0.3.
        generator: source of choices and directions. Default None: the default generator.

    Raises:
        ArgumentError: `strength` is not from 0 to 1.

    Example:
        >>> import fusewire as fw
        >>> fw.data.transforms.rand_augment(fw.rand(4, 3, 8, 8)).shape
        (4, 3, 8, 8)
    """
    check_images("rand_augment", images, colours=True)
    check_probability("rand_augment", "strength", strength)
    for _ in range(operations):
        chosen = fw.randint(0, len(OPERATIONS), (len(images),), generator=generator,
                            device=images.device)
        sign = fw.where(uniform(0, 1, images, generator) < 0.5, 1.0, -1.0)
        images = apply_chosen(images, chosen, sign * strength)
    return images


def apply_chosen(images: fw.Tensor, chosen: fw.Tensor, strength: fw.Tensor) -> fw.Tensor:
    """The images, each changed by the operation with its number in OPERATIONS.

    Args:
        images: floats (n, 3, height, width) from 0 to 1.
        chosen: numbers of operations (n,).
        strength: (n,) from -1 to 1; operations without a direction use the size.
    """
    height, width = images.shape[2:]

    def only(name: str, scale: float) -> fw.Tensor:
        return fw.where(chosen == OPERATIONS.index(name), strength * scale, 0.0)

    size, factor = strength.abs(), 1 + strength * _FACTOR
    factor = factor.astype(images.dtype)
    moved = affine(images, only("rotate", _DEGREES),
                   (only("shift_x", _SHIFT * width), only("shift_y", _SHIFT * height)),
                   (only("shear_x", _SHEAR), only("shear_y", _SHEAR)))
    sharp = blurred(images)
    changes = {
        "brightness": brightness(images, factor), "colour": saturation(images, factor),
        "contrast": contrast(images, factor),
        "sharpness": (sharp + for_each(factor, images) * (images - sharp)).clip(0, 1),
        "posterize": posterize(images, 8 - (size * _BITS).round()),
        "solarize": solarize(images, 1 - size), "autocontrast": autocontrast(images),
        "equalize": equalize(images)}
    changes |= dict.fromkeys(OPERATIONS[1:6], moved)
    result = images
    for name, changed in changes.items():
        is_chosen = (chosen == OPERATIONS.index(name)).reshape(-1, 1, 1, 1)
        result = fw.where(is_chosen, changed, result)
    return result
