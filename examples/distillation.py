"""Teaches a small network by the answers of a large one: Hinton et al., arXiv 1503.02531.

    python examples/distillation.py --epochs 150
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim
from fusewire.export.demo.digits import split_digits
from fusewire.utils.data import DataLoader, TensorDataset

TEMPERATURE = 4.0  # softens the answers, so that small probabilities count too
Loss = Callable[[nn.Module, fw.Tensor, fw.Tensor], fw.Tensor]


def layers(width: int) -> nn.Sequential:
    """Images (n, 1, 8, 8) to scores (n, 10)."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width),
                         nn.ReLU(), nn.Linear(width, 10))


def by_labels(model: nn.Module, images: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
    """The loss by the labels alone."""
    return F.cross_entropy(model(images), labels)


def by_teacher(teacher: nn.Module) -> Loss:
    """A loss that measures the difference from the answers of the teacher as well."""

    def loss(model: nn.Module, images: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        with fw.no_grad():
            answers = F.log_softmax(teacher(images) / TEMPERATURE, -1)
        scores = model(images)
        difference = F.kl_div(F.log_softmax(scores / TEMPERATURE, -1), answers,
                              reduction="batchmean", log_target=True)
        return 0.3 * F.cross_entropy(scores, labels) + 0.7 * TEMPERATURE ** 2 * difference

    return loss


def train(model: nn.Module, loss_of: Loss, loader: DataLoader[Any], epochs: int, compiled: bool
          ) -> list[float]:
    """Trains a model; returns the mean loss of each epoch."""
    optimizer = optim.Adam(model.parameters(), lr=2e-3)

    def step(images: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, images, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = fw.compile(step) if compiled else step
    return [sum(float(run(*batch)) for batch in loader) / len(loader) for _ in range(epochs)]


def main(epochs: int = 150, compiled: bool = True) -> list[float]:
    """Trains a teacher and two students; returns the losses of the student that has a teacher."""
    fw.manual_seed(0)
    digits = split_digits()
    few = TensorDataset(digits.train_images[:200], digits.train_labels[:200])
    loader = DataLoader(few, 40, shuffle=True)
    teacher, alone, taught = layers(256), layers(12), layers(12)
    taught.load_state_dict(alone.state_dict())  # both students start alike
    all_digits = TensorDataset(digits.train_images, digits.train_labels)
    train(teacher, by_labels, DataLoader(all_digits, 64, shuffle=True), max(epochs // 10, 1),
          compiled)
    teacher.eval()
    train(alone, by_labels, loader, epochs, compiled)
    losses = train(taught, by_teacher(teacher), loader, epochs, compiled)
    for name, model in (("the teacher", teacher), ("a student of 200 labels", alone),
                        ("a student of the teacher", taught)):
        with fw.no_grad():
            right = model(digits.test_images).argmax(axis=1) == digits.test_labels
        print(f"{name}: {100 * float(right.astype(fw.float32).mean()):.1f} % of the test digits")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.epochs, not given.eager)
