"""Measures the errors of gradients of random convolution networks against float64, compiled and
eager.

A rounding can move an input of `relu` across 0, which changes the slope. Two correct programs can
therefore have gradients that differ by a thousandth. So each program returns the sides of 0 on
which its inputs were, and float64 computes the gradients for the same sides.

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
    """A convolution of 3 by 3, with a normalization and a relu."""

    filters: int
    stride: int
    normalized: bool
    skip: bool  # adds the input to the output


@dataclass(frozen=True)
class Network:
    """Layers, and their arguments as arrays of float32."""

    layers: tuple[Layer, ...]
    x: Any
    weights: tuple[Any, ...]  # a filter, a scale and a shift for each layer
    target: Any

    def gradients(self, dtype: Any, sides: list[Any] | None = None, compiled: bool = False
                  ) -> tuple[list[Any], list[Any]]:
        """The gradients by input and weights, and for each relu a mask of its positive inputs.
        `sides`: masks to use in the place of the computed ones."""
        function = fw.compile(self._step) if compiled else self._step
        tensors = [fw.from_numpy(a).astype(dtype) for a in (self.x, self.target, *self.weights)]
        for _ in range(2 if compiled else 1):  # the second call is a replay
            results = function(tensors, None if sides is None else list(map(fw.from_numpy, sides)))
        count = 1 + len(self.weights)
        arrays = [t.numpy() for t in results]
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
    """A random network; some of its layers are computed by Winograd tiles."""
    rng = np.random.default_rng(seed)
    channels, size = int(rng.integers(16, 65)), int(rng.integers(8, 25))
    shape, layers, weights = (int(rng.integers(2, 9)), channels, size, size), [], []
    x = rng.standard_normal(shape)
    for _ in range(int(rng.integers(2, 9))):
        same_shape = rng.random() < 0.6
        stride = 2 if not same_shape and size >= 10 and rng.random() < 0.5 else 1
        filters = channels if same_shape else int(rng.integers(16, 65))
        layers.append(Layer(filters, stride, rng.random() < 0.7, same_shape and rng.random() < 0.5))
        weights += [rng.standard_normal((filters, channels, 3, 3)) / np.sqrt(4.5 * channels),
                    rng.uniform(0.5, 2, filters), rng.standard_normal(filters)]
        channels, size = filters, -(-size // stride)
    target = rng.standard_normal((shape[0], channels, size, size))
    x, target, *weights = (a.astype(np.float32) for a in (x, target, *weights))
    return Network(tuple(layers), x, tuple(weights), target)


def distances(of: Network, compiled: bool) -> list[float]:
    """The error of each float32 gradient against float64, relative to its norm."""
    before = fw.settings.winograd
    fw.settings.winograd = before if compiled else 0
    gradients, sides = of.gradients(fw.float32, compiled=compiled)
    fw.settings.winograd = before
    exact, _ = of.gradients(fw.float64, sides)
    return [float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b))
            for a, b in zip(gradients, exact) if np.linalg.norm(b) > 0]


def main(first: str = "0", seeds: str = "10") -> None:
    for seed in range(int(first), int(first) + int(seeds)):
        net = network(seed)
        pairs = list(zip(distances(net, True), distances(net, False)))
        worst, (compiled, eager) = max(a / b for a, b in pairs), map(max, zip(*pairs))
        print(f"seed {seed}: {len(net.layers)} layers, x {net.x.shape}: worst ratio {worst:.2f}, "
              f"compiled at most {compiled:.1e}, eager {eager:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
