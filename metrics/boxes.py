"""Measures how far boxes overlap."""

from __future__ import annotations

import fusewire as fw

from .labels import check_same_shape
from .mean import MeanMetric


def box_iou(first: fw.Tensor, second: fw.Tensor) -> fw.Tensor:
    """Intersection over union of all pairs of boxes, (n, m); 0 where the union is empty.

    Args:
        first: boxes (n, 4): left, top, right, bottom. Integers are computed in float64.
        second: boxes (m, 4).

    Raises:
        ShapeError: they are no boxes.

    Example:
        >>> import fusewire as fw
        >>> boxes = fw.tensor([[0.0, 0, 1, 2], [5, 5, 6, 6]])
        >>> fw.metrics.box_iou(fw.tensor([[0.0, 0, 2, 2]]), boxes)
        tensor([[0.5, 0. ]])
    """
    for boxes in (first, second):
        check_boxes("box_iou", boxes)
    return _overlaps(_floats(first).expand_dims(1), _floats(second))


class BoxIoU(MeanMetric):
    """The mean intersection over union of pairs of boxes, float64 ().

    Example:
        >>> import fusewire as fw
        >>> iou = fw.metrics.BoxIoU()
        >>> iou.update(fw.tensor([[0.0, 0, 1, 2]]), fw.tensor([[0.0, 0, 2, 2]]))
        >>> iou.compute()
        tensor(0.5, dtype=float64)
    """

    def update(self, predictions: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds boxes and their targets, (n, 4): left, top, right, bottom.

        Raises:
            ShapeError: they are no boxes, or not as many.
        """
        check_boxes("BoxIoU", targets)
        check_same_shape("BoxIoU", predictions, targets)
        self.move(targets.device)
        self.add(_overlaps(predictions.detach().astype(fw.float64),
                           targets.detach().astype(fw.float64)), len(targets))


def check_boxes(owner: str, boxes: fw.Tensor) -> None:
    """Raises a ShapeError if a tensor is not (n, 4)."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise fw.ShapeError(f"{owner}: boxes are (n, 4): left, top, right, bottom; got "
                            f"{boxes.shape}", "no boxes at all are fw.zeros(0, 4)")


def areas(boxes: fw.Tensor) -> fw.Tensor:
    """The area of each box (..., 4), in its units squared; 0 for one turned inside out."""
    return ((boxes[..., 2] - boxes[..., 0]).clip(0, None)
            * (boxes[..., 3] - boxes[..., 1]).clip(0, None))


def intersections(first: fw.Tensor, second: fw.Tensor) -> fw.Tensor:
    """The area that boxes share, with broadcasting of (..., 4) and (..., 4)."""
    start = fw.maximum(first[..., :2], second[..., :2])
    end = fw.minimum(first[..., 2:], second[..., 2:])
    return areas(fw.concat([start, end], axis=-1))


def _overlaps(first: fw.Tensor, second: fw.Tensor) -> fw.Tensor:
    shared = intersections(first, second)
    union = areas(first) + areas(second) - shared
    return fw.where(union > 0, shared / fw.where(union > 0, union, 1), 0)


def _floats(boxes: fw.Tensor) -> fw.Tensor:
    return boxes if fw.isdtype(boxes.dtype, "real floating") else boxes.astype(fw.float64)
