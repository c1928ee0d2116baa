"""Measures compile time, with training steps that are small to run and long to compile.

The columns of cold and repeated first calls matter here. The loops over time are plain Python in
every library; tracing unrolls them.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fusewire import concat, nn, sigmoid, tanh, zeros

from ..training import trainings
from ..workload import Inputs, Workload
from .weights import normal

LAYERS, WIDTH, BATCH = 48, 32, 16
FEATURES, HIDDEN, CLASSES = 8, 16, 10


def labels() -> Any:
    return np.random.default_rng(7).integers(0, CLASSES, BATCH)


# ---- many equal layers
def deep_inputs() -> Inputs:
    weights = {}
    for i in range(LAYERS):
        weights[f"{2 * i}.weight"] = normal(i, WIDTH, WIDTH, scale=(2 / WIDTH) ** 0.5)
        weights[f"{2 * i}.bias"] = normal(100 + i, WIDTH, scale=0.01)
    weights[f"{2 * LAYERS}.weight"] = normal(200, CLASSES, WIDTH, fan_in=True)
    weights[f"{2 * LAYERS}.bias"] = normal(201, CLASSES, scale=0.01)
    return {"x": normal(300, BATCH, WIDTH), "labels": labels(), "weights": weights}


def deep(library: Any) -> Any:
    """The model in a library that has torch's layers."""
    layers = [m for _ in range(LAYERS) for m in (library.Linear(WIDTH, WIDTH), library.ReLU())]
    return library.Sequential(*layers, library.Linear(WIDTH, CLASSES))


def torch_deep(inputs: Inputs) -> Any:
    import torch

    return deep(torch.nn)


def jax_deep(inputs: Inputs) -> Any:
    import jax

    def scores(w: Any, x: Any, key: Any = None) -> Any:
        for i in range(LAYERS):
            x = jax.nn.relu(x @ w[f"{2 * i}.weight"].T + w[f"{2 * i}.bias"])
        return x @ w[f"{2 * LAYERS}.weight"].T + w[f"{2 * LAYERS}.bias"]

    return scores


# ---- many time steps
def recurrent_inputs(steps: int) -> Inputs:
    weights = {"cell.weight": normal(1, 4 * HIDDEN, FEATURES + HIDDEN, fan_in=True),
               "cell.bias": normal(2, 4 * HIDDEN, scale=0.01),
               "head.weight": normal(3, CLASSES, HIDDEN, fan_in=True),
               "head.bias": normal(4, CLASSES, scale=0.01)}
    return {"x": normal(5, BATCH, steps, FEATURES), "labels": labels(), "weights": weights}


class Recurrent(nn.Module):
    """An LSTM, its loop over time written out, and a layer for the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(FEATURES + HIDDEN, 4 * HIDDEN)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Any) -> Any:
        h = c = zeros(BATCH, HIDDEN)
        for t in range(x.shape[1]):
            gates = self.cell(concat([x[:, t], h], 1))
            i, f, g, o = (gates[:, k * HIDDEN:(k + 1) * HIDDEN] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            h = sigmoid(o) * tanh(c)
        return self.head(h)


def torch_recurrent(inputs: Inputs) -> Any:
    import torch

    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = torch.nn.Linear(FEATURES + HIDDEN, 4 * HIDDEN)
            self.head = torch.nn.Linear(HIDDEN, CLASSES)

        def forward(self, x: Any) -> Any:
            h = c = torch.zeros(BATCH, HIDDEN)
            for t in range(x.shape[1]):
                i, f, g, o = self.cell(torch.cat([x[:, t], h], 1)).chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
            return self.head(h)

    return Recurrent()


def jax_recurrent(inputs: Inputs) -> Any:
    import jax
    import jax.numpy as jnp

    def scores(w: Any, x: Any, key: Any = None) -> Any:
        h = c = jnp.zeros((BATCH, HIDDEN))
        for t in range(x.shape[1]):
            gates = jnp.concatenate([x[:, t], h], 1) @ w["cell.weight"].T + w["cell.bias"]
            i, f, g, o = jnp.split(gates, 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return h @ w["head.weight"].T + w["head.bias"]

    return scores


def recurrent(steps: int) -> Workload:
    makers = trainings(lambda inputs: Recurrent(), torch_recurrent, jax_recurrent, "Adam", 1e-3)
    if steps > 32:  # they take half a minute for 32, and many minutes from here on
        del makers["torch.compile"], makers["jax.jit"]
    return Workload(
        name=f"compile_lstm_{steps}",
        about=f"training step of an LSTM of {HIDDEN} units over {steps} steps, batch {BATCH}",
        inputs=functools.partial(recurrent_inputs, steps), makers=makers,
        tolerance=1e-3, training=True, recompiles=True)


WORKLOADS = [
    Workload(
        name="compile_deep", about=f"training step of {LAYERS} layers of {WIDTH}, batch {BATCH}",
        inputs=deep_inputs,
        makers=trainings(lambda inputs: deep(nn), torch_deep, jax_deep, "Adam", 1e-3),
        tolerance=1e-3, training=True, recompiles=True),
    recurrent(32), recurrent(128), recurrent(512),
]
