"""MobileNet v2 and v3, with torchvision's names: arXiv 1801.04381 and 1905.02244."""

from __future__ import annotations

from functools import partial

import fusewire as fw
from fusewire import nn

from .inverted_residual import BlockSpec, InvertedResidual, conv_norm, divisible


class LinearBottleneck(nn.Module):
    """The block of v2, whose layers are in `conv`."""

    def __init__(self, n_in: int, n_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = n_in * expansion
        up = [conv_norm(n_in, inner, 1, activation=nn.ReLU6)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *up, conv_norm(inner, inner, 3, stride, inner, activation=nn.ReLU6),
            nn.Conv2d(inner, n_out, 1, bias=False), nn.BatchNorm2d(n_out))
        self.is_residual = stride == 1 and n_in == n_out

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return x + self.conv(x) if self.is_residual else self.conv(x)


class MobileNetV2(nn.Module):
    """Images (n, 3, h, w) to the logits of their classes (n, classes). `width` scales channels."""

    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))
    """Expansion, channels, blocks and first stride of each stage."""

    def __init__(self, classes: int = 1000, width: float = 1.0) -> None:
        super().__init__()
        n_in, last = divisible(32 * width), divisible(1280 * max(1.0, width))
        layers: list[nn.Module] = [conv_norm(3, n_in, 3, 2, activation=nn.ReLU6)]
        for expansion, channels, count, first_stride in self.STAGES:
            n_out = divisible(channels * width)
            for i in range(count):
                layers.append(LinearBottleneck(n_in, n_out, first_stride if i == 0 else 1,
                                               expansion))
                n_in = n_out
        layers.append(conv_norm(n_in, last, 1, activation=nn.ReLU6))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        return self.classifier(self.features(images).mean(axis=(2, 3)))


_Block = tuple[int, int, int, bool, type[nn.Module], int]
_RE, _HS = nn.ReLU, nn.Hardswish
LARGE: tuple[_Block, ...] = (
    (3, 16, 16, False, _RE, 1), (3, 64, 24, False, _RE, 2), (3, 72, 24, False, _RE, 1),
    (5, 72, 40, True, _RE, 2), (5, 120, 40, True, _RE, 1), (5, 120, 40, True, _RE, 1),
    (3, 240, 80, False, _HS, 2), (3, 200, 80, False, _HS, 1), (3, 184, 80, False, _HS, 1),
    (3, 184, 80, False, _HS, 1), (3, 480, 112, True, _HS, 1), (3, 672, 112, True, _HS, 1),
    (5, 672, 160, True, _HS, 2), (5, 960, 160, True, _HS, 1), (5, 960, 160, True, _HS, 1))
SMALL: tuple[_Block, ...] = (
    (3, 16, 16, True, _RE, 2), (3, 72, 24, False, _RE, 2), (3, 88, 24, False, _RE, 1),
    (5, 96, 40, True, _HS, 2), (5, 240, 40, True, _HS, 1), (5, 240, 40, True, _HS, 1),
    (5, 120, 48, True, _HS, 1), (5, 144, 48, True, _HS, 1), (5, 288, 96, True, _HS, 2),
    (5, 576, 96, True, _HS, 1), (5, 576, 96, True, _HS, 1))
"""Kernel, expanded channels, channels, squeeze and excitation, activation, stride of each block."""


class MobileNetV3(nn.Module):
    """Images (n, 3, h, w) to the logits of their classes (n, classes).

    Args:
        blocks: LARGE or SMALL.
        hidden: features of the layer before the last one.
        classes: number of classes.
        width: scales the channels.
    """

    def __init__(self, blocks: tuple[_Block, ...], hidden: int, classes: int = 1000,
                 width: float = 1.0) -> None:
        super().__init__()
        norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        n_in = divisible(16 * width)
        layers: list[nn.Module] = [conv_norm(3, n_in, 3, 2, norm=norm, activation=nn.Hardswish)]
        for kernel, expanded, channels, has_se, activation, stride in blocks:
            inner, n_out = divisible(expanded * width), divisible(channels * width)
            spec = BlockSpec(kernel, stride, n_in, inner, n_out,
                             divisible(inner / 4) if has_se else 0, activation)
            layers.append(InvertedResidual(spec, norm, nn.ReLU, nn.Hardsigmoid))
            n_in = n_out
        layers.append(conv_norm(n_in, 6 * n_in, 1, norm=norm, activation=nn.Hardswish))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Linear(6 * n_in, hidden), nn.Hardswish(),
                                        nn.Dropout(0.2), nn.Linear(hidden, classes))

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        return self.classifier(self.features(images).mean(axis=(2, 3)))


def mobilenet_v2(classes: int = 1000, width: float = 1.0) -> MobileNetV2:
    """MobileNet v2."""
    return MobileNetV2(classes, width)


def mobilenet_v3_large(classes: int = 1000, width: float = 1.0) -> MobileNetV3:
    """MobileNet v3, the large one."""
    return MobileNetV3(LARGE, divisible(1280 * width), classes, width)


def mobilenet_v3_small(classes: int = 1000, width: float = 1.0) -> MobileNetV3:
    """MobileNet v3, the small one."""
    return MobileNetV3(SMALL, divisible(1024 * width), classes, width)
