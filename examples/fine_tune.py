"""Teaches a network that reads the digits 0 to 4 to read all ten, from its saved weights.

    python examples/fine_tune.py --steps 60
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim
from fusewire.export.demo.digits import split_digits

Step = Callable[[fw.Tensor, fw.Tensor], fw.Tensor]


class Reader(nn.Module):
    """Images (n, 1, 8, 8) to scores (n, classes)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                                  nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 4 * 4, 64))
        self.head = nn.Linear(64, classes)

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        return self.head(F.relu(self.body(images)))


def step_of(model: Reader, optimizer: optim.Optimizer, compiled: bool) -> Step:
    """A function that trains `model` on a batch and returns the loss."""
    def step(images: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return fw.compile(step) if compiled else step


def train(step: Step, images: fw.Tensor, labels: fw.Tensor, steps: int) -> list[float]:
    batches = (fw.randint(0, len(labels), (64,)) for _ in range(steps))
    return [float(step(images[rows], labels[rows])) for rows in batches]


def main(steps: int = 60, compiled: bool = True) -> list[float]:
    """Trains on few digits, then on all, first the last layer alone; returns the last losses."""
    fw.manual_seed(0)
    data = split_digits()
    images, labels = data.train_images, data.train_labels

    few = Reader(5)
    known = labels < 5
    train(step_of(few, optim.Adam(few.parameters(), lr=1e-2), compiled),
          images[known], labels[known], steps)
    file = Path(tempfile.mkdtemp()) / "few.safetensors"
    fw.save(few.state_dict(), file)

    model = Reader(10)
    saved = fw.load(file)
    body = {name: value for name, value in saved.items() if name.startswith("body.")}
    print(model.load_state_dict(body, strict=False))  # says what the file does not have: the head

    model.body.requires_grad_(False)  # frozen: only the new layer learns at first
    optimizer = optim.AdamW(model.head.parameters(), lr=1e-2)
    losses = train(step_of(model, optimizer, compiled), images, labels, steps)
    print(f"the last layer alone: loss {losses[0]:.3f} to {losses[-1]:.3f}")

    model.body.requires_grad_(True)  # then all of it, the old layers carefully
    optimizer = optim.AdamW([{"params": model.body.parameters(), "lr": 1e-3},
                             {"params": model.head.parameters()}], lr=1e-2)
    losses += train(step_of(model, optimizer, compiled), images, labels, steps)
    model.eval()
    right = model(data.test_images).argmax(axis=1) == data.test_labels
    print(f"all layers: loss {losses[-1]:.3f}, accuracy on new images "
          f"{float(right.astype(fw.float32).mean()):.1%}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
