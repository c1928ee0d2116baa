"""Solves a differential equation by a network: Raissi et al., J. Comput. Phys. 378 (2019).

The heat equation u_t = u_xx / 10 on 0 < x < 1 with u(x, 0) = sin(pi x) and u = 0 at both ends. Its
solution is exp(-pi**2 t / 10) sin(pi x). The network knows the equation only.

    python examples/physics_informed.py --steps 2000
"""

from __future__ import annotations

import argparse
import math

import fusewire as fw
from fusewire import nn, optim


class Solution(nn.Module):
    """Positions x and times t, (n, 1) each, to u of shape (n, 1). It is 0 at both ends."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width),
                                    nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
        return x * (1 - x) * self.layers(fw.concat([x, t], axis=1))


def residual(u: Solution, x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
    """u_t - u_xx / 10 at the points, (n, 1)."""
    x, t = x.requires_grad_(), t.requires_grad_()
    value = u(x, t)
    u_x, u_t = fw.autograd.grad(value.sum(), (x, t), create_graph=True)
    (u_xx,) = fw.autograd.grad(u_x.sum(), (x,), create_graph=True)
    return u_t - u_xx / 10


@fw.no_grad()
def error(u: Solution) -> float:
    """The largest difference from the solution on a grid."""
    x, t = (axis.reshape(-1, 1) for axis in fw.meshgrid(fw.linspace(0.0, 1.0, 21),
                                                        fw.linspace(0.0, 1.0, 21)))
    exact = fw.exp(-math.pi ** 2 * t / 10) * fw.sin(math.pi * x)
    return float(fw.abs(u(x, t) - exact).max())


def main(steps: int = 2000, compiled: bool = True) -> list[float]:
    """Trains for `steps`; returns the error before, on the way and after."""
    fw.manual_seed(0)
    u = Solution()
    optimizer = optim.Adam(u.parameters(), lr=3e-3)

    def step() -> fw.Tensor:
        x, t, start = fw.rand(128, 1), fw.rand(128, 1), fw.rand(64, 1)
        optimizer.zero_grad()
        at_start = u(start, fw.zeros_like(start)) - fw.sin(math.pi * start)
        loss = (residual(u, x, t) ** 2).mean() + 10 * (at_start ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run, errors = fw.compile(step) if compiled else step, [error(u)]
    for n in range(steps):
        loss = run()
        if (n + 1) % max(steps // 5, 1) == 0:
            errors.append(error(u))
            print(f"step {n + 1}: loss {float(loss):.5f}, largest error {errors[-1]:.4f}")
    return errors


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
