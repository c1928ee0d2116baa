"""ConvNeXt: Liu et al., arXiv 2201.03545, with torchvision's names."""

from __future__ import annotations

from functools import partial

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

from .inverted_residual import StochasticDepth


class LayerNorm2d(nn.LayerNorm):
    """Layer norm over the channels of images: (n, channels, h, w) to the same."""

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return super().forward(x.permute_dims((0, 2, 3, 1))).permute_dims((0, 3, 1, 2))


class Permute(nn.Module):
    """The axes of its input in another sequence."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return x.permute_dims(self.axes)


class Block(nn.Module):
    """A depthwise 7x7 convolution and an MLP on the channels, with a residual connection."""

    def __init__(self, channels: int, drop: float) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(channels, channels, 7, padding=3, groups=channels), Permute((0, 2, 3, 1)),
            nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, 4 * channels), nn.GELU(),
            nn.Linear(4 * channels, channels), Permute((0, 3, 1, 2)))
        self.layer_scale = nn.Parameter(fw.full((channels, 1, 1), 1e-6))
        self.stochastic_depth = StochasticDepth(drop)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return x + self.stochastic_depth(self.layer_scale * self.block(x))


class ConvNeXt(nn.Module):
    """Images (n, 3, h, w) to the logits of their classes (n, classes).

    Args:
        widths: channels of each stage.
        depths: blocks of each stage.
        classes: number of classes.
        drop: the largest share of examples whose block is skipped while training.
    """

    def __init__(self, widths: tuple[int, ...], depths: tuple[int, ...], classes: int = 1000,
                 drop: float = 0.1) -> None:
        super().__init__()
        norm = partial(LayerNorm2d, eps=1e-6)
        total, number = max(1, sum(depths) - 1), 0
        layers: list[nn.Module] = [nn.Sequential(nn.Conv2d(3, widths[0], 4, 4), norm(widths[0]))]
        for stage, (width, depth) in enumerate(zip(widths, depths)):
            layers.append(nn.Sequential(*[Block(width, drop * (number + i) / total)
                                          for i in range(depth)]))
            number += depth
            if stage + 1 < len(widths):
                layers.append(nn.Sequential(norm(width), nn.Conv2d(width, widths[stage + 1], 2, 2)))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(norm(widths[-1]), nn.Flatten(1),
                                        nn.Linear(widths[-1], classes))

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        return self.classifier(F.adaptive_avg_pool2d(self.features(images), 1))


def convnext_tiny(classes: int = 1000) -> ConvNeXt:
    """ConvNeXt with 29 million parameters."""
    return ConvNeXt((96, 192, 384, 768), (3, 3, 9, 3), classes, 0.1)


def convnext_small(classes: int = 1000) -> ConvNeXt:
    """ConvNeXt with 50 million parameters."""
    return ConvNeXt((96, 192, 384, 768), (3, 3, 27, 3), classes, 0.4)


def convnext_base(classes: int = 1000) -> ConvNeXt:
    """ConvNeXt with 89 million parameters."""
    return ConvNeXt((128, 256, 512, 1024), (3, 3, 27, 3), classes, 0.5)


def convnext_large(classes: int = 1000) -> ConvNeXt:
    """ConvNeXt with 198 million parameters."""
    return ConvNeXt((192, 384, 768, 1536), (3, 3, 27, 3), classes, 0.5)
