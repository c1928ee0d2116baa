"""What all schedulers share: rates of groups, steps, saving and loading."""

from __future__ import annotations

import contextlib
import math
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, StateError
from ...interpreter import Symbol
from ...uninterrupted import Uninterrupted
from ..base.optimizer import Optimizer

__all__ = ["LRScheduler"]


class LRScheduler:
    """Sets the learning rates of an optimizer, from `last_epoch`: how often `step` was called.

    A scheduler of your own defines `get_lr`: a rate for each group, made from `self.last_epoch`,
    `self.base_lrs` (the rates at the beginning) or what the groups hold. Rates are Python floats,
    which compiled steps take as they come, without a new recording.

    >>> import fusewire as fw
    >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
    >>> scheduler = fw.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    _get_lr_called_within_step = False
    _is_initial = False  # whether the step that the constructor makes is running
    _unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(self, optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", plain(group["lr"]))
            elif "initial_lr" not in group:
                raise StateError(
                    f"{type(self).__name__}: group {i} has no 'initial_lr' to go on from at "
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

    # ---- what a scheduler defines
    def get_lr(self) -> list[Any]:
        """The rate of each group at `last_epoch`; called by `step`."""
        raise NotImplementedError

    def _get_closed_form_lr(self) -> list[Any]:
        """The same from `base_lrs` alone, for a jump to an epoch; where there is no such form, as
        by a step."""
        return self.get_lr()

    # ---- what users call
    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next epoch, after the optimizer's steps of the one before.

        `epoch` jumps to one; PyTorch has deprecated this.
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
        """The rate of each group that the last step has set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """All that a scheduler holds but its optimizer; functions are left out, see LambdaLR."""
        return {k: v for k, v in self.__dict__.items() if k not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from where `state_dict` was saved; PyTorch's fit as well."""
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
        """The rates to go on from. A warning where it is not `step` that asks."""
        self._warn_if_asked()
        return rates_of(self.optimizer)

    def _warn_if_asked(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(f"{type(self).__name__}.get_lr() computes the next learning rate; "
                          "get_last_lr() gives the last one", UserWarning, stacklevel=4)


def warn_of_epoch() -> None:
    """The warning for step(epoch)."""
    warnings.warn("lr_scheduler.step(epoch) is deprecated: call step() without an epoch",
                  UserWarning, stacklevel=3)


def check_optimizer(scheduler: LRScheduler, optimizer: Any) -> Optimizer:
    """`optimizer`, or a DTypeError if it is none."""
    if not isinstance(optimizer, Optimizer):
        raise DTypeError(f"{type(scheduler).__name__}: {type(optimizer).__name__} is not an "
                         "Optimizer", "pass the optimizer first, then the settings")
    return optimizer


def rates_of(optimizer: Optimizer) -> list[float]:
    """The learning rate of each group, as a Python float."""
    return [plain(group["lr"]) for group in optimizer.param_groups]


def plain(value: Any) -> Any:
    """A tensor's number as Python's; a number as it is."""
    return value.item() if isinstance(value, Tensor) else value


def cos(x: Any) -> Any:
    """The cosine of a number; of one that a recording follows, such a number."""
    return x.__cos__() if isinstance(x, Symbol) else math.cos(x)


def one_each(owner: LRScheduler, name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group: those of a list, or one for all."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [plain(value)] * count
    if len(value) != count:
        raise ArgumentError(f"{type(owner).__name__}: {name} has {len(value)} values, the "
                            f"optimizer {count} groups of parameters",
                            "pass one value for each group, or a number for all")
    return [plain(v) for v in value]


def saved_function(function: Any) -> dict[str, Any] | None:
    """What a state dict holds of a callable: the attributes of an object, nothing of a function."""
    if isinstance(function, types.FunctionType) or not hasattr(function, "__dict__"):
        return None
    return dict(function.__dict__)
