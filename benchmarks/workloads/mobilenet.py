"""An inverted residual block of MobileNetV2: most of its layers are bound by memory."""

from __future__ import annotations

from typing import Any

from ..modules import inferences, weights_of
from ..workload import Inputs, Workload
from .convolution import convolved, known, normed
from .weights import normal

BATCH, CHANNELS, WIDE, PIXELS = 16, 32, 192, 28


def inputs() -> Inputs:
    return {"x": normal(14, BATCH, CHANNELS, PIXELS, PIXELS), "weights": weights_of(module)}


def module(library: Any) -> Any:
    """The block of a library's modules (Sandler et al. 2018)."""
    nn = library.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(CHANNELS, WIDE, 1, bias=False), nn.BatchNorm2d(WIDE), nn.ReLU6(),
                nn.Conv2d(WIDE, WIDE, 3, padding=1, groups=WIDE, bias=False),
                nn.BatchNorm2d(WIDE), nn.ReLU6(),
                nn.Conv2d(WIDE, CHANNELS, 1, bias=False), nn.BatchNorm2d(CHANNELS))

        def forward(self, x: Any) -> Any:
            return x + self.main(x)

    return Block()


def jax(w: Any, x: Any) -> Any:
    import jax

    def layer(x: Any, i: int, padding: int = 0, groups: int = 1) -> Any:
        name = f"main.{i + 1}"
        x = convolved(x, w[f"main.{i}.weight"], 1, padding, groups)
        return normed(w, name, x, *known(w, name))

    x = x.transpose(0, 2, 3, 1)
    y = jax.nn.relu6(layer(jax.nn.relu6(layer(x, 0)), 3, 1, WIDE))
    return (x + layer(y, 6)).transpose(0, 3, 1, 2)


WORKLOADS = [Workload(
    name="mobilenet_block",
    about=f"inverted residual of {CHANNELS}-{WIDE}-{CHANNELS} channels, {BATCH} images of "
          f"{PIXELS} by {PIXELS}",
    inputs=inputs,
    makers=inferences(module, jax, images=True),
    flops=2 * BATCH * PIXELS ** 2 * WIDE * (2 * CHANNELS + 9),
    size=8 * BATCH * PIXELS ** 2 * CHANNELS,
)]
