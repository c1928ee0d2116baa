"""Combines schedulers: in sequence, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ...arguments import check_whole
from ...arrays.shapes import listed
from ...errors import ArgumentError, DTypeError
from ...uninterrupted import Uninterrupted
from ..base.optimizer import Optimizer
from .base import LRScheduler, rates_of
from .plateau import ReduceLROnPlateau

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Several(LRScheduler):
    """Saves and loads several schedulers of one optimizer."""

    _unsaved = ("optimizer", "_schedulers")
    _schedulers: Sequence[Any]

    def _take(self, schedulers: Sequence[Any], optimizer: Optimizer | None) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ArgumentError(f"{name}: got no schedulers", "pass a list of at least one")
        for i, one in enumerate(schedulers):
            if not hasattr(one, "optimizer"):
                raise DTypeError(f"{name}: schedulers[{i}] is no scheduler but "
                                 f"{type(one).__name__}", "the list of schedulers holds schedulers")
            if isinstance(one, ReduceLROnPlateau):
                raise ArgumentError(f"{name}: schedulers[{i}] is ReduceLROnPlateau, whose step "
                                    "takes a metric", "step it by itself, beside the others")
            if one.optimizer is not (optimizer or schedulers[0].optimizer):
                raise ArgumentError(f"{name}: schedulers[{i}], {type(one).__name__}, belongs to "
                                    "another optimizer", "make all of them for the same one")
        self._schedulers, self.optimizer = schedulers, optimizer or schedulers[0].optimizer

    def state_dict(self) -> dict[str, Any]:
        """The state, with that of every scheduler under "_schedulers"."""
        inner = [scheduler.state_dict() for scheduler in self._schedulers]
        return {**super().state_dict(), "_schedulers": inner}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues where `state_dict` was saved."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_Several):
    """Runs schedulers in sequence: scheduler i + 1 starts at epoch milestones[i].

    Args:
        optimizer: the optimizer of all schedulers.
        schedulers: one or more; ReduceLROnPlateau is not supported.
        milestones: epochs, one fewer than schedulers.
        last_epoch: see `LRScheduler`. Default -1.

    Raises:
        ArgumentError: no schedulers, a ReduceLROnPlateau, a scheduler of another optimizer, or a
            wrong number of milestones.
        DTypeError: an element that is not a scheduler.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
        >>> warmup = fw.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> decay = fw.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> scheduler = fw.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], [2])
        >>> for _ in range(4): print(scheduler.get_last_lr()); optimizer.step(); scheduler.step()
        [0.25]
        [0.25]
        [0.5]
        [0.25]
    """

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int],
                 last_epoch: int = -1) -> None:
        self._take(schedulers, optimizer)
        milestones = [check_whole("SequentialLR", "milestones", m)
                      for m in listed("SequentialLR", milestones)]
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError(f"SequentialLR: {len(schedulers)} schedulers with "
                                f"{len(milestones)} milestones", "there is one milestone between "
                                "each two schedulers")
        self._milestones, self.last_epoch = milestones, last_epoch + 1
        for group in optimizer.param_groups:
            group.vary("lr", group["initial_lr"])
        self.recursive_undo()
        first = self._schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Takes back the step that the constructor of each scheduler made."""
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for inner in sched._schedulers:
                self.recursive_undo(inner)
        else:
            sched.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Sets the rates of the next epoch, by the scheduler of that epoch."""
        with Uninterrupted():
            self.last_epoch += 1
            i = bisect_right(self._milestones, self.last_epoch)
            scheduler = self._schedulers[i]
            if i > 0 and self._milestones[i - 1] == self.last_epoch:
                scheduler._update_lr(0)
            else:
                scheduler.step()
            self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Several):
    """Applies several schedulers at once: each continues from the rate that the one before has set.

    Args:
        schedulers: one or more of the same optimizer; not ReduceLROnPlateau.
        optimizer: their optimizer. Default None: that of the first.

    Raises:
        ArgumentError: no schedulers, a scheduler of another optimizer, or a ReduceLROnPlateau.
        DTypeError: an element that is not a scheduler.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=1.0)
        >>> scheduler = fw.optim.lr_scheduler.ChainedScheduler([
        ...     fw.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5),
        ...     fw.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)])
        >>> for _ in range(2): optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
                 ) -> None:
        self._take(schedulers, optimizer)
        self._last_lr = rates_of(self.optimizer)

    def step(self) -> None:  # type: ignore[override]
        """Sets the rates of the next epoch, by every scheduler."""
        with Uninterrupted():
            for scheduler in self._schedulers:
                scheduler.step()
            self._last_lr = rates_of(self.optimizer)
