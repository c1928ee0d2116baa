"""Holds the demo's training loop, for eager and compiled steps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from ...eager import nn, optim
from ...eager.core.tape import no_grad
from ...eager.core.tensor import Tensor
from ...eager.nn import functional as F

Step = Callable[[Tensor, Tensor], Tensor]
Batches = Iterable[tuple[Tensor, Tensor]]


@dataclass
class History:
    """The losses and seconds of the steps of a training run."""

    name: str
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def typical(self) -> float:
        """The median seconds of a step, without the first steps, which may compile."""
        return statistics.median(self.seconds[3:] or self.seconds)


def training_step(model: nn.Module, optimizer: optim.Optimizer) -> Step:
    """A function of images and labels that trains `model` for one step and returns the loss."""
    def step(images: Tensor, labels: Tensor) -> Tensor:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def train(step: Step, batches: Batches, history: History) -> None:
    """Runs `step` on every batch and adds its loss and time to `history`."""
    for images, labels in batches:
        start = time.perf_counter()
        loss = step(images, labels)
        history.seconds.append(time.perf_counter() - start)
        history.losses.append(float(loss))


def predict(model: nn.Module, images: Tensor) -> np.ndarray:
    """Probabilities (n, 10) of `images`, without dropout."""
    model.eval()
    with no_grad():
        scores = F.softmax(model(images), -1)
    model.train()
    return np.asarray(scores)
