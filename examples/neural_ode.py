"""Learns the law of motion of a spiral as a neural ODE: Chen et al., arXiv 1806.07366.

The solver chooses the length of each step by its error, so how many it makes depends on values.
Gradients flow through all of them.

    python examples/neural_ode.py --steps 300
"""

from __future__ import annotations

import argparse

import fusewire as fw
from fusewire import nn, optim

TOLERANCE = 1e-3
POINTS, INTERVAL = 12, 0.25  # observed points, and the time between two of them


class Field(nn.Module):
    """Positions (n, 2) to velocities (n, 2)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width),
                                    nn.Tanh(), nn.Linear(width, 2))

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.layers(x)


def solve(field: nn.Module, x: fw.Tensor, duration: float) -> fw.Tensor:
    """The positions after `duration`, by Bogacki and Shampine's pair of orders 3 and 2 (1989)."""
    time, length = fw.tensor(0.0), fw.tensor(0.1)
    while time < duration:
        length = fw.minimum(length, duration - time)
        k1 = field(x)
        k2 = field(x + length / 2 * k1)
        k3 = field(x + length * 3 / 4 * k2)
        new = x + length * (2 * k1 + 3 * k2 + 4 * k3) / 9
        k4 = field(new)
        error = fw.abs(length * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - k4 / 8)).max().detach()
        if error <= TOLERANCE:
            time, x = time + length, new
        length = length * fw.clip(0.9 * (TOLERANCE / (error + 1e-12)) ** (1 / 3), 0.2, 5.0)
    return x


def spiral(count: int) -> fw.Tensor:
    """Paths (POINTS, count, 2) of a linear law with random starts: the data."""
    turn = INTERVAL * fw.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    step = fw.eye(2) + turn + turn @ turn / 2 + turn @ turn @ turn / 6
    path = [2 * fw.rand(count, 2) - 1]
    for _ in range(POINTS - 1):
        path.append(path[-1] @ step)
    return fw.stack(path)


def main(steps: int = 300, compiled: bool = True) -> list[float]:
    """Trains for `steps`; returns the loss of each step."""
    fw.manual_seed(0)
    field = Field()
    optimizer = optim.Adam(field.parameters(), lr=1e-2)

    def step(path: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        starts, ends = path[:-1].reshape(-1, 2), path[1:].reshape(-1, 2)
        loss = ((solve(field, starts, INTERVAL) - ends) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run, losses = fw.compile(step) if compiled else step, list[float]()
    for n in range(steps):
        losses.append(float(run(spiral(16))))
        if (n + 1) % max(steps // 5, 1) == 0:
            print(f"step {n + 1}: mean squared error {losses[-1]:.5f}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
