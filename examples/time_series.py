"""Continues waves by a recurrent network that L-BFGS trains.

    python examples/time_series.py --steps 10
"""

from __future__ import annotations

import argparse
import math

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim

WAVES, LENGTH = 32, 60


class Continuation(nn.Module):
    """Waves (n, length) to their values one step later; and `ahead` further ones: (n, length +
    ahead)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.width = width
        self.cell, self.head = nn.LSTMCell(1, width), nn.Linear(width, 1)

    def forward(self, waves: fw.Tensor, ahead: int = 0) -> fw.Tensor:
        state = (fw.zeros((len(waves), self.width)), fw.zeros((len(waves), self.width)))
        outputs: list[fw.Tensor] = []
        for t in range(waves.shape[1] + ahead):
            seen = waves[:, t:t + 1] if t < waves.shape[1] else outputs[-1]
            state = self.cell(seen, state)
            outputs.append(self.head(state[0]))
        return fw.concat(outputs, axis=1)


def waves(count: int) -> fw.Tensor:
    """Sines (count, LENGTH + 1) of one frequency with random phases."""
    phases = 2 * math.pi * fw.rand(count, 1)
    return fw.sin(fw.arange(LENGTH + 1) / 5 + phases)


def main(steps: int = 10, compiled: bool = True) -> list[float]:
    """Trains for `steps` of up to 20 evaluations; returns the loss of each evaluation."""
    fw.manual_seed(0)
    data = waves(WAVES)
    model = Continuation()
    optimizer = optim.LBFGS(model.parameters(), lr=0.5, history_size=20)

    def loss_and_gradients() -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(data[:, :-1]), data[:, 1:])
        loss.backward()
        return loss.detach()

    run = fw.compile(loss_and_gradients) if compiled else loss_and_gradients
    losses: list[float] = []

    def closure() -> fw.Tensor:
        losses.append(float(loss := run()))
        return loss

    for n in range(steps):
        optimizer.step(closure)
        print(f"step {n + 1}: mean squared error {losses[-1]:.5f}")
    with fw.no_grad():
        end = 20  # continued from the first values alone
        continued = model(data[:, :end], ahead=LENGTH - end)
        print(f"{LENGTH - end} values ahead: mean error "
              f"{float(fw.abs(continued - data[:, 1:])[:, end:].mean()):.3f}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(".")[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
