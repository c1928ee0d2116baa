"""Mean average precision is that of pycocotools, and boxes overlap as there."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from metric_parts import same, value_of

import fusewire as fw
from fusewire.metrics import BoxIoU, MeanAveragePrecision, box_iou

coco = pytest.importorskip("pycocotools.coco")
cocoeval = pytest.importorskip("pycocotools.cocoeval")
mask = pytest.importorskip("pycocotools.mask")
SEEDS = range(6)
ORDER = ["map", "map_50", "map_75", "map_small", "map_medium", "map_large",
         "mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"]  # of COCOeval.stats


def random_boxes(rng: Any, count: int) -> Any:
    """Boxes (count, 4) of whole pixels, so that overlaps round equally."""
    start = rng.integers(0, 200, (count, 2))
    return np.concatenate([start, start + rng.integers(1, 150, (count, 2))], 1).astype(float)


def random_images(seed: int, images: int = 7) -> tuple[list[Any], list[Any]]:
    """Detections near the targets and elsewhere; scores with ties, crowds, images without boxes."""
    rng = np.random.default_rng(seed)
    found, wanted = [], []
    for i in range(images):
        boxes = random_boxes(rng, 0 if i == 2 else rng.integers(1, 9))
        labels = rng.integers(0, 3, len(boxes))
        moved = np.repeat(boxes, 2, axis=0) + rng.integers(-6, 7, (2 * len(boxes), 4))
        moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 1)
        other = random_boxes(rng, rng.integers(0, 130 if seed == 5 else 5))
        detected = np.zeros((0, 4)) if i == 3 else np.concatenate([moved, other])
        more = rng.integers(0, 4, len(other))
        detected_labels = np.concatenate([np.repeat(labels, 2), more])[:len(detected)]
        scores = rng.random(len(detected)).round(1 if seed % 2 else 6)
        found.append({"boxes": detected, "labels": detected_labels, "scores": scores})
        wanted.append({"boxes": boxes, "labels": labels, "crowd": rng.random(len(boxes)) < 0.15})
    return found, wanted


def tensors(images: list[Any]) -> list[dict[str, fw.Tensor]]:
    return [{name: fw.asarray(values) for name, values in image.items()} for image in images]


def expected(found: list[Any], wanted: list[Any]) -> dict[str, float]:
    """The twelve measures by pycocotools, nan in the place of -1."""
    targets = [{"id": 0, "image_id": i, "category_id": int(label), "bbox": _sized(box),
                "area": float(_sized(box)[2] * _sized(box)[3]), "iscrowd": int(crowd)}
               for i, image in enumerate(wanted)
               for box, label, crowd in zip(image["boxes"], image["labels"], image["crowd"])]
    for number, target in enumerate(targets, 1):
        target["id"] = number
    labels = sorted({int(x) for image in [*found, *wanted] for x in image["labels"]})
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO()
        truth.dataset = {"images": [{"id": i} for i in range(len(wanted))], "info": {},
                         "annotations": targets, "categories": [{"id": k} for k in labels]}
        truth.createIndex()
        detected = truth.loadRes([
            {"image_id": i, "category_id": int(label), "bbox": _sized(box), "score": float(score)}
            for i, image in enumerate(found)
            for box, label, score in zip(image["boxes"], image["labels"], image["scores"])])
        run = cocoeval.COCOeval(truth, detected, "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    return dict(zip(ORDER, np.where(run.stats < 0, np.nan, run.stats)))


def _sized(box: Any) -> list[float]:
    left, top, right, bottom = map(float, box)
    return [left, top, right - left, bottom - top]


@pytest.mark.parametrize("seed", SEEDS)
def test_mean_average_precision(seed: int) -> None:
    """Seed 5 has more detections in an image than count."""
    found, wanted = random_images(seed)
    same(value_of(MeanAveragePrecision, tensors(found), tensors(wanted)), expected(found, wanted))


def test_exact_detections() -> None:
    _, wanted = random_images(0)
    exact = [{"boxes": image["boxes"], "labels": image["labels"],
              "scores": np.ones(len(image["boxes"]))} for image in wanted]
    actual = value_of(MeanAveragePrecision, tensors(exact), tensors(wanted))
    same(actual, expected(exact, wanted))
    assert actual["map"] == 1


def test_images_without_any_target_have_no_precision() -> None:
    found, wanted = random_images(0)
    wanted = [{name: values[:0] for name, values in image.items()} for image in wanted]
    actual = value_of(MeanAveragePrecision, tensors(found), tensors(wanted))
    assert np.isnan(list(actual.values())).all() and len(actual) == 12


def test_no_detections_at_all() -> None:
    """pycocotools cannot load an empty list; every recall and precision is 0."""
    found, wanted = random_images(0)
    found = [{name: values[:0] for name, values in image.items()} for image in found]
    actual = value_of(MeanAveragePrecision, tensors(found), tensors(wanted))
    assert actual["map"] == actual["mar_100"] == 0


def test_an_area_of_its_own_decides_about_small_and_large() -> None:
    """As that of a mask, which is smaller than its box."""
    box, label = fw.tensor([[0.0, 0, 100, 100]]), fw.tensor([1])
    found = [{"boxes": box, "labels": label, "scores": fw.tensor([1.0])}]
    for area, name in ((100.0, "map_small"), (2000.0, "map_medium"), (9500.0, "map_large")):
        precision = MeanAveragePrecision()
        precision.update(found, [{"boxes": box, "labels": label, "area": fw.tensor([area])}])
        values = {k: float(v) for k, v in precision.compute().items()}
        assert values[name] == pytest.approx(1)
        assert np.isnan(values["map_small"]) == (name != "map_small")


@pytest.mark.parametrize("seed", SEEDS)
def test_overlaps_of_boxes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = random_boxes(rng, 6), random_boxes(rng, 9)
    theirs = mask.iou(np.array([_sized(x) for x in first]), np.array([_sized(x) for x in second]),
                      [0] * len(second))
    np.testing.assert_allclose(box_iou(fw.asarray(first), fw.asarray(second)).numpy(), theirs)
    same(value_of(BoxIoU, first, second[:6]), np.diagonal(theirs).mean())


def test_boxes_without_area_overlap_nothing() -> None:
    point = fw.tensor([[5, 5, 5, 5]])
    assert box_iou(point, fw.tensor([[5, 5, 5, 5], [0, 0, 9, 9]])).tolist() == [[0, 0]]


def test_what_is_missing_is_named() -> None:
    precision, box = MeanAveragePrecision(), fw.zeros(1, 4)
    with pytest.raises(fw.ArgumentError, match="lacks labels, scores; it has"):
        precision.update([{"boxes": box}], [{"boxes": box}])
    image = {"boxes": box, "labels": fw.tensor([1, 2]), "scores": fw.zeros(1)}
    with pytest.raises(fw.ShapeError, match=r"labels \(2,\) beside boxes \(1, 4\)"):
        precision.update([image], [image])
    with pytest.raises(fw.ShapeError, match="boxes are \\(n, 4\\)"):
        precision.update([{**image, "boxes": fw.zeros(0)}], [image])
    with pytest.raises(fw.StateError, match="no image yet"):
        precision.compute()
