"""Draws one image in the style of another one: Gatys et al., arXiv 1508.06576.

Nothing is downloaded: the features are those of a convolutional network with random weights, which
tell textures as well (He et al., arXiv 1606.04801). Both images are drawn.

    python examples/style_transfer.py --steps 200 --out style.npy
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

SIZE = 48
STYLE_WEIGHT = 3.0


class Features(nn.Module):
    """An image (1, 3, h, w) to the features of three scales."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3, 24, 5, 1, 2), nn.Conv2d(24, 32, 5, 2, 2),
                                     nn.Conv2d(32, 48, 5, 2, 2)])
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        self.requires_grad_(False)

    def forward(self, x: fw.Tensor) -> list[fw.Tensor]:
        features: list[fw.Tensor] = []
        for layer in self.layers:
            x = F.relu(layer(x))
            features.append(x)
        return features


def gram(features: fw.Tensor) -> fw.Tensor:
    """The products of all pairs of channels, averaged over the image: (channels, channels)."""
    flat = features[0].flatten(1)
    return flat @ flat.T / flat.shape[1]


def pictures() -> tuple[fw.Tensor, fw.Tensor]:
    """A disc as content and coloured waves as style, (1, 3, SIZE, SIZE) each, of 0 to 1."""
    y, x = fw.meshgrid(fw.linspace(-1.0, 1.0, SIZE), fw.linspace(-1.0, 1.0, SIZE))
    disc = (x ** 2 + y ** 2 < 0.5).astype(fw.float32)
    waves = [0.5 + 0.5 * fw.sin(14 * (x + 0.5 * y) + phase) * fw.cos(5 * y + phase)
             for phase in (0.0, math.pi / 3, math.pi)]
    return fw.stack([disc, disc, disc])[None], fw.stack(waves)[None]


def main(steps: int = 200, compiled: bool = True, out: Path | None = None) -> list[float]:
    """Draws for `steps` and returns the loss of each. `out`: a file for the image, (SIZE, SIZE, 3)
    of 0 to 1."""
    fw.manual_seed(0)
    content, style = pictures()
    features = Features()
    of_content, of_style = features(content)[2], [gram(f) for f in features(style)]
    sizes = [float((g ** 2).mean()) for g in of_style]
    image = nn.Parameter(fw.rand(*content.shape))
    optimizer = optim.Adam([image], lr=3e-2)

    def step() -> fw.Tensor:
        optimizer.zero_grad()
        found = features(image)
        loss = F.mse_loss(found[2], of_content) / (of_content ** 2).mean()
        for f, goal, size in zip(found, of_style, sizes):
            loss = loss + STYLE_WEIGHT * F.mse_loss(gram(f), goal) / size
        loss.backward()
        optimizer.step()
        with fw.no_grad():
            image.copy_(fw.clip(image, 0, 1))
        return loss.detach()

    run, losses = fw.compile(step) if compiled else step, list[float]()
    for n in range(steps):
        losses.append(float(run()))
        if (n + 1) % max(steps // 5, 1) == 0:
            print(f"step {n + 1}: loss {losses[-1]:.4f}")
    if out is not None:
        np.save(out, fw.permute_dims(image.detach()[0], (1, 2, 0)).numpy())
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, help="a .npy file for the image")
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager, given.out)
