"""Tests exported models with regions of images: boxes without large overlaps, samples in boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fusewire as fw
from fusewire import nn

F = nn.functional


def boxes(rng: np.random.Generator, count: int) -> fw.Tensor:
    corner, size = rng.uniform(0, 5, (count, 2)), rng.uniform(0.5, 3, (count, 2))
    return fw.tensor(np.concatenate([corner, corner + size], 1).astype(np.float32))


def test_a_mask_of_kept_boxes_of_any_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def kept(b: fw.Tensor, s: fw.Tensor) -> fw.Tensor:
        return F.nms_mask(b, s, 0.3)

    given = boxes(rng, 30), fw.tensor(rng.uniform(0, 1, 30).astype(np.float32))
    fw.onnx.export(kept, given, tmp_path / "m.onnx", dynamic_shapes=({0: "n"}, {0: "n"}))
    again = fw.onnx.load(tmp_path / "m.onnx")
    for count in (30, 7, 1, 0):
        some = [x[:count] for x in given]
        assert again(*some).tolist() == kept(*some).tolist()


def test_samples_in_boxes_of_any_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = fw.tensor(rng.standard_normal((2, 3, 9, 8)).astype(np.float32))
    for aligned in (False, True):
        def sampled(x: fw.Tensor, r: fw.Tensor, half: bool = aligned) -> fw.Tensor:
            return F.roi_align(x, r, (3, 2), 0.7, 2, half)

        images = fw.tensor(rng.integers(0, 2, (20, 1)).astype(np.float32))
        rois = fw.concat([images, boxes(rng, 20) * 2 - 1], axis=1)
        fw.onnx.export(sampled, (x, rois), tmp_path / "m.onnx", dynamic_shapes=(None, {0: "k"}))
        again = fw.onnx.load(tmp_path / "m.onnx")
        for count in (20, 3):
            np.testing.assert_allclose(again(x, rois[:count]).numpy(),
                                       sampled(x, rois[:count]).numpy(), atol=1e-5)
