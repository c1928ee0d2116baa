"""Scales losses so that small gradients survive float16, and gradients back."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from typing import Any

from .. import interpreter
from ..arguments import check_at_least, check_number, check_whole
from ..arrays.dtypes import float16, float32, int32
from ..core.in_place import replace
from ..core.tape import no_grad
from ..core.tensor import Tensor, value_of
from ..errors import ArgumentError, DTypeError, GradientError, StateError
from ..ops.create import full
from ..ops.elementwise.pointwise import (
    cast,
    equal,
    isfinite,
    logical_and,
    logical_not,
    logical_or,
    where,
)
from ..ops.reduction.reduce import all
from ..tensor_methods.methods import update
from ..uninterrupted import Uninterrupted

__all__ = ["GradScaler"]

_UNSCALED, _STEPPED = "unscaled", "stepped"


class GradScaler:
    """Multiplies losses by a scale, divides gradients by it, and skips steps with inf or nan.

    A skipped step multiplies the scale by `backoff_factor`; `growth_interval` good steps in a row
    multiply it by `growth_factor`. All state is in tensors, so a compiled step decides nothing in
    Python.

    Args:
        device: "cpu"; any other device, the default "cuda" too, switches the scaler off with a
            UserWarning.
        init_scale: first scale. Default 2 ** 16.
        growth_factor: above 1. Default 2.
        backoff_factor: below 1. Default 0.5.
        growth_interval: number of steps. Default 2000.
        enabled: False makes all methods pass through. Default True.

    Raises:
        ArgumentError: a factor out of range.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.ones(2))
        >>> optimizer, scaler = fw.optim.SGD([p], lr=0.5), fw.amp.GradScaler("cpu")
        >>> with fw.autocast("cpu", dtype=fw.float16):
        ...     loss = fw.nn.functional.mse_loss(p, fw.zeros(2))
        >>> scaler.scale(loss).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> p.tolist(), scaler.get_scale()
        ([0.5, 0.5], 65536.0)
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0 ** 16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if enabled and device != "cpu":
            warnings.warn(f'GradScaler is switched off: device "{device}" is not available, use '
                          '"cpu"', UserWarning, stacklevel=2)
            self._enabled = False
        check_at_least("GradScaler", "init_scale", init_scale, 0)
        check_whole("GradScaler", "growth_interval", growth_interval, 1)
        if not check_number("GradScaler", "growth_factor", growth_factor) > 1:
            raise ArgumentError(f"GradScaler: growth_factor must be above 1, got {growth_factor!r}")
        if not check_number("GradScaler", "backoff_factor", backoff_factor) < 1:
            raise ArgumentError(f"GradScaler: backoff_factor must be below 1, got "
                                f"{backoff_factor!r}")
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale = full((), init_scale, float32)
        self._growth_tracker = full((), 0, int32)  # good steps since the last change of the scale
        self._stages: dict[int, str] = {}  # by optimizer: its stage since the last update
        self._nonfinite: dict[int, Tensor] = {}  # by optimizer: True if gradients have inf or nan

    # ---- a step
    def scale(self, outputs: Any) -> Any:
        """`outputs`, a tensor or a nested iterable of tensors, times the scale.

        Raises:
            DTypeError: another type.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            # The scale itself may overflow in float16.
            return cast(cast(outputs, float32) * self._scale, outputs.dtype) \
                if outputs.dtype == float16 and outputs.ndim else outputs * self._scale
        if not isinstance(outputs, Iterable):
            raise DTypeError(f"GradScaler.scale: takes tensors, not {type(outputs).__name__}",
                             "pass the loss as a tensor")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    @no_grad
    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer by the scale, for example to clip them; else `step`
        does.

        Raises:
            GradientError: called twice, after `step`, or without gradients.
            ArgumentError: a gradient in float16.
        """
        if not self._enabled:
            return
        stage = self._stages.get(id(optimizer))
        if stage is not None:
            raise GradientError(f"GradScaler.unscale_: the gradients are {stage} already",
                                "call it once, before step, and update() after all steps")
        inverse, finite = 1.0 / self._scale, []
        with Uninterrupted():
            for p in (p for group in optimizer.param_groups for p in group["params"]):
                if p.grad is None:
                    continue
                if p.grad.dtype == float16:
                    raise ArgumentError("GradScaler.unscale_: a gradient is float16, in which it "
                                        "would underflow without the scale", "keep the parameters "
                                        "in float32 and compute under fw.autocast")
                replace(p.grad, p.grad * cast(inverse, p.grad.dtype))
                finite.append(all(isfinite(p.grad)))
            if not finite:
                raise GradientError("GradScaler.unscale_: no parameter of the optimizer has a "
                                    "gradient", "call scaler.scale(loss).backward() first")
            self._nonfinite[id(optimizer)] = logical_not(functools.reduce(logical_and, finite))
            self._stages[id(optimizer)] = _UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The result of optimizer.step(*args, **kwargs); None, without a step, if a gradient has
        inf or nan.

        Raises:
            GradientError: a closure, or a second step before `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise GradientError("GradScaler.step: takes no closure", "compute the gradients before")
        if self._stages.get(id(optimizer)) == _STEPPED:
            raise GradientError("GradScaler.step: this optimizer has stepped already",
                                "call update() after the steps of all optimizers")
        if id(optimizer) not in self._stages:
            self.unscale_(optimizer)
        with Uninterrupted():
            nonfinite, self._stages[id(optimizer)] = self._nonfinite[id(optimizer)], _STEPPED
            if interpreter.STATE.active is not None:
                return _step_unless(nonfinite, optimizer, args, kwargs)
            return None if nonfinite.item() else optimizer.step(*args, **kwargs)

    @no_grad
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Updates the scale after the steps of all optimizers, or sets it to `new_scale`.

        Raises:
            GradientError: no step since the last update.
        """
        if not self._enabled:
            return
        with Uninterrupted():
            if new_scale is not None:
                update(self._scale, new_scale)
            else:
                self._follow()
            self._stages.clear()
            self._nonfinite.clear()

    def _follow(self) -> None:
        """Updates the scale by the steps since the last update."""
        if not self._nonfinite:
            raise GradientError("GradScaler.update: no gradients were checked since the last one",
                                "call scaler.step(optimizer) first")
        nonfinite = functools.reduce(logical_or, self._nonfinite.values())
        good_steps = where(nonfinite, 0, self._growth_tracker + 1)
        is_time = equal(good_steps, self._growth_interval)
        larger = self._scale * self._growth_factor
        grown = where(logical_and(is_time, isfinite(larger)), larger, self._scale)
        update(self._scale, where(nonfinite, self._scale * self._backoff_factor, grown))
        update(self._growth_tracker, where(is_time, 0, good_steps))

    # ---- settings
    def get_scale(self) -> float:
        """The scale as a number; 1 if the scaler is off."""
        return self._scale.item() if self._enabled else 1.0  # type: ignore[no-any-return]

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of good steps in a row after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets the number of good steps in a row after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """True if the scaler is on."""
        return self._enabled

    # ---- saving and loading
    def state_dict(self) -> dict[str, Any]:
        """The scale and its settings as numbers; empty if the scaler is off."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor,
                "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
                "_growth_tracker": self._growth_tracker.item()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a saved state; does nothing if this scaler is off.

        Raises:
            StateError: the state is of a scaler that was off.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise StateError("GradScaler.load_state_dict: the state is empty",
                             "it was saved by a scaler that was switched off")
        with Uninterrupted():
            update(self._scale, state_dict["scale"])
            update(self._growth_tracker, state_dict["_growth_tracker"])
            self._growth_factor = state_dict["growth_factor"]
            self._backoff_factor = state_dict["backoff_factor"]
            self._growth_interval = state_dict["growth_interval"]


def _step_unless(nonfinite: Tensor, optimizer: Any, args: Any, kwargs: Any) -> Any:
    """The result of a step that is undone if `nonfinite` holds, without a decision in Python."""
    tensors = [p for group in optimizer.param_groups for p in group["params"]]
    tensors += [t for state in optimizer.state.values() for t in state.values()
                if isinstance(t, Tensor)]
    before = [value_of(t) for t in tensors]
    result = optimizer.step(*args, **kwargs)
    with no_grad():
        for t, old in zip(tensors, before, strict=True):
            if t._data is not old._data:
                replace(t, where(nonfinite, old, value_of(t)))
    return result
