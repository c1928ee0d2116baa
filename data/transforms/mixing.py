"""Mixes the samples of a batch with each other, and their targets in the same shares."""

from __future__ import annotations

import fusewire as fw
import fusewire.nn.functional as F

from .checks import check_images, uniform


def mixup(images: fw.Tensor, targets: fw.Tensor, num_classes: int, alpha: float = 0.2,
          generator: fw.Generator | None = None) -> tuple[fw.Tensor, fw.Tensor]:
    """Weighted means of each image and the one before it, and targets (n, classes) to match.

    The batch has a random order already, so neighbours are random pairs.
    Source: Zhang et al., mixup: Beyond Empirical Risk Minimization, 2018.

    Args:
        images: floats (n, ...).
        targets: classes (n,).
        num_classes: number of classes.
        alpha: each pair draws its weight from Beta(alpha, alpha). Default 0.2.
        generator: source of the weights. Default None: the default generator.

    Raises:
        ArgumentError: `alpha` is not above 0.

    Example:
        >>> import fusewire as fw
        >>> images, targets = fw.data.transforms.mixup(fw.rand(4, 3, 8, 8), fw.arange(4), 4)
        >>> images.shape, targets.sum(axis=1).round().tolist()
        ((4, 3, 8, 8), [1.0, 1.0, 1.0, 1.0])
    """
    weight = _weights("mixup", images, alpha, generator)
    shaped = weight.reshape(-1, *[1] * (images.ndim - 1)).astype(images.dtype)
    mixed = shaped * images + (1 - shaped) * fw.roll(images, 1, axis=0)
    return mixed, _soft(targets, num_classes, weight)


def cutmix(images: fw.Tensor, targets: fw.Tensor, num_classes: int, alpha: float = 1.0,
           generator: fw.Generator | None = None) -> tuple[fw.Tensor, fw.Tensor]:
    """Images with a box from the one before, and targets (n, classes) by the areas.

    Source: Yun et al., CutMix: Regularization Strategy to Train Strong Classifiers with Localizable
    Features, 2019.

    Args:
        images: (n, channels, height, width).
        targets: classes (n,).
        num_classes: number of classes.
        alpha: each pair draws the share of the image that stays from Beta(alpha, alpha). A box that
            crosses the edge is cut, and the targets follow its true area. Default 1.
        generator: source of the boxes. Default None: the default generator.

    Raises:
        ArgumentError: `alpha` is not above 0.

    Example:
        >>> import fusewire as fw
        >>> images, targets = fw.data.transforms.cutmix(fw.rand(4, 3, 8, 8), fw.arange(4), 4)
        >>> images.shape, targets.shape
        ((4, 3, 8, 8), (4, 4))
    """
    check_images("cutmix", images, floats=False)
    side = (1 - _weights("cutmix", images, alpha, generator)).sqrt()
    rows, columns = (_span(side, size, images, generator) for size in images.shape[2:])
    is_inside = rows[:, None, :, None] & columns[:, None, None, :]
    mixed = fw.where(is_inside, fw.roll(images, 1, axis=0), images)
    kept = 1 - rows.astype(fw.float32).mean(axis=1) * columns.astype(fw.float32).mean(axis=1)
    return mixed, _soft(targets, num_classes, kept)


def _weights(owner: str, images: fw.Tensor, alpha: float, generator: fw.Generator | None
             ) -> fw.Tensor:
    if not alpha > 0:
        raise fw.ArgumentError(f"{owner}: alpha={alpha} is not above 0",
                               "leave the transform out to mix nothing")
    return fw.random.beta(alpha, alpha, (len(images),), generator=generator, device=images.device)


def _span(side: fw.Tensor, size: int, images: fw.Tensor, generator: fw.Generator | None
          ) -> fw.Tensor:
    """Which pixels along an axis are in the box, bool (n, size)."""
    centre = fw.floor(uniform(0, size, images, generator))
    half = fw.floor(side * size) / 2
    at = fw.arange(size, dtype=fw.float32, device=images.device)
    low, high = fw.floor(centre - half), fw.floor(centre + half)
    return (at >= low.expand_dims(1)) & (at < high.expand_dims(1))


def _soft(targets: fw.Tensor, num_classes: int, weight: fw.Tensor) -> fw.Tensor:
    """Targets as shares of classes, float32 (n, classes)."""
    own = F.one_hot(targets, num_classes).astype(fw.float32)
    weight = weight.astype(fw.float32).expand_dims(1)
    return weight * own + (1 - weight) * fw.roll(own, 1, axis=0)
