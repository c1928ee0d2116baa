"""Defines a schedule that reduces the rate when a metric stops improving."""

from __future__ import annotations

import math
from typing import Any

from ...arguments import check_choice
from ...errors import ArgumentError, StateError
from ...uninterrupted import Uninterrupted
from ..base.optimizer import Optimizer
from .base import LRScheduler, check_optimizer, one_each, plain, rates_of, warn_of_epoch

__all__ = ["ReduceLROnPlateau"]

_BETTER = {  # by mode and threshold_mode: True if `a` improves on the best so far
    ("min", "rel"): lambda a, best, threshold: a < best * (1.0 - threshold),
    ("min", "abs"): lambda a, best, threshold: a < best - threshold,
    ("max", "rel"): lambda a, best, threshold: a > best * (threshold + 1.0),
    ("max", "abs"): lambda a, best, threshold: a > best + threshold,
}


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` after more than `patience` epochs without improvement.

    Args:
        optimizer: its groups get the rates.
        mode: "min" for a metric that should fall, "max" for one that should rise. Default "min".
        factor: factor of the rate, below 1. Default 0.1.
        patience: epochs without improvement that are tolerated. Default 10.
        threshold: smallest change that counts as improvement. Default 1e-4.
        threshold_mode: "rel": a share of the best metric; "abs": a difference. Default "rel".
        cooldown: epochs after a reduction that do not count. Default 0.
        min_lr: lowest rate, a number or one for each group. Default 0.
        eps: smaller changes of the rate are skipped. Default 1e-8.

    Raises:
        ArgumentError: factor of 1 or more, an unknown mode or threshold_mode, or min_lr of another
            length than groups.
        StateError: in `step`, if groups were added and min_lr is a list.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
        >>> scheduler = fw.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        >>> for loss in (3.0, 2.0, 2.0): scheduler.step(loss)
        >>> scheduler.get_last_lr()
        [0.05]
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0,
        min_lr: float | list[float] = 0, eps: float = 1e-8,
    ) -> None:
        if not factor < 1:
            raise ArgumentError(f"ReduceLROnPlateau: factor must be below 1, got {factor!r}",
                                "the rate is multiplied by it")
        self.factor = factor
        self.optimizer = check_optimizer(self, optimizer)
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = one_each(self, "min_lr", optimizer, min_lr)
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = rates_of(optimizer)
        self.mode = check_choice("ReduceLROnPlateau", "mode", mode, ("min", "max"))
        self.threshold_mode = check_choice(
            "ReduceLROnPlateau", "threshold_mode", threshold_mode, ("rel", "abs"))
        self.threshold, self.mode_worse = threshold, math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self) -> None:
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    @property
    def in_cooldown(self) -> bool:
        """True while epochs after a reduction do not count."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Ends an epoch with its metric, and reduces the rates if it is time.

        Args:
            metrics: metric of the epoch, a number or a 0-d tensor.
            epoch: number of the epoch; deprecated by PyTorch. Default None: the next one.
        """
        current = plain(metrics)
        current = current if isinstance(current, float) else float(current)
        if epoch is not None:
            warn_of_epoch()
        with Uninterrupted():
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            if _BETTER[self.mode, self.threshold_mode](current, self.best, self.threshold):
                self.best, self.num_bad_epochs = current, 0
            else:
                self.num_bad_epochs += 1
            if self.in_cooldown:
                self.cooldown_counter -= 1
                self.num_bad_epochs = 0
            if self.num_bad_epochs > self.patience:
                self._reduce_lr()
                self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            self._last_lr = rates_of(self.optimizer)

    def _reduce_lr(self) -> None:
        rates = rates_of(self.optimizer)
        if len(rates) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise StateError(f"ReduceLROnPlateau: min_lr is given for {len(self.min_lrs)} "
                                 f"groups, the optimizer now has {len(rates)}",
                                 "set scheduler.min_lrs to a list with one for each")
            self.min_lrs = [self.default_min_lr] * len(rates)
        for group, old, least in zip(self.optimizer.param_groups, rates, self.min_lrs, strict=True):
            new = max(old * self.factor, least)
            if old - new > self.eps:
                group.vary("lr", new)
