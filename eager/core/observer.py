"""Defines an interpreter that observes all ops and passes them on unchanged."""

from __future__ import annotations

from typing import Any

from .. import interpreter
from .dispatch import apply
from .op import Op
from .tensor import Tensor


class ObserverInterpreter:
    """Passes every call to the previously active interpreter, or to eager, and reports each op."""

    def __init__(self) -> None:
        self.below: Any = None

    def __enter__(self) -> Any:
        self.below = interpreter.STATE.active
        interpreter.STATE.active = self
        return self

    def __exit__(self, *error: Any) -> None:
        interpreter.STATE.active = self.below

    def saw(self, op: Op, inputs: tuple[Any, ...], out: Tensor) -> None:
        """Called after each op with its inputs and its result."""
        raise NotImplementedError

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        interpreter.STATE.active = self.below
        try:
            out = apply(op, inputs, params)
        finally:
            interpreter.STATE.active = self
        self.saw(op, inputs, out)
        return out

    @property
    def can_read_values(self) -> bool:
        return self.below is None or self.below.can_read_values

    @property
    def keeps_layers(self) -> bool:
        return self.below is not None and self.below.keeps_layers

    def shape(self, tensor: Any) -> tuple[Any, ...]:
        return tensor._data.shape if self.below is None else self.below.shape(tensor)

    def note_constant(self, tensor: Any) -> None:
        if self.below is not None:
            self.below.note_constant(tensor)

    def changed(self, tensor: Any) -> None:
        if self.below is not None:
            self.below.changed(tensor)

    def reads_grad(self, tensor: Any) -> None:
        if self.below is not None:
            self.below.reads_grad(tensor)

    def sets_grad(self, tensor: Any) -> None:
        if self.below is not None:
            self.below.sets_grad(tensor)

    def reads_values(self, tensor: Any, how: str) -> Any:
        return None if self.below is None else self.below.reads_values(tensor, how)

    def item(self, tensor: Any, value: Any) -> Any:
        return value if self.below is None else self.below.item(tensor, value)

    def apply_data_dependent(self, op: Op, x: Any) -> Any:
        return None if self.below is None else self.below.apply_data_dependent(op, x)
