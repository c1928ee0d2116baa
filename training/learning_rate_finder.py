"""Finds a learning rate by a short training with a growing rate.

Source: L. N. Smith, Cyclical Learning Rates for Training Neural Networks, arXiv 1506.01186.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw

from .trainer import Trainer

SMOOTHING = 0.9    # share of the earlier losses in the running mean
DIVERGED = 4.0     # the search ends where the mean loss is so many times the least one


@dataclass(frozen=True)
class RateSearch:
    """The result of `find_learning_rate`.

    Attributes:
        rates: the learning rate of each step.
        losses: a running mean of the losses, for each step.
        suggestion: the rate at which the loss fell fastest.

    Example:
        >>> import fusewire as fw
        >>> fw.training.RateSearch([0.1, 0.2], [1.0, 0.5], 0.1).suggestion
        0.1
    """

    rates: list[float]
    losses: list[float]
    suggestion: float


def find_learning_rate(trainer: Trainer, loader: Iterable[Any], *, low: float = 1e-6,
                       high: float = 1.0, steps: int = 100) -> RateSearch:
    """The rates and losses of a trial, and the rate at which the loss fell fastest.

    The rate grows from `low` to `high` by the same factor in each step. The trainer, random
    numbers and the position of the loader are as before afterwards; the rate is not set.

    Args:
        trainer: what to train for a while.
        loader: batches; it starts anew if it ends.
        low, high: first and last rate. Default 1e-6 and 1.
        steps: at most so many steps. Default 100. The trial ends early if the loss diverges.

    Raises:
        ArgumentError: `low` is not between 0 and `high`, or steps is below 2.

    Example:
        >>> import fusewire as fw
        >>> _ = fw.manual_seed(0)
        >>> x = fw.randn(64, 3)
        >>> model = fw.nn.Linear(3, 1)
        >>> trainer = fw.training.Trainer(model, fw.optim.SGD(model.parameters()),
        ...                               fw.nn.functional.mse_loss, quiet=True)
        >>> found = fw.training.find_learning_rate(trainer, [(x, x[:, :1])], high=10.0)
        >>> 1e-3 < found.suggestion < 1.0, trainer.steps
        (True, 0)
    """
    if not 0 < low < high or steps < 2:
        raise fw.ArgumentError(f"find_learning_rate: low={low!r}, high={high!r}, steps={steps!r}",
                               "0 < low < high, and at least 2 steps")
    before, place = copy.deepcopy(trainer.state_dict()), _place(loader)
    allowed, trainer.allow_nonfinite = trainer.allow_nonfinite, True
    rates: list[float] = []
    losses: list[float] = []
    try:
        for rate, batch in zip(np.geomspace(low, high, steps).tolist(), _endless(loader)):
            _set_rate(trainer.optimizer, rate)
            rates.append(rate)
            losses.append(_mean(losses, float(trainer.step(batch))))
            if not losses[-1] < DIVERGED * min(losses):  # also if it is nan
                break
    finally:
        trainer.allow_nonfinite = allowed
        trainer.load_state_dict(before)
        if place is not None:
            loader.load_state_dict(place)  # type: ignore[attr-defined]
    return RateSearch(rates, losses, _steepest(rates, losses))


def _place(loader: Any) -> Any:
    return copy.deepcopy(loader.state_dict()) if hasattr(loader, "state_dict") else None


def _endless(loader: Iterable[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def _set_rate(optimizer: Any, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def _mean(before: list[float], loss: float) -> float:
    return loss if not before else SMOOTHING * before[-1] + (1 - SMOOTHING) * loss


def _steepest(rates: list[float], losses: list[float]) -> float:
    """The rate with the most negative slope of the loss over the logarithm of the rate."""
    usable = [i for i, loss in enumerate(losses) if math.isfinite(loss)]
    if len(usable) < 2:
        return rates[0]
    slopes = np.gradient([losses[i] for i in usable], np.log([rates[i] for i in usable]))
    return rates[usable[int(np.argmin(slopes))]]
