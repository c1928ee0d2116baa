"""EfficientNet: Tan and Le, arXiv 1905.11946, with torchvision's names."""

from __future__ import annotations

import math
from functools import partial

import fusewire as fw
from fusewire import nn

from .inverted_residual import BlockSpec, InvertedResidual, conv_norm, divisible

STAGES = ((1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
          (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1))
"""Expansion, kernel, stride, channels in and out, and blocks of each stage of B0."""


class EfficientNet(nn.Module):
    """Images (n, 3, h, w) to the logits of their classes (n, classes).

    Args:
        width: scales the channels of B0.
        depth: scales the number of blocks of B0.
        dropout: before the last layer.
        classes: number of classes.
        eps, momentum: of the batch norms.
    """

    def __init__(self, width: float, depth: float, dropout: float, classes: int = 1000,
                 eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        norm = partial(nn.BatchNorm2d, eps=eps, momentum=momentum)
        counts = [math.ceil(stage[-1] * depth) for stage in STAGES]
        total, number = sum(counts), 0
        stages: list[nn.Module] = [conv_norm(3, divisible(32 * width), 3, 2, norm=norm,
                                             activation=nn.SiLU)]
        for (expansion, kernel, stride, first, channels, _), count in zip(STAGES, counts):
            n_in, n_out, blocks = divisible(first * width), divisible(channels * width), []
            for i in range(count):
                spec = BlockSpec(kernel, stride if i == 0 else 1, n_in, divisible(n_in * expansion),
                                 n_out, max(1, n_in // 4), nn.SiLU)
                blocks.append(InvertedResidual(spec, norm, nn.SiLU, nn.Sigmoid,
                                               0.2 * number / total))
                n_in, number = n_out, number + 1
            stages.append(nn.Sequential(*blocks))
        stages.append(conv_norm(n_in, 4 * n_in, 1, norm=norm, activation=nn.SiLU))
        self.features = nn.Sequential(*stages)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(4 * n_in, classes))

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        return self.classifier(self.features(images).mean(axis=(2, 3)))


VARIANTS = {"b0": (1.0, 1.0, 0.2), "b1": (1.0, 1.1, 0.2), "b2": (1.1, 1.2, 0.3),
            "b3": (1.2, 1.4, 0.3), "b4": (1.4, 1.8, 0.4), "b5": (1.6, 2.2, 0.4),
            "b6": (1.8, 2.6, 0.5), "b7": (2.0, 3.1, 0.5)}
"""Width, depth and dropout of each variant."""


def efficientnet(variant: str = "b0", classes: int = 1000) -> EfficientNet:
    """EfficientNet of a variant from "b0" to "b7"."""
    large = {"eps": 0.001, "momentum": 0.01} if variant in ("b5", "b6", "b7") else {}
    return EfficientNet(*VARIANTS[variant], classes, **large)
