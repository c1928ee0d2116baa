"""Loads 1,797 handwritten digits of 8 by 8 pixels; ATTRIBUTION.md names their source."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...eager.core.tensor import Tensor, from_numpy

FILE = Path(__file__).with_name("digits.npz")
BRIGHTEST = 16  # the largest value of a pixel in the file


class DigitSplit(NamedTuple):
    """Images (n, 1, 8, 8) and labels (n,), for training and for testing."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_arrays() -> tuple[np.ndarray, np.ndarray]:
    """The arrays of the file: images (1797, 8, 8) of 0 to 16 and labels (1797,), both uint8."""
    with np.load(FILE) as archive:
        return archive["images"], archive["labels"]


def load_digits() -> tuple[Tensor, Tensor]:
    """All images, (1797, 1, 8, 8) float32 of 0 to 1, and labels, (1797,) int64."""
    images, labels = load_arrays()
    scaled = images[:, None].astype(np.float32) / np.float32(BRIGHTEST)
    return from_numpy(scaled), from_numpy(labels.astype(np.int64))


def split_digits(test_share: float = 0.2, seed: int = 0) -> DigitSplit:
    """The digits in a fixed random order; the last `test_share` of each class is for testing."""
    images, labels = (tensor.numpy() for tensor in load_digits())
    # NumPy promises that the numbers of RandomState stay the same in every version.
    permutation = np.random.RandomState(seed).permutation(len(labels))
    is_test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        members = permutation[labels[permutation] == label]
        is_test[members[len(members) - round(len(members) * test_share):]] = True
    index_sets = (permutation[~is_test[permutation]], permutation[is_test[permutation]])
    return DigitSplit(*(from_numpy(array[indices]) for indices in index_sets
                        for array in (images, labels)))
