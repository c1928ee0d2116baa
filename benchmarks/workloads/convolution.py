"""One convolution as in the first stage of a ResNet, with its bias and ReLU."""

from __future__ import annotations

from typing import Any

from ..modules import inferences, weights_of
from ..workload import Inputs, Workload
from .weights import normal

BATCH, CHANNELS, PIXELS = 16, 64, 56


def inputs() -> Inputs:
    return {"x": normal(12, BATCH, CHANNELS, PIXELS, PIXELS), "weights": weights_of(module)}


def module(library: Any) -> Any:
    """The layer of a library."""
    nn = library.nn
    return nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU())


def jax(w: Any, x: Any) -> Any:
    import jax

    y = convolved(x.transpose(0, 2, 3, 1), w["0.weight"], 1, 1)
    return jax.nn.relu(y + w["0.bias"]).transpose(0, 3, 1, 2)


def convolved(x: Any, weight: Any, stride: int, padding: int, groups: int = 1) -> Any:
    """jax's convolution of pixels with their channels last, as XLA likes it on processors."""
    from jax import lax

    return lax.conv_general_dilated(
        x, weight.transpose(2, 3, 1, 0), (stride, stride), [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)


def normed(w: Any, name: str, x: Any, mean: Any, variance: Any) -> Any:
    """jax's batch norm of the same, with the weights of this name."""
    return (x - mean) * (w[f"{name}.weight"] * (variance + 1e-5) ** -0.5) + w[f"{name}.bias"]


def known(w: Any, name: str) -> tuple[Any, Any]:
    """The running mean and variance of a batch norm."""
    return w[f"{name}.running_mean"], w[f"{name}.running_var"]


WORKLOADS = [Workload(
    name="conv_infer",
    about=f"3x3 convolution of ({BATCH}, {CHANNELS}, {PIXELS}, {PIXELS}), bias, ReLU",
    inputs=inputs,
    makers=inferences(module, jax, images=True),
    flops=2 * BATCH * (CHANNELS * PIXELS) ** 2 * 9,  # the limit is that of direct convolution
    size=8 * BATCH * CHANNELS * PIXELS ** 2,
    kept=True,
)]
