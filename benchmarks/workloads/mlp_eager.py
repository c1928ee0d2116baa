"""A small network, 64-64-64-10 on a batch of 32, trained eagerly, where calls take the time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from fusewire import nn

from ..training import fusewire_training, torch_training
from ..workload import Inputs, Workload
from .weights import normal

BATCH, SIZES = 32, (64, 64, 64, 10)
LAYERS = [str(2 * i) for i in range(len(SIZES) - 1)]  # as a Sequential with ReLU between names them
PRODUCTS = [m * n for m, n in pairwise(SIZES)]
PARAMETERS = sum(PRODUCTS) + sum(SIZES[1:])


def inputs() -> Inputs:
    """Random numbers and labels, and the layers' weights under torch's names."""
    weights = {}
    for seed, (name, (m, n)) in enumerate(zip(LAYERS, pairwise(SIZES))):
        weights[f"{name}.weight"] = normal(seed, n, m, fan_in=True)
        weights[f"{name}.bias"] = normal(10 + seed, n, scale=0.01)
    labels = np.random.default_rng(7).integers(0, SIZES[-1], BATCH)
    return {"x": normal(6, BATCH, SIZES[0]), "labels": labels, "weights": weights}


def network(nn: Any) -> Any:
    """The model, built of the layers of either library."""
    layers = [nn.Linear(m, n) for m, n in pairwise(SIZES)]
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])


def fusewire(inputs: Inputs) -> Any:
    return network(nn)


def torch(inputs: Inputs) -> Any:
    import torch

    return network(torch.nn)


WORKLOADS = [
    Workload(
        name="mlp_eager_step",
        about="64-64-64-10, batch 32, eagerly: forward, cross entropy, backward, AdamW",
        inputs=inputs,
        makers={"fusewire eager": fusewire_training(fusewire, "AdamW", 1e-3, False),
                "torch": torch_training(torch, "AdamW", 1e-3, False, False),
                "torch fused": torch_training(torch, "AdamW", 1e-3, True, False)},
        flops=2 * BATCH * (3 * sum(PRODUCTS) - PRODUCTS[0]),
        size=28 * PARAMETERS,
        tolerance=2e-3,
        training=True,
    ),
]
