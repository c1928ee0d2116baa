"""Makes digits from noise by a diffusion model: Ho et al., arXiv 2006.11239.

    python examples/diffusion.py --steps 3000
"""

from __future__ import annotations

import argparse
import math

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim
from fusewire.export.demo.digits import load_digits

LEVELS = 100  # of noise


class Denoiser(nn.Module):
    """Noisy images (n, 64) and levels of noise (n,) to the noise that they hold, (n, 64)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.level = nn.Embedding(LEVELS, width)
        self.first, self.last = nn.Linear(64, width), nn.Linear(width, 64)
        self.blocks = nn.ModuleList([nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(3)])

    def forward(self, images: fw.Tensor, levels: fw.Tensor) -> fw.Tensor:
        x = self.first(images) + self.level(levels)
        for block in self.blocks:
            x = x + block(x)
        return self.last(F.silu(x))


def signal_shares() -> fw.Tensor:
    """The share of an image's variance that is left at each level, (LEVELS,): a cosine."""
    at = fw.linspace(0.0, 1.0, LEVELS)
    return fw.clip(fw.cos((at + 0.008) / 1.008 * math.pi / 2) ** 2, 1e-4, 1.0)


def draw(model: Denoiser, shares: fw.Tensor, count: int) -> fw.Tensor:
    """New images (count, 64) of about -1 to 1: from noise, one level at a time."""
    x = fw.randn(count, 64)
    for level in reversed(range(LEVELS)):
        share, before = shares[level], shares[level - 1] if level else fw.tensor(1.0)
        noise = model(x, fw.full((count,), level))
        image = fw.clip((x - fw.sqrt(1 - share) * noise) / fw.sqrt(share), -1, 1)
        kept = share / before  # the share of the level before that this one keeps
        mean = (fw.sqrt(before) * (1 - kept) * image + fw.sqrt(kept) * (1 - before) * x) \
            / (1 - share)
        x = mean + fw.sqrt((1 - before) / (1 - share) * (1 - kept)) * fw.randn_like(x)
    return x


def show(image: fw.Tensor) -> str:
    """An image (64,) of -1 to 1 as eight lines of text."""
    shades = " .:-=+*#%@"
    rows = (fw.clip(image.reshape(8, 8) + 1, 0, 2) * 4.5).astype(fw.int64).tolist()
    return "\n".join("".join(shades[i] * 2 for i in row) for row in rows)


def main(steps: int = 3000, compiled: bool = True) -> list[float]:
    """Trains for `steps`, shows two new digits, and returns the loss of each step."""
    fw.manual_seed(0)
    images = 2 * load_digits()[0].flatten(1) - 1
    model, shares = Denoiser(), signal_shares()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def step() -> fw.Tensor:
        clean = images[fw.randint(0, len(images), (128,))]
        levels, noise = fw.randint(0, LEVELS, (128,)), fw.randn(128, 64)
        share = shares[levels][:, None]
        optimizer.zero_grad()
        found = model(fw.sqrt(share) * clean + fw.sqrt(1 - share) * noise, levels)
        loss = F.mse_loss(found, noise)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run, losses = fw.compile(step) if compiled else step, list[float]()
    for n in range(steps):
        losses.append(float(run()))
        if n % max(steps // 5, 1) == 0:
            print(f"step {n}: loss {losses[-1]:.3f}")
    with fw.no_grad():
        for image in draw(model, shares, 2):
            print(show(image))
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
