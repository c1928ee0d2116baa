"""One convolution of the first stage of a ResNet, with bias and ReLU; on a GPU in bfloat16, for
tensor cores."""

from __future__ import annotations

from typing import Any

import fusewire as fw

from ..modules import inferences, weights_of
from ..peers import pure
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
    """jax's convolution with channels last, which is faster in XLA on CPUs."""
    from jax import lax

    return lax.conv_general_dilated(
        x, weight.transpose(2, 3, 1, 0), (stride, stride), [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)


def normed(w: Any, name: str, x: Any, mean: Any, variance: Any) -> Any:
    """jax's batch norm with channels last, with the weights of this name."""
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


# ---- of functions, in bfloat16
def convolved_and_biased(x: Any, w: Any, bias: Any) -> Any:
    return fw.relu(fw.nn.functional.conv2d(x, w, bias, padding=1))


def torch_convolved() -> Any:
    import torch

    return lambda x, w, bias: torch.relu(torch.nn.functional.conv2d(x, w, bias, padding=1))


def jax_convolved() -> Any:
    import jax

    def run(x: Any, w: Any, bias: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
        return jax.nn.relu(y + bias[:, None, None])

    return run


def workload(batch: int, channels: int, pixels: int) -> Workload:
    return Workload(
        name="conv_bf16_infer",
        about=f"3x3 convolution of ({batch}, {channels}, {pixels}, {pixels}) in bfloat16, bias, "
              "ReLU; the limit is that of memory alone",
        inputs=lambda: {"x": normal(12, batch, channels, pixels, pixels),
                        "w": normal(13, channels, channels, 3, 3, fan_in=True),
                        "bias": normal(14, channels)},
        makers=pure(convolved_and_biased, torch_convolved, jax_convolved, dtype="bfloat16"),
        size=4 * batch * channels * pixels ** 2,
        tolerance=1e-2,
    )


ON_GPU = [workload(64, 128, 56)]
