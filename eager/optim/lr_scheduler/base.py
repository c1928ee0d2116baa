"""Defines the base class of schedulers: rates of groups, steps, saving and loading."""

from __future__ import annotations

import contextlib
import math
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ...arguments import check_number
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, StateError
from ...interpreter import Symbol
from ...uninterrupted import Uninterrupted
from ..base.optimizer import Optimizer

__all__ = ["LRScheduler"]


class LRScheduler:
    """Sets the learning rates of an optimizer once per epoch; the base class of schedulers.

    A subclass defines `get_lr`. Rates are Python floats, which compiled steps read as inputs,
    without a new trace.

    Args:
        optimizer: its groups get the rates.
        last_epoch: number of the last finished epoch, from 0. Default -1: a new training.

    Raises:
        DTypeError: `optimizer` is not an Optimizer.
        StateError: last_epoch is not -1 and a group has no "initial_lr".

    Example:
        >>> import fusewire as fw
        >>> class Halving(fw.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [lr / 2 ** self.last_epoch for lr in self.base_lrs]
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
        >>> scheduler = Halving(optimizer)
        >>> optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    _get_lr_called_within_step = False
    _is_initial = False  # True during the step that the constructor makes
    _unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(self, optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", plain(group["lr"]))
            elif "initial_lr" not in group:
                raise StateError(
                    f"{type(self).__name__}: group {i} has no 'initial_lr' to continue from at "
                    f"last_epoch={last_epoch}", "load the optimizer's state dict first; a new "
                    "training has last_epoch=-1, the default")
        self.base_lrs = [plain(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count, self._is_initial = 0, True
        try:
            self.step()
        finally:
            self._is_initial = False

    # ---- defined by subclasses
    def get_lr(self) -> list[Any]:
        """The rate of each group at `last_epoch`; `step` calls it.

        It may use `self.last_epoch`, `self.base_lrs` (the first rates), and the present rates of
        the groups.
        """
        raise NotImplementedError

    def _get_closed_form_lr(self) -> list[Any]:
        """The rates of a jump to an epoch, from `base_lrs` alone if there is such a form."""
        return self.get_lr()

    # ---- called by users
    def step(self, epoch: int | None = None) -> None:
        """Sets the rates of the next epoch; call it after the optimizer's steps of an epoch.

        It warns (UserWarning) if the optimizer has made no step yet.

        Args:
            epoch: jumps to this epoch; deprecated by PyTorch. Default None: the next one.
        """
        if self._step_count == 1 and self.last_epoch >= 0 and not self.optimizer.calls.stepped:
            warnings.warn("lr_scheduler.step() is called before optimizer.step(): the first "
                          "learning rate of the schedule is skipped", UserWarning, stacklevel=2)
        if epoch is not None:
            warn_of_epoch()
        with Uninterrupted():
            self._step_count += 1
            self._update_lr(epoch)

    def get_last_lr(self) -> list[float]:
        """The rate of each group since the last step."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """The attributes of the scheduler, without its optimizer and functions (see LambdaLR)."""
        return {k: v for k, v in self.__dict__.items() if k not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues where `state_dict`, of PyTorch's scheduler too, was saved."""
        self.__dict__.update(state_dict)

    # ---- for schedulers
    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        with self._asking():
            rates = self.get_lr() if epoch is None else self._get_closed_form_lr()
        self._set_rates(rates)

    def _set_rates(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group.vary("lr", plain(rate))
        self._last_lr = rates_of(self.optimizer)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _rates(self) -> list[float]:
        """The present rates; warns if the caller is not `step`."""
        self._warn_if_asked()
        return rates_of(self.optimizer)

    def _warn_if_asked(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(f"{type(self).__name__}.get_lr() computes the next learning rate; "
                          "get_last_lr() gives the last one", UserWarning, stacklevel=4)


def warn_of_epoch() -> None:
    """Warns that step(epoch) is deprecated."""
    warnings.warn("lr_scheduler.step(epoch) is deprecated: call step() without an epoch",
                  UserWarning, stacklevel=3)


def check_optimizer(scheduler: LRScheduler, optimizer: Any) -> Optimizer:
    """`optimizer`; a DTypeError if it is not an Optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise DTypeError(f"{type(scheduler).__name__}: {type(optimizer).__name__} is not an "
                         "Optimizer", "pass the optimizer first, then the settings")
    return optimizer


def rates_of(optimizer: Optimizer) -> list[float]:
    """The learning rate of each group, as a Python float."""
    return [plain(group["lr"]) for group in optimizer.param_groups]


def plain(value: Any) -> Any:
    """The number in a tensor as a Python number; other values unchanged."""
    return value.item() if isinstance(value, Tensor) else value


def cos(x: Any) -> Any:
    """The cosine of a number, symbolic if the number is symbolic."""
    return x.__cos__() if isinstance(x, Symbol) else math.cos(x)


def one_each(owner: LRScheduler, name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A list with a value for each group, from a list or from one value for all."""
    count = len(optimizer.param_groups)
    for number in value if isinstance(value, (list, tuple)) else [value]:
        check_number(type(owner).__name__, name, number)
    if not isinstance(value, (list, tuple)):
        return [plain(value)] * count
    if len(value) != count:
        raise ArgumentError(f"{type(owner).__name__}: {name} has {len(value)} values, the "
                            f"optimizer {count} groups of parameters",
                            "pass one value for each group, or a number for all")
    return [plain(v) for v in value]


def saved_function(function: Any) -> dict[str, Any] | None:
    """The attributes of a callable object, for a state dict; None for a function."""
    if isinstance(function, types.FunctionType) or not hasattr(function, "__dict__"):
        return None
    return dict(function.__dict__)
