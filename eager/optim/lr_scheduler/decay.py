"""Schedules that go down, up, or along a function, each epoch from the one before.

Where the recursive forms go on from what a group holds, schedulers of one optimizer compose.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...arguments import check_at_least, check_fraction
from ...errors import ArgumentError, DTypeError
from ...uninterrupted import Uninterrupted
from ..base.optimizer import Optimizer
from .base import LRScheduler, cos, saved_function

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LambdaLR",
    "LinearLR", "MultiStepLR", "MultiplicativeLR", "PolynomialLR", "StepLR",
]


class _OfFunctions(LRScheduler):
    """A function of the epoch for each group, or one for all."""

    _unsaved = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        name, count = type(self).__name__, len(optimizer.param_groups)
        several = isinstance(lr_lambda, (list, tuple))
        self.lr_lambdas = list(lr_lambda) if several else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ArgumentError(f"{name}: lr_lambda has {len(self.lr_lambdas)} functions, the "
                                f"optimizer {count} groups of parameters")
        for function in self.lr_lambdas:
            if not callable(function):
                raise DTypeError(f"{name}: lr_lambda is a function of the epoch, not "
                                 f"{type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """The state; of `lr_lambdas` the attributes of those that are objects, not functions."""
        return {**super().state_dict(), "lr_lambdas": [*map(saved_function, self.lr_lambdas)]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from where `state_dict` was saved; functions stay those given here."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_OfFunctions):
    """base_lr * lr_lambda(epoch); a list holds a function for each group.

    >>> import fusewire as fw
    >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
    >>> scheduler = fw.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> for _ in range(3): optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.125]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list[Any],
                 last_epoch: int = -1) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_if_asked()
        return [base * function(self.last_epoch)
                for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_OfFunctions):
    """The last rate times lr_lambda(epoch); a list holds a function for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list[Any],
                 last_epoch: int = -1) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self._is_initial:
            return rates
        return [lr * function(self.last_epoch)
                for function, lr in zip(self.lr_lambdas, rates, strict=True)]


class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1,
                 last_epoch: int = -1) -> None:
        self.step_size, self.gamma = check_at_least("StepLR", "step_size", step_size, 1), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return rates
        return [lr * self.gamma for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        power = self.last_epoch // self.step_size
        return [base * self.gamma ** power for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of the epochs `milestones`."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
                 last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        for milestone, times in self.milestones.items():
            if self.last_epoch == milestone:
                return [lr * self.gamma ** times for lr in rates]
        return rates

    def _get_closed_form_lr(self) -> list[Any]:
        power = bisect_right(sorted(Counter(self.milestones).elements()), self.last_epoch)
        return [base * self.gamma ** power for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times `factor` for the first `total_iters` epochs."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5,
                 last_epoch: int = -1) -> None:
        self.factor = check_fraction("ConstantLR", "factor", factor)
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self.last_epoch == 0:
            return [lr * self.factor for lr in rates]
        if self.last_epoch != self.total_iters:
            return rates
        return [lr * (1.0 / self.factor) for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        ended = self.last_epoch >= self.total_iters
        return [base * (self.factor + ended * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes evenly from one to another in `total_iters` epochs."""

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
                 total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 < start_factor <= 1:
            raise ArgumentError(f"LinearLR: start_factor must be above 0 and at most 1, got "
                                f"{start_factor!r}", "the factors are shares of the optimizer's lr")
        self.start_factor = start_factor
        self.end_factor = check_fraction("LinearLR", "end_factor", end_factor)
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in rates]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [lr * (1.0 + rise / before) for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        rise = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch)
        factor = self.start_factor + rise * done / self.total_iters
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        return rates if self._is_initial else [lr * self.gamma for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """base_lr * (1 - epoch / total_iters) ** power, and 0 from `total_iters` on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0,
                 last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        left, before = (1.0 - n / self.total_iters for n in (self.last_epoch, self.last_epoch - 1))
        factor = (left / before) ** self.power
        return [lr * factor for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """From base_lr down to `eta_min` in `T_max` epochs, along half a cosine, and up again.

    Loshchilov and Hutter, arXiv 1608.03983, without the restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = check_at_least("CosineAnnealingLR", "T_max", T_max, 1), eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates, epoch = self._rates(), self.last_epoch
        if self._is_initial:
            return rates
        if self._step_count == 1 and epoch > 0:  # the first step after a jump
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the ratio below would be x / 0
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [lr + (base - self.eta_min) * rise for lr, base in zip(rates, self.base_lrs)]
        ratio = self._height(epoch) / self._height(epoch - 1)
        return [ratio * (lr - self.eta_min) + self.eta_min for lr in rates]

    def _height(self, epoch: int) -> float:
        return 1 + cos(math.pi * epoch / self.T_max)

    def _get_closed_form_lr(self) -> list[Any]:
        return cosine(self.base_lrs, self.eta_min, self.last_epoch, self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """From base_lr down to `eta_min` along half a cosine, over and over, in T_0, T_0 * T_mult, ...
    epochs: Loshchilov and Hutter, arXiv 1608.03983.

    step(epoch) takes fractions of an epoch as well: epoch + i / iterations.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        name = "CosineAnnealingWarmRestarts"
        for what, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int):
                raise ArgumentError(f"{name}: {what} must be an int, got {value!r}")
            check_at_least(name, what, value, 1)
        self.T_0, self.T_i, self.T_mult = T_0, T_0, T_mult
        self.eta_min: float = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_if_asked()
        return cosine(self.base_lrs, self.eta_min, self.T_cur, self.T_i)

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Goes on to the next epoch, or to any place in the schedule."""
        with Uninterrupted():
            if epoch is None and self.last_epoch >= 0:
                epoch, self.T_cur = self.last_epoch + 1, self.T_cur + 1
                if self.T_cur >= self.T_i:
                    self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
            else:
                epoch = check_at_least(type(self).__name__, "epoch", epoch or 0, 0)
                self._set_cycle(epoch)
            self.last_epoch = math.floor(epoch)
            with self._asking():
                self._set_rates(self.get_lr())

    def _set_cycle(self, epoch: float) -> None:
        """Sets the present cycle's length T_i, and T_cur: how far in it `epoch` is."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            begun = self.T_0 * (self.T_mult ** n - 1) / (self.T_mult - 1)
            self.T_cur, self.T_i = epoch - begun, self.T_0 * self.T_mult ** n


def cosine(bases: list[Any], least: float, epoch: float, length: float) -> list[Any]:
    """From each of `bases` at place 0 down to `least` at `length`, along half a cosine."""
    height = 1 + cos(math.pi * epoch / length)
    return [least + (base - least) * height / 2 for base in bases]
