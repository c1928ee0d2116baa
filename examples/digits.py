"""Learns to read handwritten digits. Stopped and started again, it goes on where it was.

    python examples/digits.py --epochs 5 --checkpoint digits.safetensors
"""

from __future__ import annotations

import argparse
from pathlib import Path

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim
from fusewire.export.demo.digits import split_digits
from fusewire.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Images (n, 1, 8, 8) to a score for each of the ten digits, (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.out(self.dropout(x.flatten(1)))


@fw.no_grad()  # nothing here needs a gradient: less work, less memory
def accuracy(model: nn.Module, images: fw.Tensor, labels: fw.Tensor) -> float:
    """The share of images whose digit is found."""
    model.eval()  # no dropout
    right = (model(images).argmax(axis=1) == labels).astype(fw.float32).mean()
    model.train()
    return float(right)


def main(epochs: int = 5, checkpoint: Path | None = None, compiled: bool = True) -> list[float]:
    """Trains until `epochs` are done in all; returns the mean loss of each that ran."""
    fw.manual_seed(0)
    data = split_digits()
    loader = DataLoader(TensorDataset(data.train_images, data.train_labels), batch_size=64,
                        shuffle=True, drop_last=True)  # batches of one shape: one recording
    model = Net()
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}

    start = 0
    if checkpoint and checkpoint.exists():
        state = fw.load(checkpoint)
        for name, part in parts.items():
            part.load_state_dict(state[name])
        fw.set_rng_state(state["random"])  # the order of the images and the dropout go on too
        start = state["epoch"]

    def step(images: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = fw.compile(step) if compiled else step  # the same numbers, in one native program
    losses: list[float] = []
    for epoch in range(start, epochs):
        of_batches = [run(images, labels) for images, labels in loader]
        scheduler.step()
        losses.append(float(fw.stack(of_batches).mean()))
        print(f"epoch {epoch + 1}: loss {losses[-1]:.3f}, accuracy on new images "
              f"{accuracy(model, data.test_images, data.test_labels):.1%}")
        if checkpoint:
            states = {name: part.state_dict() for name, part in parts.items()}
            fw.save({**states, "epoch": epoch + 1, "random": fw.get_rng_state()}, checkpoint)
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--checkpoint", type=Path, help="written after each epoch")
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.epochs, given.checkpoint, not given.eager)
