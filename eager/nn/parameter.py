"""Parameter: a tensor that a module counts as its own and that optimizers change."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor, tensor

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A leaf with the values of `data` that requires a gradient; modules register it."""

    __slots__ = ()
    __module__ = "fusewire.nn"  # pickles name the class by its public place

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        given = data if isinstance(data, Tensor) else tensor(data)
        super().__init__(given.data)
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
