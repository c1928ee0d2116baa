"""A U-Net for diffusion: Ho et al., arXiv 2006.11239, with the names of diffusers' UNet2DModel."""

from __future__ import annotations

import math

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn


def sinusoids(steps: fw.Tensor, width: int) -> fw.Tensor:
    """(n,) to (n, width): cosines and sines of the step at falling rates."""
    features = fw.arange(width // 2, dtype=fw.float32, device=steps.device)
    rates = fw.exp(features * (-math.log(10000.0) / (width // 2)))
    angles = steps.astype(fw.float32)[:, None] * rates
    return fw.concat([fw.cos(angles), fw.sin(angles)], axis=1)


class ResnetBlock(nn.Module):
    def __init__(self, n_in: int, n_out: int, time: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, n_in), nn.GroupNorm(groups, n_out)
        self.conv1 = nn.Conv2d(n_in, n_out, 3, padding=1)
        self.time_emb_proj = nn.Linear(time, n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1)
        self.conv_shortcut = None if n_in == n_out else nn.Conv2d(n_in, n_out, 1)

    def forward(self, x: fw.Tensor, time: fw.Tensor) -> fw.Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time_emb_proj(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class Attention(nn.Module):
    """Attention of every place of an image to every other."""

    def __init__(self, channels: int, size: int, groups: int) -> None:
        super().__init__()
        self.heads = channels // size
        self.group_norm = nn.GroupNorm(groups, channels)
        self.to_q, self.to_k = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.to_v = nn.Linear(channels, channels)
        self.to_out = nn.ModuleList([nn.Linear(channels, channels), nn.Dropout(0.0)])

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        n, channels, h, w = x.shape
        y = self.group_norm(x).flatten(2).permute_dims((0, 2, 1))
        query, key, value = (part(y).reshape(n, h * w, self.heads, -1).permute_dims((0, 2, 1, 3))
                             for part in (self.to_q, self.to_k, self.to_v))
        out = F.scaled_dot_product_attention(query, key, value).permute_dims((0, 2, 1, 3))
        out = self.to_out[0](out.reshape(n, h * w, channels))
        return x + out.permute_dims((0, 2, 1)).reshape(n, channels, h, w)


class Resample(nn.Module):
    """An image at half (stride 2) or twice the size."""

    def __init__(self, channels: int, up: bool) -> None:
        super().__init__()
        self.up = up
        self.conv = nn.Conv2d(channels, channels, 3, stride=1 if up else 2, padding=1)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0) if self.up else x)


class Stage(nn.Module):
    """Blocks at one size of the image; `sizes` are the channels that each takes."""

    def __init__(self, sizes: list[int], n_out: int, time: int, groups: int, head: int,
                 resample: str) -> None:
        super().__init__()
        self.resnets = nn.ModuleList([ResnetBlock(n, n_out, time, groups) for n in sizes])
        self.attentions = nn.ModuleList([Attention(n_out, head, groups) for _ in sizes]) \
            if head else None
        if resample:
            setattr(self, resample, nn.ModuleList([Resample(n_out, resample == "upsamplers")]))
        self.last = resample

    def block(self, i: int, x: fw.Tensor, time: fw.Tensor) -> fw.Tensor:
        x = self.resnets[i](x, time)
        return x if self.attentions is None else self.attentions[i](x)

    def resampled(self, x: fw.Tensor) -> fw.Tensor:
        return getattr(self, self.last)[0](x)


class Middle(nn.Module):
    def __init__(self, channels: int, time: int, groups: int, head: int) -> None:
        super().__init__()
        self.attentions = nn.ModuleList([Attention(channels, head, groups)])
        self.resnets = nn.ModuleList([ResnetBlock(channels, channels, time, groups)
                                      for _ in range(2)])

    def forward(self, x: fw.Tensor, time: fw.Tensor) -> fw.Tensor:
        x = self.attentions[0](self.resnets[0](x, time))
        return self.resnets[1](x, time)


class UNet(nn.Module):
    """Noisy images (n, channels, h, w) and their steps (n,) to the noise in them.

    The stages but the first have attention.
    """

    def __init__(self, channels: int = 3, widths: tuple[int, ...] = (224, 448, 672, 896),
                 depth: int = 2, groups: int = 32, head: int = 8) -> None:
        super().__init__()
        time, count = 4 * widths[0], len(widths)
        self.conv_in = nn.Conv2d(channels, widths[0], 3, padding=1)
        self.time_embedding = nn.ModuleDict({"linear_1": nn.Linear(widths[0], time),
                                             "linear_2": nn.Linear(time, time)})
        self.down_blocks, self.up_blocks = nn.ModuleList(), nn.ModuleList()
        kept = [widths[0]]  # channels of the images that the way up gets to see
        for i, width in enumerate(widths):
            sizes = [kept[-1], *[width] * (depth - 1)]
            last = "downsamplers" if i + 1 < count else ""
            self.down_blocks.append(Stage(sizes, width, time, groups, head if i else 0, last))
            kept += [width] * (depth + bool(last))
        self.mid_block = Middle(widths[-1], time, groups, head)
        n_in = widths[-1]
        for i, width in reversed(list(enumerate(widths))):
            sizes = [n + kept.pop() for n in [n_in, *[width] * depth]]
            last = "upsamplers" if i else ""
            self.up_blocks.append(Stage(sizes, width, time, groups, head if i else 0, last))
            n_in = width
        self.conv_norm_out = nn.GroupNorm(groups, widths[0])
        self.conv_out = nn.Conv2d(widths[0], channels, 3, padding=1)

    def forward(self, images: fw.Tensor, steps: fw.Tensor) -> fw.Tensor:
        embedding = self.time_embedding
        time = embedding["linear_1"](sinusoids(steps, embedding["linear_1"].in_features))
        time = embedding["linear_2"](F.silu(time))
        x = self.conv_in(images)
        kept = [x]
        for stage in self.down_blocks:
            for i in range(len(stage.resnets)):
                kept.append(x := stage.block(i, x, time))
            if stage.last:
                kept.append(x := stage.resampled(x))
        x = self.mid_block(x, time)
        for stage in self.up_blocks:
            for i in range(len(stage.resnets)):
                x = stage.block(i, fw.concat([x, kept.pop()], axis=1), time)
            x = stage.resampled(x) if stage.last else x
        return self.conv_out(F.silu(self.conv_norm_out(x)))
