"""Defines schedules that follow a function of the epoch, mostly down.

Most compute a rate from the rate that the group holds, so schedulers of one optimizer compose.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...arguments import check_at_least, check_fraction, check_whole
from ...arrays.shapes import listed
from ...errors import ArgumentError, DTypeError
from ...uninterrupted import Uninterrupted
from ..base.optimizer import Optimizer
from .base import LRScheduler, cos, saved_function

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LambdaLR",
    "LinearLR", "MultiStepLR", "MultiplicativeLR", "PolynomialLR", "StepLR",
]


class _OfFunctions(LRScheduler):
    """Holds a function of the epoch for each group."""

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
        """The state; it holds the attributes of objects in `lr_lambdas`, but no functions."""
        return {**super().state_dict(), "lr_lambdas": [*map(saved_function, self.lr_lambdas)]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues where `state_dict` was saved; functions stay those of this scheduler."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_OfFunctions):
    """Sets the rate to base_lr * lr_lambda(epoch).

    Args:
        optimizer: its groups get the rates.
        lr_lambda: a function of the epoch (from 0), or a list with one for each group.
        last_epoch: see `LRScheduler`. Default -1.

    Raises:
        ArgumentError: a list of another length than groups.
        DTypeError: an entry that is not callable.

    Example:
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
    """Multiplies the rate by lr_lambda(epoch) in every epoch.

    Args:
        optimizer: its groups get the rates.
        lr_lambda: a function of the epoch (from 1), or a list with one for each group.
        last_epoch: see `LRScheduler`. Default -1.

    Raises:
        ArgumentError: a list of another length than groups.
        DTypeError: an entry that is not callable.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
        >>> scheduler = fw.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> for _ in range(2): optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

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
    """Multiplies the rate by `gamma` every `step_size` epochs.

    Args:
        optimizer: its groups get the rates.
        step_size: number of epochs, at least 1.
        gamma: factor. Default 0.1.
        last_epoch: see `LRScheduler`. Default -1.

    Raises:
        ArgumentError: step_size is below 1.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
        >>> scheduler = fw.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> for _ in range(3): optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

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
    """Multiplies the rate by `gamma` at each epoch of `milestones`.

    Args:
        optimizer: its groups get the rates.
        milestones: epochs; one that occurs n times counts n times.
        gamma: factor. Default 0.1.
        last_epoch: see `LRScheduler`. Default -1.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
        >>> scheduler = fw.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.5)
        >>> for _ in range(3): optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
                 last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(
            check_whole("MultiStepLR", "milestones", m)
            for m in listed("MultiStepLR", tuple(milestones) if isinstance(milestones, Iterable)
                            and not isinstance(milestones, str) else milestones)), gamma
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
    """Multiplies the rate by `factor` for the first `total_iters` epochs.

    Args:
        optimizer: its groups get the rates.
        factor: share of the rate, in [0, 1]. Default 1/3.
        total_iters: number of epochs. Default 5.
        last_epoch: see `LRScheduler`. Default -1.

    Raises:
        ArgumentError: factor is outside of [0, 1].

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
        >>> scheduler = fw.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=1)
        >>> for _ in range(2): print(scheduler.get_last_lr()); optimizer.step(); scheduler.step()
        [0.25]
        [0.5]
    """

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
    """Multiplies the rate by a factor that changes linearly in `total_iters` epochs.

    Args:
        optimizer: its groups get the rates.
        start_factor: factor at epoch 0, above 0 and at most 1. Default 1/3.
        end_factor: factor from epoch total_iters on, in [0, 1]. Default 1.0.
        total_iters: number of epochs. Default 5.
        last_epoch: see `LRScheduler`. Default -1.

    Raises:
        ArgumentError: a factor out of range.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=1.0)
        >>> scheduler = fw.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> for _ in range(3): print(scheduler.get_last_lr()); optimizer.step(); scheduler.step()
        [0.5]
        [0.75]
        [1.0]
    """

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
    """Multiplies the rate by `gamma` in every epoch.

    Args:
        optimizer: its groups get the rates.
        gamma: factor.
        last_epoch: see `LRScheduler`. Default -1.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
        >>> scheduler = fw.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> for _ in range(2): optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        return rates if self._is_initial else [lr * self.gamma for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Sets the rate to base_lr * (1 - epoch / total_iters) ** power, and to 0 from total_iters on.

    Args:
        optimizer: its groups get the rates.
        total_iters: number of epochs. Default 5.
        power: exponent. Default 1.0.
        last_epoch: see `LRScheduler`. Default -1.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=1.0)
        >>> scheduler = fw.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
        >>> for _ in range(2): optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

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
    """Moves the rate from base_lr to `eta_min` in `T_max` epochs along half a cosine, and back.

    Source: Loshchilov and Hutter, arXiv 1608.03983, without the restarts.

    Args:
        optimizer: its groups get the rates.
        T_max: epochs from base_lr to eta_min, at least 1.
        eta_min: lowest rate. Default 0.
        last_epoch: see `LRScheduler`. Default -1.

    Raises:
        ArgumentError: T_max is below 1.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=1.0)
        >>> scheduler = fw.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
        >>> for _ in range(2): optimizer.step(); scheduler.step()
        >>> round(scheduler.get_last_lr()[0], 6)
        0.5
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
    """Moves the rate from base_lr to `eta_min` along half a cosine, then restarts.

    The cycles last T_0, T_0 * T_mult, T_0 * T_mult ** 2, ... epochs.
    Source: Loshchilov and Hutter, arXiv 1608.03983.

    Args:
        optimizer: its groups get the rates.
        T_0: epochs of the first cycle, an int of at least 1.
        T_mult: factor of the length of the next cycle, an int of at least 1. Default 1.
        eta_min: lowest rate. Default 0.
        last_epoch: see `LRScheduler`. Default -1.

    Raises:
        ArgumentError: T_0 or T_mult is below 1 or not an int.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=1.0)
        >>> scheduler = fw.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> for _ in range(3): print(scheduler.get_last_lr()); optimizer.step(); scheduler.step()
        [1.0]
        [0.5]
        [1.0]
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
        """Sets the rates of the next epoch, or of `epoch`, which may be a fraction.

        Args:
            epoch: for example epoch + batch / batches, at least 0. Default None: the next epoch.

        Raises:
            ArgumentError: a negative epoch.
        """
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
        """Sets T_i, the length of the present cycle, and T_cur, the position of `epoch` in it."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            begun = self.T_0 * (self.T_mult ** n - 1) / (self.T_mult - 1)
            self.T_cur, self.T_i = epoch - begun, self.T_0 * self.T_mult ** n


def cosine(bases: list[Any], least: float, epoch: float, length: float) -> list[Any]:
    """The rates at `epoch` on half a cosine from each of `bases` at 0 to `least` at `length`."""
    height = 1 + cos(math.pi * epoch / length)
    return [least + (base - least) * height / 2 for base in bases]
