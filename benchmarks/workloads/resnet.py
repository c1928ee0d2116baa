"""ResNet-18 for images of 32 by 32: scores, and a training step with momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..modules import inferences, model_trainings, weights_of
from ..workload import Inputs, Workload
from .convolution import convolved, known, normed
from .weights import normal

CLASSES = 10
BLOCKS = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1),  # channels, channels, stride
          (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]


def module(library: Any) -> Any:
    """The model of a library's modules (He et al. 2015, without the first pooling)."""
    nn = library.nn

    def layer(n_in: int, n_out: int, size: int, stride: int = 1) -> Any:
        return nn.Sequential(nn.Conv2d(n_in, n_out, size, stride, size // 2, bias=False),
                             nn.BatchNorm2d(n_out))

    class Block(nn.Module):
        def __init__(self, n_in: int, n_out: int, stride: int) -> None:
            super().__init__()
            self.first, self.second = layer(n_in, n_out, 3, stride), layer(n_out, n_out, 3)
            self.short = layer(n_in, n_out, 1, stride) if stride > 1 else nn.Identity()

        def forward(self, x: Any) -> Any:
            y = self.second(nn.functional.relu(self.first(x)))
            return nn.functional.relu(y + self.short(x))

    return nn.Sequential(layer(3, 64, 3), nn.ReLU(), *(Block(*block) for block in BLOCKS),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


def jax(w: Any, x: Any) -> Any:
    return _scores(w, x, lambda name, x: known(w, name))


def jax_train(w: Any, x: Any) -> Any:
    """A training step with the batch's statistics; it does not update the 9,600 running ones."""
    return _scores(w, x, lambda name, x: (x.mean((0, 1, 2)), x.var((0, 1, 2))))


def _scores(w: Any, x: Any, statistics: Any) -> Any:
    from jax.nn import relu

    def layer(x: Any, name: str, stride: int = 1) -> Any:
        weight, norm = w[f"{name}.0.weight"], f"{name}.1"
        x = convolved(x, weight, stride, weight.shape[-1] // 2)
        return normed(w, norm, x, *statistics(norm, x))

    x = relu(layer(x.transpose(0, 2, 3, 1), "0"))
    for i, (_, _, stride) in enumerate(BLOCKS, 2):
        y = layer(relu(layer(x, f"{i}.first", stride)), f"{i}.second")
        x = relu(y + (layer(x, f"{i}.short", stride) if stride > 1 else x))
    last = len(BLOCKS) + 4
    return x.mean((1, 2)) @ w[f"{last}.weight"].T + w[f"{last}.bias"]


def products(pixels: int) -> tuple[int, int]:
    """Multiply-adds of one image, and those of the first layer, which needs no input's gradient."""
    side, first = pixels, pixels ** 2 * 3 * 64 * 9
    count = first + 512 * CLASSES
    for n_in, n_out, stride in BLOCKS:
        side //= stride
        count += side ** 2 * n_out * (9 * n_in + 9 * n_out + (n_in if stride > 1 else 0))
    return count, first


PARAMETERS = 11_173_962

def workloads(batch: int, pixels: int = 32) -> list[Workload]:
    multiplied, first = products(pixels)

    def inputs() -> Inputs:
        return {"x": normal(11, batch, 3, pixels, pixels), "weights": weights_of(module)}

    def train_inputs() -> Inputs:
        return inputs() | {"labels": np.random.default_rng(7).integers(0, CLASSES, batch)}

    return [
        Workload(
            name="resnet_infer",
            about=f"ResNet-18 on {batch} images of {pixels} by {pixels}: scores",
            inputs=inputs,
            makers=inferences(module, jax, images=True),
            flops=2 * batch * multiplied,  # the limit is that of direct convolution
            size=4 * (PARAMETERS + batch * 3 * pixels ** 2),
            tolerance=1e-3,
        ),
        Workload(
            name="resnet_train_step",
            about="the same: forward, cross entropy, backward, SGD with momentum",
            inputs=train_inputs,
            makers=model_trainings(module, jax_train, "SGD", 0.02, images=True),
            flops=2 * batch * (3 * multiplied - first),
            size=20 * PARAMETERS,  # a parameter, its gradient and its mean: 3 read, 2 written
            tolerance=2e-3,
            training=True,
            memory=True,
        ),
    ]


WORKLOADS = workloads(32)
ON_GPU = workloads(256)[:1]
