"""Samples the weights of a regression by Hamiltonian Monte Carlo: Neal, arXiv 1206.1901.

    python examples/hamiltonian.py --samples 2000
"""

from __future__ import annotations

import argparse

import fusewire as fw

LEAPS, LENGTH = 16, 0.06  # of the path from one sample to the next
NOISE = 0.5               # standard deviation of the observations, known


def observations(count: int = 60) -> tuple[fw.Tensor, fw.Tensor]:
    """Features (count, 3) and targets (count,) of a line with weights 1.5, -2 and 0.5."""
    x = fw.concat([fw.randn(count, 2), fw.ones(count, 1)], axis=1)
    return x, x @ fw.tensor([1.5, -2.0, 0.5]) + NOISE * fw.randn(count)


def exact(x: fw.Tensor, y: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
    """Mean and standard deviation of the weights given the data, (3,) each."""
    covariance = fw.linalg.inv(x.T @ x / NOISE ** 2 + fw.eye(3))
    return covariance @ (x.T @ y) / NOISE ** 2, fw.sqrt(fw.linalg.diagonal(covariance))


def sampler(x: fw.Tensor, y: fw.Tensor):  # type: ignore[no-untyped-def]
    """A function from a sample, (3,), to the next one and whether it moved."""

    def energy(weights: fw.Tensor) -> fw.Tensor:
        return ((y - x @ weights) ** 2).sum() / (2 * NOISE ** 2) + (weights ** 2).sum() / 2

    force = fw.func.grad(energy)

    def following(weights: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        momentum = fw.randn(3)
        before = energy(weights) + (momentum ** 2).sum() / 2
        new = weights
        momentum = momentum - LENGTH / 2 * force(new)
        for leap in range(LEAPS):
            new = new + LENGTH * momentum
            momentum = momentum - LENGTH / (2 if leap == LEAPS - 1 else 1) * force(new)
        after = energy(new) + (momentum ** 2).sum() / 2
        if fw.rand(()) < fw.exp(before - after):
            return new, fw.tensor(1.0)
        return weights, fw.tensor(0.0)

    return following


def main(samples: int = 2000, compiled: bool = True) -> list[float]:
    """Draws `samples` samples. Returns the error of the mean over all samples so far, in standard
    deviations, at ten times."""
    fw.manual_seed(0)
    x, y = observations()
    mean, deviation = exact(x, y)
    following = sampler(x, y)
    run = fw.compile(following) if compiled else following
    weights, total, moves, errors = fw.zeros(3), fw.zeros(3), 0.0, [
        float((fw.abs(mean) / deviation).max())]
    for n in range(1, samples + 1):
        weights, moved = run(weights)
        total, moves = total + weights, moves + float(moved)
        if n % max(samples // 10, 1) == 0:
            errors.append(float((fw.abs(total / n - mean) / deviation).max()))
    print(f"{100 * moves / samples:.0f} % of {samples} proposals were accepted\n"
          f"mean of the samples {(total / samples).tolist()}\nexact mean {mean.tolist()}")
    return errors


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--eager", action="store_true", help="without fw.compile")
    given = parser.parse_args()
    main(given.samples, not given.eager)
