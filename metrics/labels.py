"""Turns scores and targets into the classes and the counts that metrics of classes add up."""

from __future__ import annotations

import fusewire as fw


def check_choice(owner: str, name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raises an ArgumentError if `value` is none of `choices`."""
    if value not in choices:
        raise fw.ArgumentError(f"{owner}: {name}={value!r}",
                               f"one of {', '.join(map(repr, choices))}")


def check_at_least(owner: str, name: str, value: float, least: float) -> None:
    """Raises an ArgumentError if `value` is less than `least`."""
    if value < least:
        raise fw.ArgumentError(f"{owner}: {name}={value} is less than {least}")


def check_same_shape(owner: str, predictions: fw.Tensor, targets: fw.Tensor) -> None:
    """Raises a ShapeError if predictions and targets differ in shape."""
    if predictions.shape != targets.shape:
        raise fw.ShapeError(f"{owner}: predictions {predictions.shape} and targets "
                            f"{targets.shape} differ in shape", "reshape one of them")


def is_float(x: fw.Tensor) -> bool:
    """True for a tensor of real floats."""
    return bool(fw.isdtype(x.dtype, "real floating"))


def predicted_classes(owner: str, predictions: fw.Tensor, targets: fw.Tensor,
                      threshold: float) -> fw.Tensor:
    """The class of each target, in the shape of the targets.

    Args:
        owner: the metric that messages name.
        predictions: scores (n, classes, ...), of which the highest wins; or probabilities of
            class 1, or classes, in the shape of the targets.
        targets: classes (n, ...).
        threshold: least probability that is class 1.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: the targets are floats.
    """
    if is_float(targets):
        raise fw.DTypeError(f"{owner}: targets are classes, got {targets.dtype}",
                            "cast them: targets.astype(fw.int64)")
    per_class = predictions.ndim == targets.ndim + 1
    if per_class and (predictions.shape[:1] + predictions.shape[2:]) == targets.shape:
        return predictions.argmax(axis=1)
    check_same_shape(owner, predictions, targets)
    if is_float(predictions):
        return (predictions >= threshold).astype(fw.int64)
    return predictions.astype(fw.int64)


def counted_at(owner: str, indices: fw.Tensor, allowed: fw.Tensor, size: int) -> fw.Tensor:
    """How often each index occurs, int64 (size,).

    Args:
        owner: the metric that messages name.
        indices: from 0 to size - 1, of any shape.
        allowed: where a label is a class. One more index, `size`, stands for all others, so that
            the check is part of the sum and costs no transfer from the device.
        size: number of different indices.

    Raises:
        IndexingError: a label that is no class.
    """
    checked = fw.where(allowed, indices, size).reshape(-1)
    ones = fw.ones(checked.shape, dtype=fw.int64, device=checked.device)
    try:
        return fw.zeros(size, dtype=fw.int64, device=checked.device).index_add(0, checked, ones)
    except fw.IndexingError as error:
        raise fw.IndexingError(f"{owner}: a label is outside of the range of classes",
                               "num_classes is 1 more than the largest label; "
                               "ignore_index leaves out a label") from error


def pair_counts(owner: str, predictions: fw.Tensor, targets: fw.Tensor, classes: int,
                ignore_index: int | None) -> fw.Tensor:
    """The confusion matrix (target, prediction), int64 (classes, classes).

    Raises:
        IndexingError: a class out of range.
    """
    targets, ignored = targets.astype(fw.int64), _ignored(targets, ignore_index)
    allowed = (predictions >= 0) & (predictions < classes) & (targets >= 0) & (targets < classes)
    # Ignored pairs are counted at one more place, which is cut off.
    pairs = fw.where(ignored, classes * classes, targets * classes + predictions)
    flat = counted_at(owner, pairs, allowed | ignored, classes * classes + 1)
    return flat[:-1].reshape(classes, classes)


def class_counts(owner: str, labels: fw.Tensor, classes: int, chosen: fw.Tensor) -> fw.Tensor:
    """How often each class occurs among the chosen labels, int64 (classes,).

    Raises:
        IndexingError: a chosen label is no class.
    """
    allowed = (labels >= 0) & (labels < classes)
    places = fw.where(chosen, labels.astype(fw.int64), classes)
    return counted_at(owner, places, allowed | ~chosen, classes + 1)[:-1]


def is_counted(targets: fw.Tensor, ignore_index: int | None) -> fw.Tensor:
    """Where a target counts, bool in the shape of the targets."""
    return ~_ignored(targets, ignore_index)


def _ignored(targets: fw.Tensor, ignore_index: int | None) -> fw.Tensor:
    if ignore_index is None:
        return fw.zeros(targets.shape, dtype=fw.bool, device=targets.device)
    return targets == ignore_index
