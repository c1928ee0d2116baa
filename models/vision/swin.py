"""Swin transformer: Liu et al., arXiv 2103.14030, with torchvision's names."""

from __future__ import annotations

import numpy as np

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

from .inverted_residual import StochasticDepth


def relative_position_index(window: int) -> fw.Tensor:
    """The row of the table of biases for each pair of pixels of a window: (window ** 4,)."""
    rows, columns = (a.reshape(-1) for a in np.indices((window, window)))
    down, right = (a[:, None] - a[None, :] + window - 1 for a in (rows, columns))
    return fw.tensor((down * (2 * window - 1) + right).reshape(-1))


def windows_of(x: fw.Tensor, window: int) -> fw.Tensor:
    """(n, h, w, c) to (n * windows, window ** 2, c); h and w are multiples of `window`."""
    n, h, w, c = x.shape
    x = x.reshape(n, h // window, window, w // window, window, c)
    return x.permute_dims((0, 1, 3, 2, 4, 5)).reshape(-1, window * window, c)


def image_of(windows: fw.Tensor, window: int, h: int, w: int) -> fw.Tensor:
    """(n * windows, window ** 2, c) to (n, h, w, c), the inverse of `windows_of`."""
    x = windows.reshape(-1, h // window, w // window, window, window, windows.shape[-1])
    return x.permute_dims((0, 1, 3, 2, 4, 5)).reshape(-1, h, w, windows.shape[-1])


def shift_mask(h: int, w: int, window: int, shift: tuple[int, int], device: str) -> fw.Tensor:
    """The mask of shifted windows (windows, 1, window ** 2, window ** 2), True for neighbours.

    A shifted window may hold pixels from opposite edges of the image, which do not see each other.
    """
    rows, columns = (_band(fw.arange(n, device=device), window, s) for n, s in zip((h, w), shift))
    region = windows_of((3 * rows[:, None] + columns)[None, :, :, None], window)[..., 0]
    return (region[:, :, None] == region[:, None, :])[:, None]


def _band(pixels: fw.Tensor, window: int, shift: int) -> fw.Tensor:
    """(size,): 0 for a pixel that stays with its neighbours, 1 and 2 on the sides of the cut."""
    size = pixels.shape[0]
    if not shift:
        return fw.zeros_like(pixels)
    return (pixels >= size - window).astype(fw.int64) + (pixels >= size - shift).astype(fw.int64)


class WindowAttention(nn.Module):
    """Attention among the pixels of each window of an image (n, h, w, channels)."""

    def __init__(self, channels: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv, self.proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.relative_position_bias_table = nn.Parameter(
            fw.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)
        self.register_buffer("relative_position_index", relative_position_index(window))

    def bias(self) -> fw.Tensor:
        """The biases of all pairs of pixels of a window: (1, heads, window ** 2, window ** 2)."""
        size = self.window ** 2
        rows = fw.take(self.relative_position_bias_table, self.relative_position_index, axis=0)
        return rows.reshape(size, size, -1).permute_dims((2, 0, 1))[None]

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        _, h, w, _ = x.shape
        down, right = -h % self.window, -w % self.window
        x = F.pad(x, (0, 0, 0, right, 0, down))
        padded = h + down, w + right
        shift = tuple([0 if self.window >= size else self.shift for size in padded])
        if any(shift):
            x = fw.roll(x, (-shift[0], -shift[1]), axis=(1, 2))
        windows = windows_of(x, self.window)
        mask = self.mask(windows, padded, shift)
        out = image_of(self.attend(windows, mask), self.window, *padded)
        if any(shift):
            out = fw.roll(out, shift, axis=(1, 2))
        return out[:, :h, :w]

    def mask(self, windows: fw.Tensor, size: tuple[int, int], shift: tuple[int, ...]) -> fw.Tensor:
        """The biases, minus infinity for pixels that do not see each other."""
        if not any(shift):
            return self.bias()
        seen = shift_mask(*size, self.window, (shift[0], shift[1]), windows.device)
        seen = fw.tile(seen, (windows.shape[0] // seen.shape[0], 1, 1, 1))
        return fw.where(seen, self.bias(), -100.0 + self.bias())

    def attend(self, windows: fw.Tensor, mask: fw.Tensor) -> fw.Tensor:
        """The attention of each window, of the shape of `windows`."""
        n, size, channels = windows.shape
        qkv = self.qkv(windows).reshape(n, size, 3, self.heads, -1).permute_dims((2, 0, 3, 1, 4))
        out = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], mask)
        return self.proj(out.permute_dims((0, 2, 1, 3)).reshape(n, size, channels))


class Block(nn.Module):
    def __init__(self, channels: int, heads: int, window: int, shift: int, drop: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels, eps=1e-5)
        self.attn = WindowAttention(channels, heads, window, shift)
        self.norm2 = nn.LayerNorm(channels, eps=1e-5)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Dropout(0.0),
                                 nn.Linear(4 * channels, channels), nn.Dropout(0.0))
        self.stochastic_depth = StochasticDepth(drop)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class PatchMerging(nn.Module):
    """(n, h, w, channels) to (n, h / 2, w / 2, 2 * channels)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduction = nn.Linear(4 * channels, 2 * channels, bias=False)
        self.norm = nn.LayerNorm(4 * channels, eps=1e-5)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        _, h, w, _ = x.shape
        x = F.pad(x, (0, 0, 0, w % 2, 0, h % 2))
        corners = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduction(self.norm(fw.concat(corners, axis=-1)))


class Patches(nn.Sequential):
    """Images (n, 3, h, w) to embedded patches (n, h / patch, w / patch, channels)."""

    def __init__(self, patch: int, channels: int) -> None:
        super().__init__(nn.Conv2d(3, channels, patch, patch), nn.Identity(),
                         nn.LayerNorm(channels, eps=1e-5))

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        return self[2](self[0](images).permute_dims((0, 2, 3, 1)))


class SwinTransformer(nn.Module):
    """Images (n, 3, h, w) to the logits of their classes (n, classes).

    Args:
        channels: of the first stage; each next stage has twice as many.
        depths, heads: blocks, and heads of attention, of each stage.
        classes: number of classes.
        window: pixels along an edge of a window.
        patch: pixels along an edge of a patch.
        drop: the largest share of examples whose block is skipped while training.
    """

    def __init__(self, channels: int, depths: tuple[int, ...], heads: tuple[int, ...],
                 classes: int = 1000, window: int = 7, patch: int = 4, drop: float = 0.2) -> None:
        super().__init__()
        layers: list[nn.Module] = [Patches(patch, channels)]
        total, number = max(1, sum(depths) - 1), 0
        for stage, (depth, count) in enumerate(zip(depths, heads)):
            width = channels << stage
            layers.append(nn.Sequential(*[
                Block(width, count, window, window // 2 if i % 2 else 0,
                      drop * (number + i) / total) for i in range(depth)]))
            number += depth
            if stage + 1 < len(depths):
                layers.append(PatchMerging(width))
        self.features = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.head = nn.Linear(width, classes)

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        return self.head(self.norm(self.features(images)).mean(axis=(1, 2)))


def swin_t(classes: int = 1000) -> SwinTransformer:
    """Swin with 28 million parameters."""
    return SwinTransformer(96, (2, 2, 6, 2), (3, 6, 12, 24), classes)


def swin_s(classes: int = 1000) -> SwinTransformer:
    """Swin with 50 million parameters."""
    return SwinTransformer(96, (2, 2, 18, 2), (3, 6, 12, 24), classes, drop=0.3)


def swin_b(classes: int = 1000) -> SwinTransformer:
    """Swin with 88 million parameters."""
    return SwinTransformer(128, (2, 2, 18, 2), (4, 8, 16, 32), classes, drop=0.5)
