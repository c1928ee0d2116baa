"""Finds and names drawn shapes: a small detector without anchors, as in Tian et al., 1904.01355.

    python examples/detection.py --steps 600
"""

from __future__ import annotations

import argparse

import numpy as np

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

SIZE, CELL = 32, 4                     # pixels of an image's side, and of a cell's
CELLS = SIZE // CELL
SHAPES = ("disc", "square", "cross")


class Detector(nn.Module):
    """Images (n, 1, SIZE, SIZE) to scores (n, CELLS, CELLS, shapes) and boxes (..., 4).

    A box is the distances from the middle of the cell to its left, upper, right and lower side, in
    cells.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1),
            nn.ReLU())
        self.scores = nn.Conv2d(width, len(SHAPES), 1)
        self.boxes = nn.Conv2d(width, 4, 1)
        nn.init.constant_(self.scores.bias, -4.0)  # most cells hold no middle of a shape

    def forward(self, images: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        x = self.body(images)
        return (fw.permute_dims(self.scores(x), (0, 2, 3, 1)),
                fw.permute_dims(F.softplus(self.boxes(x)), (0, 2, 3, 1)))


def drawn(random: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    """Images with two shapes each; for each cell the shape whose middle it holds, or -1, and its
    box."""
    images = random.normal(0, 0.1, (count, 1, SIZE, SIZE)).astype(np.float32)
    kinds = np.full((count, CELLS, CELLS), -1)
    boxes = np.zeros((count, CELLS, CELLS, 4), np.float32)
    y, x = np.mgrid[:SIZE, :SIZE] + 0.5
    for n in range(count):
        for _ in range(2):
            kind, radius = random.integers(len(SHAPES)), random.uniform(3, 6)
            middle = random.uniform(radius, SIZE - radius, 2)
            dx, dy = np.abs(x - middle[0]), np.abs(y - middle[1])
            inside = (dx ** 2 + dy ** 2 < radius ** 2, np.maximum(dx, dy) < radius,
                      (np.minimum(dx, dy) < radius / 3) & (np.maximum(dx, dy) < radius))[kind]
            images[n, 0][inside] = random.uniform(0.6, 1.0)
            column, row = (middle / CELL).astype(int)
            kinds[n, row, column] = kind
            off = middle / CELL - np.array([column, row]) - 0.5
            boxes[n, row, column] = [*(radius / CELL - off), *(radius / CELL + off)]
    return images, kinds, boxes


def loss_of(model: Detector, images: fw.Tensor, kinds: fw.Tensor, boxes: fw.Tensor) -> fw.Tensor:
    """The loss of the scores and, in cells with a shape, of the boxes; by shape."""
    scores, found = model(images)
    truth = (kinds[..., None] == fw.arange(len(SHAPES))).astype(fw.float32)
    filled = (kinds >= 0).astype(fw.float32)
    errors = F.smooth_l1_loss(found, boxes, reduction="none").sum(axis=-1)
    named = F.binary_cross_entropy_with_logits(scores, truth, reduction="none").sum(axis=-1)
    return (named.sum() + (errors * filled).sum()) / filled.sum()


@fw.no_grad()
def share_found(model: Detector, images: fw.Tensor, kinds: fw.Tensor) -> float:
    """The share of shapes whose cell has a score above one half for the right shape, and for no
    other."""
    guesses = model(images)[0] > 0
    right = (guesses == (kinds[..., None] == fw.arange(len(SHAPES)))).all(axis=-1)
    filled = kinds >= 0
    return float((right & filled).sum()) / float(filled.sum())


def main(steps: int = 600, compiled: bool = True) -> list[float]:
    """Trains for `steps`; returns the loss of each step."""
    fw.manual_seed(0)
    random = np.random.default_rng(0)
    model = Detector()
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)

    def step(images: fw.Tensor, kinds: fw.Tensor, boxes: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, images, kinds, boxes)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run, losses = fw.compile(step) if compiled else step, list[float]()
    for n in range(steps):
        losses.append(float(run(*map(fw.asarray, drawn(random, 32)))))
        if (n + 1) % max(steps // 5, 1) == 0:
            images, kinds, _ = map(fw.asarray, drawn(random, 100))
            print(f"step {n + 1}: loss {losses[-1]:.2f}, "
                  f"{100 * share_found(model, images, kinds):.0f} % of 200 new shapes found")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
