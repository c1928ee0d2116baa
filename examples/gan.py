"""A generative adversarial network that learns a ring of points: https://arxiv.org/abs/1406.2661.

    python examples/gan.py --steps 1500
"""

from __future__ import annotations

import argparse
import math

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn, optim


def layers(n_in: int, n_out: int, width: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, width), nn.LeakyReLU(0.2), nn.Linear(width, width),
                         nn.LeakyReLU(0.2), nn.Linear(width, n_out))


def ring(count: int) -> fw.Tensor:
    """Points (count, 2) near the circle of radius 2: the data."""
    angle = 2 * math.pi * fw.rand(count)
    points = 2 * fw.stack([fw.cos(angle), fw.sin(angle)], axis=1)
    return points + 0.05 * fw.randn(count, 2)


def guess(scores: fw.Tensor, real: bool) -> fw.Tensor:
    """How wrong the scores are if all of these points are real, or none is."""
    truth = fw.ones_like(scores) if real else fw.zeros_like(scores)
    return F.binary_cross_entropy_with_logits(scores, truth)


@fw.no_grad()
def distance(generator: nn.Module) -> float:
    """How far made points lie from the circle, on average."""
    points = generator(fw.randn(500, 4))
    return float(fw.abs(fw.linalg.vector_norm(points, axis=1) - 2).mean())


def main(steps: int = 1500, compiled: bool = True) -> list[float]:
    """Trains for `steps`; returns the distance from the circle before, on the way and after."""
    fw.manual_seed(0)
    generator, critic = layers(4, 2), layers(2, 1)
    # Momentum of Adam's usual 0.9 makes the two of them run in circles.
    optimizers = [optim.Adam(net.parameters(), lr=2e-3, betas=(0.5, 0.99))
                  for net in (generator, critic)]
    of_generator, of_critic = optimizers

    def step() -> tuple[fw.Tensor, fw.Tensor]:
        # The critic tells real points from made ones; detach keeps the generator as it is.
        made = generator(fw.randn(128, 4))
        of_critic.zero_grad()
        error = guess(critic(ring(128)), real=True) + guess(critic(made.detach()), real=False)
        error.backward()
        of_critic.step()
        # The generator wants its points to be taken for real ones.
        of_generator.zero_grad()
        success = guess(critic(made), real=True)
        success.backward()
        of_generator.step()
        return error.detach(), success.detach()

    # Random numbers inside of a compiled step are new ones in each call, as they are eagerly.
    run, distances = fw.compile(step) if compiled else step, [distance(generator)]
    for n in range(steps):
        error, success = run()
        if (n + 1) % max(steps // 5, 1) == 0:
            distances.append(distance(generator))
            print(f"step {n + 1}: critic {float(error):.3f}, generator {float(success):.3f}, "
                  f"distance from the ring {distances[-1]:.3f}")
    return distances


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.steps, not given.eager)
