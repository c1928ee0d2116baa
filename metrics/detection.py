"""Measures detections by the definition of COCO: average precision and recall over overlaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import fusewire as fw

from .boxes import areas, check_boxes, intersections
from .detection_matches import AREAS, MOST, OVERLAPS, ClassMatches, match_image
from .metric import Metric

Boxes = Mapping[str, fw.Tensor]
_RECALLS = np.linspace(0, 1, 101)  # at which the precision is read
_EPSILON = np.spacing(1)  # so that no detections are no division by zero


class MeanAveragePrecision(Metric):
    """The twelve measures of COCO for detected boxes, a dict of float64 ().

    `map` is the mean over classes and overlaps 0.5, 0.55 ... 0.95 of the average precision;
    `map_50` and `map_75` are of one overlap. `mar_1`, `mar_10` and `mar_100` are the mean highest
    recall with that many detections of an image and class. `_small`, `_medium` and `_large` are of
    boxes of less than 32 by 32 pixels, up to 96 by 96, and above. A measure without any target is
    nan (COCO: -1).

    Overlaps are computed on the device; the matches, which depend on each other, on the host.
    Source: Lin et al., Microsoft COCO: Common Objects in Context, 2014, and its evaluation.

    Example:
        >>> import fusewire as fw
        >>> precision = fw.metrics.MeanAveragePrecision()
        >>> box, label = fw.tensor([[10.0, 10, 50, 50]]), fw.tensor([3])
        >>> precision.update([{"boxes": box, "labels": label, "scores": fw.tensor([0.9])}],
        ...                  [{"boxes": box, "labels": label}])
        >>> round(float(precision.compute()["map"]), 4)
        1.0
    """

    detections: list[fw.Tensor]
    targets: list[fw.Tensor]

    def __init__(self) -> None:
        super().__init__(detections=[], targets=[])

    def update(self, predictions: Sequence[Boxes], targets: Sequence[Boxes]) -> None:
        """Adds images.

        Args:
            predictions: for each image `boxes` (n, 4): left, top, right, bottom, in pixels,
                `labels` (n,) and `scores` (n,).
            targets: for each image `boxes` and `labels`; `crowd` (n,) marks regions of many
                objects, where any number of detections is neither right nor wrong (default none);
                `area` (n,) is used instead of that of the box (default none).

        Raises:
            ShapeError: not as many predictions as targets, or tensors that do not fit.
            ArgumentError: a key is missing.
        """
        if len(predictions) != len(targets):
            raise fw.ShapeError(f"MeanAveragePrecision: {len(predictions)} predictions and "
                                f"{len(targets)} targets", "each image needs one of both")
        found = [_rows(image, labels=None, scores=None) for image in predictions]
        wanted = [_rows(image, labels=None, crowd=0, area=-1) for image in targets]
        self.detections = [*self.detections, *found]
        self.targets = [*self.targets, *wanted]

    def compute(self) -> dict[str, fw.Tensor]:
        """The measures by their names."""
        if not self.detections:
            raise fw.StateError("MeanAveragePrecision: there is no image yet",
                                "call update before compute")
        by_class: dict[float, ClassMatches] = {}
        for found, wanted in zip(self.detections, self.targets):
            _add_image(by_class, found, wanted)
        curves = [_curves(by_class[label], area, most) for area in range(len(AREAS))
                  for most in MOST for label in sorted(by_class)]
        shape = (len(AREAS), len(MOST), len(by_class), len(OVERLAPS))
        precision = np.array([p for p, _ in curves]).reshape(shape)
        recall = np.array([r for _, r in curves]).reshape(shape)
        return {name: fw.tensor(_mean(values), dtype=fw.float64)
                for name, values in _measures(precision, recall).items()}


def _rows(image: Boxes, **columns: float | None) -> fw.Tensor:
    """The boxes and their further columns in one tensor, float64 (n, 4 + columns)."""
    needed = ["boxes", *(name for name, default in columns.items() if default is None)]
    if missing := [name for name in needed if name not in image]:
        raise fw.ArgumentError(f"MeanAveragePrecision: an image lacks {', '.join(missing)}; it has "
                               f"{sorted(image)}")
    boxes = image["boxes"]
    check_boxes("MeanAveragePrecision", boxes)
    parts = [boxes.detach().astype(fw.float64)]
    for name, default in columns.items():
        values = image.get(name)
        if values is None:
            values = fw.full((len(boxes),), default or 0, device=boxes.device)
        if values.shape != (len(boxes),):
            raise fw.ShapeError(f"MeanAveragePrecision: {name} {values.shape} beside boxes "
                                f"{boxes.shape}", f"each box needs one of {name}")
        parts.append(values.detach().astype(fw.float64).reshape(-1, 1))
    return fw.concat(parts, axis=1)


def _add_image(by_class: dict[float, ClassMatches], found: fw.Tensor, wanted: fw.Tensor) -> None:
    """Matches the boxes of one image, class by class."""
    own = areas(found[:, :4])
    size = fw.where(wanted[:, 6] < 0, areas(wanted[:, :4]), wanted[:, 6])
    shared = intersections(found[:, :4].expand_dims(1), wanted[:, :4])
    # A detection in a crowd covers a part of it, so only the detection's own area counts.
    union = own.expand_dims(1) + fw.where(wanted[:, 5] > 0, 0.0, areas(wanted[:, :4]) - shared)
    overlaps = fw.where(union > 0, shared / fw.where(union > 0, union, 1.0), 0.0).numpy()
    found_rows, wanted_rows = found.numpy(), wanted.numpy()
    for label in {*found_rows[:, 4], *wanted_rows[:, 4]}:
        rows, columns = found_rows[:, 4] == label, wanted_rows[:, 4] == label
        matches = by_class.setdefault(float(label), ClassMatches())
        match_image(matches, overlaps[rows][:, columns], found_rows[rows, 5], own.numpy()[rows],
                    wanted_rows[columns, 5] > 0, size.numpy()[columns])


def _curves(matches: ClassMatches, area: int, most: int) -> tuple[Any, Any]:
    """The mean precision and the highest recall at each overlap, (overlaps,); nan without targets.
    """
    scores, right, ignored, targets = matches.of(area, most)
    if not targets:
        nothing = np.full(len(OVERLAPS), np.nan)
        return nothing, nothing
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum((right & ~ignored)[:, order], axis=1, dtype=np.float64)
    misses = np.cumsum((~right & ~ignored)[:, order], axis=1, dtype=np.float64)
    recall = hits / targets
    precision = hits / (hits + misses + _EPSILON)
    # The precision at a recall is the best one at this recall or a higher one.
    precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    precision = np.pad(precision, ((0, 0), (0, 1)))
    read = [p[np.searchsorted(r, _RECALLS, side="left")].mean()
            for p, r in zip(precision, recall)]
    return np.array(read), recall[:, -1] if recall.shape[1] else np.zeros(len(OVERLAPS))


def _measures(precision: Any, recall: Any) -> dict[str, Any]:
    """The values of which each measure is the mean; axes are areas, counts, classes, overlaps."""
    at = {round(overlap, 2): i for i, overlap in enumerate(OVERLAPS)}
    measures = {"map": precision[0, -1], "map_50": precision[0, -1, :, at[0.5]],
                "map_75": precision[0, -1, :, at[0.75]]}
    measures |= {f"map_{name}": precision[i, -1] for i, name in enumerate(AREAS) if i}
    measures |= {f"mar_{most}": recall[0, i] for i, most in enumerate(MOST)}
    return measures | {f"mar_{name}": recall[i, -1] for i, name in enumerate(AREAS) if i}


def _mean(values: Any) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")
