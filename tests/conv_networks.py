"""Random convolution networks in training: how far their gradients are from float64's, compiled and
eager.

A `relu` whose input is nearly 0 has another slope after any rounding, and so gives gradients that
are a thousandth apart between any two right programs. So each program says on which side of 0 its
inputs were, and float64 computes the gradients of the same sides.

    python tests/conv_networks.py [first seed] [seeds]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw
import fusewire.nn.functional as F


@dataclass(frozen=True)
class Layer:
    """A convolution of 3 by 3 and what follows it."""

    filters: int
    stride: int
    normalized: bool
    skip: bool  # whether what it reads is added to what it gives


@dataclass(frozen=True)
class Network:
    """Layers, and what they are called with: arrays of float32."""

    layers: tuple[Layer, ...]
    x: Any
    weights: tuple[Any, ...]  # a filter, a scale and a shift for each layer
    target: Any

    def gradients(self, dtype: Any, sides: list[Any] | None = None, compiled: bool = False
                  ) -> tuple[list[Any], list[Any]]:
        """The gradients by input and weights, and on which side of 0 each relu's input was: the
        given ones, or those found."""
        function = fw.compile(self._step) if compiled else self._step
        tensors = [fw.from_numpy(a).astype(dtype) for a in (self.x, self.target, *self.weights)]
        for _ in range(2 if compiled else 1):  # the second call is a replay
            found = function(tensors, None if sides is None else list(map(fw.from_numpy, sides)))
        count = 1 + len(self.weights)
        arrays = [t.numpy() for t in found]
        return arrays[:count], arrays[count:]

    def _step(self, tensors: list[Any], sides: list[Any] | None) -> list[Any]:
        x, target, *weights = tensors
        own = [t.detach().requires_grad_() for t in (x, *weights)]
        y, seen = own[0], []
        for n, layer in enumerate(self.layers):
            y, side = _applied(layer, y, own[1 + 3 * n:4 + 3 * n], sides and sides[n])
            seen.append(side)
        return [*fw.grad(((y - target) ** 2).mean(), own), *seen]


def _applied(layer: Layer, x: Any, weights: list[Any], side: Any) -> tuple[Any, Any]:
    filters, scale, shift = weights
    y = F.conv2d(x, filters, stride=layer.stride, padding=1)
    if layer.normalized:
        y = F.batch_norm(y, None, None, scale, shift, training=True)
    else:
        y = y * scale.reshape(-1, 1, 1) + shift.reshape(-1, 1, 1)
    if layer.skip:
        y = y + x
    side = y.detach() > 0 if side is None else side
    return fw.where(side, y, 0.0 * y), side


def network(seed: int) -> Network:
    """A random network, of which some layers are computed by tiles."""
    rng = np.random.default_rng(seed)
    channels, size = int(rng.integers(16, 65)), int(rng.integers(8, 25))
    shape, layers, weights = (int(rng.integers(2, 9)), channels, size, size), [], []
    x = rng.standard_normal(shape)
    for _ in range(int(rng.integers(2, 9))):
        same = rng.random() < 0.6
        stride = 2 if not same and size >= 10 and rng.random() < 0.5 else 1
        filters = channels if same else int(rng.integers(16, 65))
        layers.append(Layer(filters, stride, rng.random() < 0.7, same and rng.random() < 0.5))
        weights += [rng.standard_normal((filters, channels, 3, 3)) / np.sqrt(4.5 * channels),
                    rng.uniform(0.5, 2, filters), rng.standard_normal(filters)]
        channels, size = filters, -(-size // stride)
    target = rng.standard_normal((shape[0], channels, size, size))
    x, target, *weights = (a.astype(np.float32) for a in (x, target, *weights))
    return Network(tuple(layers), x, tuple(weights), target)


def distances(of: Network, compiled: bool) -> list[float]:
    """How far each gradient in float32 is from float64's, as a share of its norm."""
    before = fw.settings.winograd
    fw.settings.winograd = before if compiled else 0
    found, sides = of.gradients(fw.float32, compiled=compiled)
    fw.settings.winograd = before
    exact, _ = of.gradients(fw.float64, sides)
    return [float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b))
            for a, b in zip(found, exact) if np.linalg.norm(b) > 0]


def main(first: str = "0", seeds: str = "10") -> None:
    for seed in range(int(first), int(first) + int(seeds)):
        made = network(seed)
        pairs = list(zip(distances(made, True), distances(made, False)))
        worst, (compiled, eager) = max(a / b for a, b in pairs), map(max, zip(*pairs))
        print(f"seed {seed}: {len(made.layers)} layers, x {made.x.shape}: worst ratio {worst:.2f}, "
              f"compiled at most {compiled:.1e}, eager {eager:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
