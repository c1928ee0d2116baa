"""Defines schedules that cycle rates and momentum: Smith, arXiv 1506.01186 and 1708.07120."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...arguments import check_at_least, check_choice, check_fraction, check_number
from ...errors import ArgumentError
from ..base.optimizer import Optimizer, ParamGroup
from .base import LRScheduler, check_optimizer, cos, one_each, plain, saved_function

__all__ = ["CyclicLR", "OneCycleLR"]


class _Cycling(LRScheduler):
    """Cycles the rates and, with `cycle_momentum`, the momentum or the first of betas."""

    use_beta1: bool

    def _begin_momentum(self, optimizer: Optimizer, base: Any, largest: Any, first: bool
                        ) -> tuple[list[Any], list[Any]]:
        """The smallest and the largest momentum of each group; with `first` the groups get them."""
        if not {"momentum", "betas"} & optimizer.defaults.keys():
            raise ArgumentError(f"{type(self).__name__}: {type(optimizer).__name__} has no "
                                "momentum and no betas to cycle", "pass cycle_momentum=False")
        self.use_beta1 = "betas" in optimizer.defaults
        bases = one_each(self, "base_momentum", optimizer, base)
        tops = one_each(self, "max_momentum", optimizer, largest)
        if first:
            for group, base, largest in zip(optimizer.param_groups, bases, tops, strict=True):
                self._set_momentum(group, largest)
                group["max_momentum"], group["base_momentum"] = largest, base
        return bases, tops

    def _set_momentum(self, group: ParamGroup, value: float) -> None:
        if self.use_beta1:
            group.vary("betas", value, 0)
        else:
            group.vary("momentum", value)


# By mode: the height as a function of x and gamma, and the unit that x counts.
_SCALES: dict[str, tuple[Callable[[float, float], float], str]] = {
    "triangular": (lambda x, gamma: 1.0, "cycle"),
    "triangular2": (lambda x, gamma: 1 / 2.0 ** (x - 1), "cycle"),
    "exp_range": (lambda x, gamma: gamma ** x, "iterations"),
}


class CyclicLR(_Cycling):
    """Moves the rate up from `base_lr` to `max_lr` and down, again and again; call step per batch.

    Source: Smith, arXiv 1506.01186.

    Args:
        optimizer: its groups get the rates.
        base_lr: lowest rate, a number or one for each group.
        max_lr: highest rate of the first cycle, a number or one for each group.
        step_size_up: batches from base_lr to max_lr. Default 2000.
        step_size_down: batches from max_lr to base_lr. Default None: step_size_up.
        mode: height of the cycles. "triangular": equal; "triangular2": halved each time;
            "exp_range": times gamma ** iteration. Default "triangular".
        gamma: see mode. Default 1.0.
        scale_fn: height as a function of the cycle (from 1) or iteration, instead of mode. Default
            None.
        scale_mode: argument of scale_fn, "cycle" or "iterations". Default "cycle".
        cycle_momentum: moves the momentum, or the first beta, the opposite way. Default True.
        base_momentum: lowest momentum, a number or one for each group. Default 0.8.
        max_momentum: highest momentum, a number or one for each group. Default 0.9.
        last_epoch: see `LRScheduler`; counts batches here. Default -1.

    Raises:
        ArgumentError: an unknown mode, a list of another length than groups, or cycle_momentum with
            an optimizer that has neither momentum nor betas.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], momentum=0.9)
        >>> scheduler = fw.optim.lr_scheduler.CyclicLR(optimizer, 0.5, 1.0, step_size_up=2)
        >>> for _ in range(4): print(scheduler.get_last_lr()); optimizer.step(); scheduler.step()
        [0.5]
        [0.75]
        [1.0]
        [0.75]
    """

    _unsaved = ("optimizer", "_scale_fn_custom")

    def __init__(
        self, optimizer: Optimizer, base_lr: float | list[float], max_lr: float | list[float],
        step_size_up: int = 2000, step_size_down: int | None = None, mode: str = "triangular",
        gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8, max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        first = last_epoch == -1
        self.optimizer = check_optimizer(self, optimizer)
        base_lrs = one_each(self, "base_lr", optimizer, base_lr)
        if first:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                group.vary("lr", lr)
        self.max_lrs = one_each(self, "max_lr", optimizer, max_lr)
        self.total_size = float(step_size_up) + float(
            step_size_up if step_size_down is None else step_size_down)
        self.step_ratio = step_size_up / self.total_size
        check_choice("CyclicLR", "scale_mode", scale_mode, ("cycle", "iterations"))
        if scale_fn is None:
            scale_mode = _SCALES[check_choice("CyclicLR", "mode", mode, tuple(_SCALES))][1]
        self.mode, self.gamma, self.scale_mode = mode, gamma, scale_mode
        self._scale_fn_custom = scale_fn
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._begin_momentum(
                optimizer, base_momentum, max_momentum, first)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of cycle (or iteration) `x` as a share of the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return _SCALES[self.mode][0](x, self.gamma)

    def get_lr(self) -> list[Any]:
        self._warn_if_asked()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, least, most in zip(self.optimizer.param_groups, self.base_momentums,
                                          self.max_momentums, strict=True):
                self._set_momentum(group, most - (most - least) * share * scale)
        return [base + (most - base) * share * scale
                for base, most in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """The state; it holds the attributes of a `scale_fn` object, but no function."""
        custom = self._scale_fn_custom
        saved = None if custom is None else saved_function(custom)
        return {**super().state_dict(), "_scale_fn_custom": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues where `state_dict` was saved; `scale_fn` stays that of this scheduler."""
        saved = state_dict["_scale_fn_custom"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if saved is not None:
            vars(self._scale_fn_custom).update(saved)


class OneCycleLR(_Cycling):
    """Moves the rate up to `max_lr`, then down to almost 0; call step per batch.

    The rate starts at max_lr / div_factor and ends at max_lr / div_factor / final_div_factor.
    Source: Smith, arXiv 1708.07120.

    Args:
        optimizer: its groups get the rates.
        max_lr: highest rate, a number or one for each group.
        total_steps: number of batches. Default None: epochs * steps_per_epoch.
        epochs: number of epochs, if total_steps is None. Default None.
        steps_per_epoch: batches per epoch, if total_steps is None. Default None.
        pct_start: share of the steps that go up, in [0, 1]. Default 0.3.
        anneal_strategy: "cos" follows half a cosine, "linear" a line. Default "cos".
        cycle_momentum: moves the momentum, or the first beta, the opposite way. Default True.
        base_momentum: lowest momentum, a number or one for each group. Default 0.85.
        max_momentum: highest momentum, a number or one for each group. Default 0.95.
        div_factor: max_lr / first rate. Default 25.
        final_div_factor: first rate / last rate. Default 1e4.
        three_phase: goes down as fast as up, then to the last rate. Default False.
        last_epoch: see `LRScheduler`; counts batches here. Default -1.

    Raises:
        ArgumentError: an unknown number of steps, a step beyond the last, pct_start outside of
            [0, 1], an unknown anneal_strategy, or cycle_momentum with an optimizer that has neither
            momentum nor betas.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], momentum=0.9)
        >>> scheduler = fw.optim.lr_scheduler.OneCycleLR(
        ...     optimizer, max_lr=1.0, total_steps=5, pct_start=0.4, anneal_strategy="linear",
        ...     div_factor=2.0, final_div_factor=2.0)
        >>> for _ in range(5): print(scheduler.get_last_lr()); optimizer.step(); scheduler.step()
        [0.5]
        [1.0]
        [0.75]
        [0.5]
        [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85, max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        first = last_epoch == -1
        self.optimizer = check_optimizer(self, optimizer)
        self.total_steps = _steps(total_steps, epochs, steps_per_epoch)
        check_fraction("OneCycleLR", "pct_start", pct_start)
        self._schedule_phases = _phases(pct_start * self.total_steps, self.total_steps, three_phase)
        self._anneal_func_type = check_choice(
            "OneCycleLR", "anneal_strategy", anneal_strategy, tuple(_ANNEAL))
        for name, divisor in (("div_factor", div_factor), ("final_div_factor", final_div_factor)):
            if not check_number("OneCycleLR", name, divisor) > 0:
                raise ArgumentError(f"OneCycleLR: {name} must be above 0, got {divisor}")
        tops = one_each(self, "max_lr", optimizer, max_lr)
        if first:
            for group, most in zip(optimizer.param_groups, tops, strict=True):
                group["initial_lr"], group["max_lr"] = most / div_factor, most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(optimizer, base_momentum, max_momentum, first)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_if_asked()
        if self.last_epoch > self.total_steps:
            raise ArgumentError(f"OneCycleLR: step {self.last_epoch} of {self.total_steps} in all",
                                "step once per batch, and make total_steps epochs * len(loader)")
        start, phase = 0.0, self._schedule_phases[0]
        for phase in self._schedule_phases:
            if self.last_epoch <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (self.last_epoch - start) / (phase["end_step"] - start)
        anneal = _ANNEAL[self._anneal_func_type]

        def between(group: ParamGroup, what: str) -> float:
            return anneal(plain(group[phase[f"start_{what}"]]),
                          plain(group[phase[f"end_{what}"]]), share)

        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                self._set_momentum(group, between(group, "momentum"))
        return [between(group, "lr") for group in self.optimizer.param_groups]


_ANNEAL: dict[str, Callable[[float, float, float], float]] = {
    "cos": lambda start, end, share: end + (start - end) / 2.0 * (cos(math.pi * share) + 1),
    "linear": lambda start, end, share: (end - start) * share + start,
}


def _steps(total: Any, epochs: Any, each: Any) -> int:
    settings = {"total_steps": total} if total is not None else {
        "epochs": epochs, "steps_per_epoch": each}
    if None in settings.values():
        raise ArgumentError("OneCycleLR: the number of steps is not known",
                            "pass total_steps, or epochs and steps_per_epoch")
    for name, value in settings.items():
        if not isinstance(value, int):
            raise ArgumentError(f"OneCycleLR: {name} must be an int, got {value!r}")
        check_at_least("OneCycleLR", name, value, 1)
    return math.prod(settings.values())


def _phases(up: float, total: int, three: bool) -> list[dict[str, Any]]:
    """For each phase its last step and the names of its first and last values in a group."""
    low, high = ("initial_lr", "max_momentum"), ("max_lr", "base_momentum")
    last = ("min_lr", "max_momentum")
    ends = [(up - 1, low, high), (total - 1, high, last)]
    if three:
        ends = [(up - 1, low, high), (2 * up - 2, high, low), (total - 1, low, last)]
    return [{"end_step": step, "start_lr": a[0], "end_lr": b[0],
             "start_momentum": a[1], "end_momentum": b[1]} for step, a, b in ends]
