"""Measures how far images are from their originals."""

from __future__ import annotations

import fusewire as fw
import fusewire.nn.functional as F

from .labels import check_same_shape
from .mean import MeanMetric

_WINDOW, _SIGMA = 11, 1.5  # pixels, of the Gaussian window that the paper chooses
_K1, _K2 = 0.01, 0.03  # of the paper; they keep the ratios finite in flat regions


class PSNR(MeanMetric):
    """The ratio of the largest signal to the noise, in decibels, float64 ().

    Images without any error have infinity.

    Args:
        data_range: largest value minus smallest value that a pixel can have, such as 1 or 255.
        per_image: True is the mean of the ratios of the images; False is the ratio of the mean
            squared error of all pixels. Default False.

    Example:
        >>> import fusewire as fw
        >>> psnr = fw.metrics.PSNR(data_range=1.0)
        >>> psnr.update(fw.full((1, 3, 4, 4), 0.5), fw.full((1, 3, 4, 4), 0.6))
        >>> round(float(psnr.compute()), 3)
        20.0
    """

    def __init__(self, data_range: float, per_image: bool = False) -> None:
        _check_range("PSNR", data_range)
        self.data_range, self.per_image = data_range, per_image
        super().__init__()

    def update(self, predictions: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds images and their originals, (n, channels, height, width).

        Raises:
            ShapeError: the shapes differ.
        """
        check_same_shape("PSNR", predictions, targets)
        self.move(targets.device)
        error = (predictions.detach().astype(fw.float64) - targets.detach().astype(fw.float64)) ** 2
        if self.per_image:
            error = self._ratio(error.flatten(1).mean(axis=1))
        self.add(error, error.size)

    def compute(self) -> fw.Tensor:
        """The ratio in decibels, float64 ()."""
        mean = super().compute()
        return mean if self.per_image else self._ratio(mean)

    def _ratio(self, error: fw.Tensor) -> fw.Tensor:
        return 10 * (self.data_range ** 2 / error).log10()


class SSIM(MeanMetric):
    """The mean structural similarity of images, float64 (), at most 1.

    Means, variances and covariances are of windows of 11 by 11 pixels with Gaussian weights of
    sigma 1.5; windows that cross the edge do not count. They are computed in float64, since a
    variance is a small difference of large numbers.
    Source: Wang et al., Image Quality Assessment: From Error Visibility to Structural Similarity,
    2004.

    Args:
        data_range: largest value minus smallest value that a pixel can have, such as 1 or 255.

    Example:
        >>> import fusewire as fw
        >>> ssim = fw.metrics.SSIM(data_range=1.0)
        >>> image = fw.rand(2, 3, 16, 16)
        >>> ssim.update(image, image)
        >>> round(float(ssim.compute()), 6)
        1.0
    """

    def __init__(self, data_range: float) -> None:
        _check_range("SSIM", data_range)
        self.data_range = data_range
        super().__init__()

    def update(self, predictions: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds images and their originals, (n, channels, height, width).

        Raises:
            ShapeError: the shapes differ, or an image is smaller than the window.
        """
        check_same_shape("SSIM", predictions, targets)
        if targets.ndim != 4 or min(targets.shape[2:]) < _WINDOW:
            raise fw.ShapeError(f"SSIM: targets {targets.shape} are not (n, channels, height, "
                                f"width) with at least {_WINDOW} by {_WINDOW} pixels")
        self.move(targets.device)
        x, y = (image.detach().astype(fw.float64) for image in (predictions, targets))
        self.add(self._similarity(x, y).mean(axis=(1, 2, 3)), len(targets))

    def _similarity(self, x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        """The similarity around each pixel away from the edge, (n, channels, ., .)."""
        x_mean, y_mean, x_square, y_square, product = fw.unstack(
            _blurred(fw.stack([x, y, x * x, y * y, x * y])))
        c1, c2 = (_K1 * self.data_range) ** 2, (_K2 * self.data_range) ** 2
        variances = x_square - x_mean ** 2 + y_square - y_mean ** 2
        covariance = product - x_mean * y_mean
        return ((2 * x_mean * y_mean + c1) * (2 * covariance + c2)
                / ((x_mean ** 2 + y_mean ** 2 + c1) * (variances + c2)))


def _blurred(images: fw.Tensor) -> fw.Tensor:
    """Gaussian means of windows: (..., height, width) to (..., height - 10, width - 10)."""
    offset = fw.arange(_WINDOW, dtype=fw.float64, device=images.device) - _WINDOW // 2
    weights = (-(offset / _SIGMA) ** 2 / 2).exp()
    weights = weights / weights.sum()
    planes = images.reshape(-1, 1, *images.shape[-2:])
    planes = F.conv2d(planes, weights.reshape(1, 1, -1, 1))
    planes = F.conv2d(planes, weights.reshape(1, 1, 1, -1))
    return planes.reshape(*images.shape[:-2], *planes.shape[-2:])


def _check_range(owner: str, data_range: float) -> None:
    if not data_range > 0:
        raise fw.ArgumentError(f"{owner}: data_range={data_range} is not above 0",
                               "1 for images from 0 to 1, 255 for bytes")
