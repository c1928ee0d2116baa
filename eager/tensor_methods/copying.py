"""Copies and pickles tensors.

A pickle names the class of a tensor and holds a NumPy array. With protocol 5 and `buffer_callback`
NumPy hands over the memory of the array without a copy.
"""

from __future__ import annotations

import copy
import copyreg
from typing import Any

from ..arrays import devices
from ..core.tensor import Tensor
from ..errors import GradientError


def shallow(self: Tensor) -> Tensor:
    """A new tensor with the values, attributes and tape entry of this one."""
    copied = _like(self)
    vars_of(copied).update(vars_of(self))
    if self.is_leaf and self.requires_grad:
        return copied.requires_grad_()
    return _on_tape(copied, self)


def deep(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A new leaf with the values of this one and copies of its gradient and attributes.

    GradientError for a tensor that was computed from others.
    """
    if not self.is_leaf:
        raise GradientError("only leaves can be deep-copied, this tensor was computed",
                            "use x.detach(), or copy.copy(x), which stays on the tape")
    copied = memo[id(self)] = _like(self)
    copied.requires_grad_(self.requires_grad)
    copied._grad = copy.deepcopy(self._grad, memo)
    vars_of(copied).update(copy.deepcopy(vars_of(self), memo))
    return copied


def _like(x: Tensor) -> Tensor:
    copied = type(x).__new__(type(x))
    Tensor.__init__(copied, x._data)  # not copied: arrays never change
    return copied


def _on_tape(copied: Tensor, x: Tensor) -> Tensor:
    copied.edge = x.edge
    return copied


def vars_of(x: Tensor) -> dict[str, Any]:
    """The attributes of a tensor of a subclass; none of a plain tensor."""
    return getattr(x, "__dict__", {})


def reduced(self: Tensor, protocol: Any) -> Any:
    """The class and the state for pickle: (array, requires_grad, attributes[, device])."""
    flags: Any = (self.requires_grad, vars_of(self))
    state = (self.numpy(), *flags) if not devices.is_elsewhere(self._data) else \
        (devices.host(self._data), *flags, self.device)
    return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]


def reduced_for_copies(self: Tensor) -> Any:
    """What `__reduce_ex__` returns, for code that looks for `__reduce__`."""
    return reduced(self, 2)


def restored(self: Tensor, state: tuple[Any, ...]) -> None:
    """Sets this new tensor to the state that `reduced` returned."""
    array, requires_grad, attributes, *device = state
    Tensor.__init__(self, devices.moved(array, devices.name_of(*device)) if device else array)
    self.requires_grad_(requires_grad)
    vars_of(self).update(attributes)
