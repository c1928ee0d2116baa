"""Adds numbers up to a mark in a sequence, by a recurrent network in a plain `while` loop.

Sequences have any length. The network reads until all of them have ended, so the number of
iterations depends on values, and gradients flow through the loop.

    python examples/unequal_lengths.py --steps 1500
"""

from __future__ import annotations

import argparse

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

LONGEST = 20


class Adder(nn.Module):
    """Sequences (n, LONGEST, 2) of numbers and end marks to one number each, (n,)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.width = width
        self.cell, self.head = nn.GRUCell(1, width), nn.Linear(width, 1)

    def forward(self, sequences: fw.Tensor) -> fw.Tensor:
        state = fw.zeros((len(sequences), self.width))
        running = fw.ones((len(sequences), 1))
        t = 0
        while t < LONGEST and running.sum() > 0:
            numbers, marks = sequences[:, t, :1], sequences[:, t, 1:]
            state = fw.where(running > 0, self.cell(numbers, state), state)
            running = running * (1 - marks)
            t += 1
        return self.head(state)[:, 0]


def batch(count: int) -> tuple[fw.Tensor, fw.Tensor]:
    """Sequences (count, LONGEST, 2) and the sums of their numbers up to the mark, (count,)."""
    numbers = fw.rand(count, LONGEST)
    longest = int(fw.randint(3, LONGEST + 1))  # of this batch
    ends = fw.randint(0, longest, (count, 1))
    positions = fw.arange(LONGEST)[None]
    sums = fw.where(positions <= ends, numbers, 0.0).sum(axis=1)
    return fw.stack([numbers, (positions == ends).astype(fw.float32)], axis=2), sums


def main(steps: int = 1500, compiled: bool = True) -> list[float]:
    """Trains for `steps`; returns the loss of each step."""
    fw.manual_seed(0)
    model = Adder()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    def step(sequences: fw.Tensor, sums: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(sequences), sums)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    run, losses = fw.compile(step) if compiled else step, list[float]()
    for n in range(steps):
        losses.append(float(run(*batch(64))))
        if (n + 1) % max(steps // 5, 1) == 0:
            print(f"step {n + 1}: mean squared error {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
