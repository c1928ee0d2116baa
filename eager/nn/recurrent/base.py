"""The base class of recurrent layers and cells."""

from __future__ import annotations

import math
from typing import Any

from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.create import zeros
from ...ops.layers.recurrent import KINDS, State
from ..base import init
from ..base.module import Module
from ..base.parameter import Parameter


class Recurrent(Module):
    """Base of layers and cells: the size checks and the form of the state."""

    mode: str  # of `KINDS`
    input_size: int
    hidden_size: int

    def reset_parameters(self) -> None:
        """Draws all parameters uniformly from +-1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def _create(self, shapes: dict[str, tuple[int, ...]], device: Any, dtype: Any) -> None:
        for name, shape in shapes.items():
            setattr(self, name, Parameter(zeros(shape, dtype=dtype, device=device)))

    def _check_width(self, shape: Any) -> None:
        if shape[-1] != self.input_size:
            raise ShapeError(f"{type(self).__name__}: input {shape} ends in {shape[-1]}, but "
                             f"input_size is {self.input_size}",
                             "the last axis of the input holds the features of one step")

    def _as_state(self, hx: Any) -> State | None:
        """`hx` as a tuple of one tensor, or of two for an LSTM; None stays None."""
        count = KINDS[self.mode].states
        if hx is None:
            return None
        state = (hx,) if isinstance(hx, Tensor) else tuple(hx)
        if len(state) != count:
            raise ShapeError(f"{type(self).__name__}: hx is {'(h, c)' if count == 2 else 'h'}, got "
                             f"{len(state)} tensors")
        return state

    def _as_hx(self, state: State) -> Any:
        return state if len(state) == 2 else state[0]
