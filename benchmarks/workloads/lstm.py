"""An LSTM over 64 steps: all of its states, and a training step of a model with one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..modules import inferences, model_trainings, weights_of
from ..workload import Inputs, Workload
from .weights import normal

BATCH, STEPS, FEATURES, HIDDEN, CLASSES = 16, 64, 128, 256, 10
WEIGHTS = 4 * HIDDEN * (FEATURES + HIDDEN)
STATES = 2 * BATCH * STEPS * WEIGHTS  # operations of all steps' products


def inputs(build: Any) -> Inputs:
    return {"x": normal(13, BATCH, STEPS, FEATURES), "weights": weights_of(build, HIDDEN ** -0.5)}


def train_inputs() -> Inputs:
    labels = np.random.default_rng(7).integers(0, CLASSES, BATCH)
    return inputs(classifier) | {"labels": labels}


def states(library: Any) -> Any:
    """A library's LSTM that returns all states."""
    class States(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = library.nn.LSTM(FEATURES, HIDDEN, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    return States()


def classifier(library: Any) -> Any:
    """An LSTM with a linear layer for the last state."""
    class Classifier(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = library.nn.LSTM(FEATURES, HIDDEN, batch_first=True)
            self.head = library.nn.Linear(HIDDEN, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return Classifier()


def jax_states(w: Any, x: Any) -> Any:
    import jax.numpy as jnp
    from jax import lax
    from jax.nn import sigmoid

    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x + h @ w["lstm.weight_hh_l0"].T + w["lstm.bias_hh_l0"], 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        h = sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    given = x @ w["lstm.weight_ih_l0"].T + w["lstm.bias_ih_l0"]
    zeros = jnp.zeros((x.shape[0], HIDDEN))
    return lax.scan(cell, (zeros, zeros), given.swapaxes(0, 1))[1].swapaxes(0, 1)


def jax_classifier(w: Any, x: Any) -> Any:
    return jax_states(w, x)[:, -1] @ w["head.weight"].T + w["head.bias"]


WORKLOADS = [
    Workload(
        name="lstm_infer",
        about=f"LSTM of {HIDDEN} units over {STEPS} steps of {FEATURES}, batch {BATCH}",
        inputs=lambda: inputs(states),
        makers=inferences(states, jax_states),
        flops=STATES,
        size=4 * (WEIGHTS + BATCH * STEPS * (FEATURES + HIDDEN)),
    ),
    Workload(
        name="lstm_train_step",
        about=f"the same and {CLASSES} scores of its last state: forward, cross entropy, backward, "
              "Adam",
        inputs=train_inputs,
        makers=model_trainings(classifier, jax_classifier, "Adam", 1e-3),
        flops=3 * STATES - 2 * BATCH * STEPS * 4 * HIDDEN * FEATURES,
        size=28 * WEIGHTS,
        tolerance=2e-3,
        training=True,
        memory=True,
    ),
]
