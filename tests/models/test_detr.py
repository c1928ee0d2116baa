"""Tests the detector beside its parity: names of timm's backbones, and what is made of its results.
"""

from __future__ import annotations

import numpy as np
import pytest

import fusewire as fw
from fusewire import models
from fusewire.models.vision import resnet
from fusewire.models.vision.detr import detections

SMALL = {"model_type": "detr", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
         "num_queries": 3, "id2label": {"0": "cat", "1": "dog"}}


def test_a_backbone_of_timm_has_the_features_of_a_resnet_in_eval_mode() -> None:
    model = models.from_config({**SMALL, "use_timm_backbone": True, "backbone": "resnet18"})
    own, images = model.model.backbone["conv_encoder"]["model"], fw.randn(1, 3, 64, 64)
    whole = resnet.resnet18().eval()
    state = {name: x for name, x in whole.state_dict().items()
             if not name.startswith("fc.") and not name.endswith("num_batches_tracked")}
    own.load_state_dict(state)
    np.testing.assert_allclose(own(images).numpy(), whole.features(images).numpy(), 1e-4, 1e-5)


def test_detections_are_the_best_class_and_the_corners_in_pixels() -> None:
    logits, boxes = fw.tensor([[[0.0, 3.0, 9.0]]]), fw.tensor([[[0.5, 0.25, 0.2, 0.1]]])
    scores, classes, corners = detections(logits, boxes, height=40, width=100)
    assert classes.tolist() == [[1]]  # the last class stands for no object
    np.testing.assert_allclose(scores.numpy(), np.exp(3) / (1 + np.exp(3) + np.exp(9)), 1e-5)
    np.testing.assert_allclose(corners.numpy(), [[[40, 8, 60, 12]]], 1e-5)


def test_what_is_not_implemented_is_an_error() -> None:
    with pytest.raises(fw.FusewireError, match="position_embedding_type='learned'"):
        models.from_config({**SMALL, "position_embedding_type": "learned"})
    with pytest.raises(fw.FusewireError, match="out_features"):
        models.from_config({**SMALL, "backbone_config": {"out_features": ["stage3"]}})
