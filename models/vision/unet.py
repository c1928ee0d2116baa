"""A U-Net for segmentation: Ronneberger et al., arXiv 1505.04597."""

from __future__ import annotations

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn


def double_conv(n_in: int, n_out: int) -> nn.Sequential:
    """Two 3x3 convolutions that keep the size, with batch norm."""
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(),
        nn.Conv2d(n_out, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU())


class UNet(nn.Module):
    """Images (n, channels, h, w) to the logits of each pixel's classes (n, classes, h, w).

    Args:
        channels: of the images.
        classes: number of classes.
        widths: channels at each scale, the full one first.
    """

    def __init__(self, channels: int = 3, classes: int = 2,
                 widths: tuple[int, ...] = (64, 128, 256, 512, 1024)) -> None:
        super().__init__()
        ins = (channels, *widths)
        self.down = nn.ModuleList([double_conv(a, b) for a, b in zip(ins, widths)])
        pairs = list(zip(widths[:0:-1], widths[-2::-1]))
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs])
        self.merge = nn.ModuleList([double_conv(2 * b, b) for _, b in pairs])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        x, skips = self.down[0](images), []
        for conv in self.down[1:]:
            skips.append(x)
            x = conv(F.max_pool2d(x, 2))
        for up, merge in zip(self.up, self.merge):
            skip = skips.pop()
            x = up(x)
            x = F.pad(x, (0, skip.shape[-1] - x.shape[-1], 0, skip.shape[-2] - x.shape[-2]))
            x = merge(fw.concat([skip, x], axis=1))
        return self.head(x)
