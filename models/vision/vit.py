"""Vision transformer: Dosovitskiy et al., arXiv 2010.11929, with torchvision's names."""

from __future__ import annotations

from functools import partial

import fusewire as fw
from fusewire import nn

Norm = partial(nn.LayerNorm, eps=1e-6)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = Norm(width), Norm(width)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Dropout(0.0),
                                 nn.Linear(inner, width), nn.Dropout(0.0))

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Embedded patches (n, tokens, width) to features of the same shape."""

    def __init__(self, tokens: int, width: int, layers: int, heads: int, inner: int) -> None:
        super().__init__()
        self.pos_embedding = nn.init.normal_(nn.Parameter(fw.zeros(1, tokens, width)), std=0.02)
        self.layers = nn.Sequential({f"encoder_layer_{i}": Block(width, heads, inner)
                                     for i in range(layers)})
        self.ln = Norm(width)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.ln(self.layers(x + self.pos_embedding))


class VisionTransformer(nn.Module):
    """Images (n, 3, size, size) to the logits of their classes (n, classes).

    Args:
        size: pixels along an edge of an image.
        patch: pixels along an edge of a patch.
        layers, heads, width, inner: blocks, heads of attention, features, features of an MLP.
        classes: number of classes.
    """

    def __init__(self, size: int = 224, patch: int = 16, layers: int = 12, heads: int = 12,
                 width: int = 768, inner: int = 3072, classes: int = 1000) -> None:
        super().__init__()
        self.class_token = nn.Parameter(fw.zeros(1, 1, width))
        self.conv_proj = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.encoder = Encoder((size // patch) ** 2 + 1, width, layers, heads, inner)
        self.heads = nn.Sequential({"head": nn.Linear(width, classes)})

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        patches = self.conv_proj(images).flatten(2).permute_dims((0, 2, 1))
        first = fw.repeat(self.class_token, patches.shape[0], axis=0)
        return self.heads(self.encoder(fw.concat([first, patches], axis=1))[:, 0])


def vit_b_16(classes: int = 1000) -> VisionTransformer:
    """A base vision transformer with patches of 16 by 16."""
    return VisionTransformer(classes=classes)


def vit_b_32(classes: int = 1000) -> VisionTransformer:
    """A base vision transformer with patches of 32 by 32."""
    return VisionTransformer(patch=32, classes=classes)


def vit_l_16(classes: int = 1000) -> VisionTransformer:
    """A large vision transformer with patches of 16 by 16."""
    return VisionTransformer(layers=24, heads=16, width=1024, inner=4096, classes=classes)
