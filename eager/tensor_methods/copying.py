"""Copies of tensors, and tensors as pickles.

A pickle names the class of a tensor and holds an array, nothing else of fusewire. NumPy hands over
the array's memory itself where pickling has a place for it (`buffer_callback`, protocol 5).
"""

from __future__ import annotations

import copy
import copyreg
from typing import Any

from ..arrays import devices
from ..core.tensor import Tensor
from ..errors import GradientError


def shallow(self: Tensor) -> Tensor:
    """The same values in a tensor of its own, at the same place of the tape."""
    made = _like(self)
    vars_of(made).update(vars_of(self))
    return made.requires_grad_() if self.is_leaf and self.requires_grad else _on_tape(made, self)


def deep(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A leaf with the same values, its gradient and attributes copied too."""
    if not self.is_leaf:
        raise GradientError("only leaves can be deep-copied, this tensor was computed",
                            "use x.detach(), or copy.copy(x), which stays on the tape")
    made = memo[id(self)] = _like(self)
    made.requires_grad_(self.requires_grad)
    made._grad = copy.deepcopy(self._grad, memo)
    vars_of(made).update(copy.deepcopy(vars_of(self), memo))
    return made


def _like(x: Tensor) -> Tensor:
    made = type(x).__new__(type(x))
    Tensor.__init__(made, x._data)  # not copied: arrays never change
    return made


def _on_tape(made: Tensor, x: Tensor) -> Tensor:
    made.edge = x.edge
    return made


def vars_of(x: Tensor) -> dict[str, Any]:
    """The attributes that a subclass has given a tensor."""
    return getattr(x, "__dict__", {})


def reduced(self: Tensor, protocol: Any) -> Any:
    """For pickle: the class, and (array, requires_grad, attributes); and the GPU, for one there."""
    rest: Any = (self.requires_grad, vars_of(self))
    state = (devices.host(self._data), *rest, self.device) if self.is_cuda else \
        (self.numpy(), *rest)
    return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]


def restored(self: Tensor, state: tuple[Any, ...]) -> None:
    """Fills the new tensor of a pickle."""
    array, requires_grad, attributes, *device = state
    Tensor.__init__(self, devices.moved(array, devices.name_of(*device)) if device else array)
    self.requires_grad_(requires_grad)
    vars_of(self).update(attributes)
