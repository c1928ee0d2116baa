"""Lists every optimizer with several settings, and the parameters and gradients that tests use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Case = tuple[str, dict[str, Any]]

OPTIMIZERS: list[Case] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.4, 0.99999), "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "amsgrad": True}),
    ("Adam", {"lr": 0.01, "betas": (0.0, 0.9), "weight_decay": 0.2,
              "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True, "weight_decay": 0.3, "eps": 1e-3}),
    ("RMSprop", {}),
    ("RMSprop", {"alpha": 0.8, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1,
                 "initial_accumulator_value": 0.1}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.5, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1}),
    ("RAdam", {}),
    ("RAdam", {"weight_decay": 0.1, "betas": (0.5, 0.9)}),
    ("RAdam", {"weight_decay": 0.1, "betas": (0.5, 0.5), "decoupled_weight_decay": True}),
    ("Adamax", {}),
    ("Adamax", {"betas": (0.3, 0.9), "weight_decay": 0.1}),
    ("ASGD", {}),
    ("ASGD", {"t0": 5.0, "lambd": 0.1, "alpha": 0.5, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.5), "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "eps": (1e-8, 1e-3), "d": 2.0}),
    ("Muon", {}),
    ("Muon", {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}),
]
STEPS = 20


def label(case: Case) -> str:
    """The id of a test of a case."""
    name, settings = case
    return name + "".join(f"-{k}={v}" for k, v in settings.items())


def shapes_of(name: str) -> list[tuple[int, ...]]:
    """Shapes of the parameters of an optimizer. Muon takes only matrices. PyTorch's Adafactor
    divides by the size of a parameter, so it gets no empty one."""
    if name == "Muon":
        return [(4, 3), (3, 5), (2, 2)]
    return [(4, 3), (5,), (), (2, 3, 4), *([] if name == "Adafactor" else [(0, 3)])]


def starts(name: str, dtype: Any) -> list[Any]:
    """Initial values of the parameters."""
    rng = np.random.default_rng(1)
    return [np.asarray(rng.standard_normal(shape)).astype(dtype) for shape in shapes_of(name)]


def gradients(name: str, dtype: Any, steps: int = STEPS) -> Iterator[list[Any]]:
    """For each step, a gradient of each parameter, of varying magnitude; the second is sometimes
    None."""
    rng = np.random.default_rng(2)
    for step in range(steps):
        size = 10.0 ** (step % 3 - 1)
        arrays = [np.asarray(rng.standard_normal(shape) * size).astype(dtype)
                  for shape in shapes_of(name)]
        yield [None if i == 1 and step % 4 == 1 else g for i, g in enumerate(arrays)]


def rate(step: int, lr: float) -> float:
    """The learning rate of a step: it changes three times."""
    return lr * (1.0, 0.5, 2.0, 0.1)[step // 5 % 4]
