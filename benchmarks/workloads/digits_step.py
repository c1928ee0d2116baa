"""The demo's training step: a small convolutional network on handwritten digits, with AdamW."""

from __future__ import annotations

from typing import Any

from fusewire.export.demo.digits import load_digits
from fusewire.export.demo.model import DigitNet

from ..training import trainings
from ..workload import Inputs, Workload
from .weights import normal

BATCH, LR = 64, 2e-3
SHAPES = {"conv1": (32, 1, 3, 3), "conv2": (64, 32, 3, 3), "linear1": (128, 1024),
          "linear2": (10, 128)}
# Multiply-adds forward. Backward takes twice as many, but for the gradient of the images.
CONV1, REST = BATCH * 64 * 32 * 9, BATCH * (64 * 64 * 32 * 9 + 1024 * 128 + 128 * 10)


def inputs(dropout: tuple[float, float] = (0.25, 0.5)) -> Inputs:
    """The first images of the data set."""
    images, labels = load_digits()
    weights = {}
    for number, (name, shape) in enumerate(SHAPES.items()):
        weights[f"{name}.weight"] = normal(number, *shape, fan_in=True)
        weights[f"{name}.bias"] = normal(10 + number, shape[0], scale=0.01)
    return {"x": images.numpy()[:BATCH].copy(), "labels": labels.numpy()[:BATCH].copy(),
            "weights": weights, "dropout": dropout}


def fusewire(inputs: Inputs) -> DigitNet:
    model = DigitNet()
    model.dropout1.p, model.dropout2.p = inputs["dropout"]
    return model


def torch(inputs: Inputs) -> Any:
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
            self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
            self.dropout1, self.dropout2 = map(nn.Dropout, inputs["dropout"])
            self.linear1, self.linear2 = nn.Linear(1024, 128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
            x = self.dropout1(nn.functional.max_pool2d(x, 2))
            x = self.dropout2(torch.relu(self.linear1(x.flatten(1))))
            return self.linear2(x)

    return Net()


def jax(inputs: Inputs) -> Any:
    """The model in jax, with channels last, which is faster in XLA on CPUs."""
    import jax
    from jax import lax

    def conv(w: Any, name: str, x: Any) -> Any:
        kernel = w[f"{name}.weight"].transpose(2, 3, 1, 0)
        out = lax.conv_general_dilated(x, kernel, (1, 1), "SAME",
                                       dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(out + w[f"{name}.bias"])

    def drop(x: Any, share: float, key: Any) -> Any:
        if not share:
            return x
        return jax.numpy.where(jax.random.bernoulli(key, 1 - share, x.shape), x / (1 - share), 0)

    def scores(w: Any, x: Any, key: Any) -> Any:
        keys = jax.random.split(key)
        x = conv(w, "conv2", conv(w, "conv1", x.transpose(0, 2, 3, 1)))
        x = x.reshape(BATCH, 4, 2, 4, 2, 64).max((2, 4))
        x = drop(x, inputs["dropout"][0], keys[0]).transpose(0, 3, 1, 2).reshape(BATCH, -1)
        x = jax.nn.relu(x @ w["linear1.weight"].T + w["linear1.bias"])
        x = drop(x, inputs["dropout"][1], keys[1])
        return x @ w["linear2.weight"].T + w["linear2.bias"]

    return scores


WORKLOADS = [Workload(
    name="digits_step",
    about=f"training step of the demo's network, batch {BATCH}, AdamW; losses compared without "
          "dropout, timed with it",
    inputs=inputs,
    makers=trainings(fusewire, torch, jax, "AdamW", LR),
    flops=2 * (3 * REST + 2 * CONV1),
    size=28 * 151_306,  # a parameter, its gradient and both means: 4 read, 3 written
    tolerance=2e-3,
    training=True,
    memory=True,
    checked=lambda: inputs((0.0, 0.0)),
)]
