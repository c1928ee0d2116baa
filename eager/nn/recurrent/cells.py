"""Recurrent cells: layers that compute one step."""

from __future__ import annotations

from typing import Any

from ...arguments import check_at_least, check_choice
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.create import zeros
from ...ops.layers.recurrent import KINDS, Weights, of_inputs, stepper
from ...ops.shape.view import reshape
from ..base.parameter import Parameter
from .base import Recurrent

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Recurrent):
    """What RNNCell, LSTMCell and GRUCell share: weights for `num_chunks` gates."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int,
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        owner = type(self).__name__
        self.input_size = check_at_least(owner, "input_size", input_size, 1)
        self.hidden_size = check_at_least(owner, "hidden_size", hidden_size, 1)
        self.bias = bias
        rows = num_chunks * hidden_size
        self._create({"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}, device,
                   dtype)
        for name in ("bias_ih", "bias_hh"):
            parameter = Parameter(zeros(rows, dtype=dtype, device=device)) if bias else None
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def _next(self, input: Tensor, hx: Any) -> Any:
        state = self._as_state(hx)
        if input.ndim not in (1, 2):
            raise ShapeError(f"{type(self).__name__}: takes (batch, features) or (features,), got "
                             f"shape {input.shape}", "a cell computes one step")
        self._check_width(input.shape)
        shape = (*input.shape[:-1], self.hidden_size)
        if state is None:
            zero = zeros(shape, dtype=input.dtype, device=input.device)
            state = (zero,) * KINDS[self.mode].states
        for s in state:
            if s.shape != shape:
                raise ShapeError(f"{type(self).__name__}: for the input {input.shape} each tensor "
                                 f"of hx must be {shape}, got {s.shape}")
        kind, rows = KINDS[self.mode], (-1, self.hidden_size)
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        from_input = of_inputs(kind, reshape(input, (-1, self.input_size)), weights)
        next_state = stepper(kind, weights)(from_input, tuple(reshape(s, rows) for s in state))
        return self._as_hx(tuple(reshape(s, shape) for s in next_state))

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """One step of RNN: input (batch, input_size) and hx to h, both (batch, hidden_size)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:
        check_choice("RNNCell", "nonlinearity", nonlinearity, ("tanh", "relu"))
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    @property
    def mode(self) -> str:  # type: ignore[override]
        return f"RNN_{self.nonlinearity.upper()}"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(input, hx)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return super().extra_repr() + (
            "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """One step of LSTM: input (batch, input_size) and hx = (h, c) to (h, c)."""

    mode = "LSTM"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        return self._next(input, hx)  # type: ignore[no-any-return]


class GRUCell(RNNCellBase):
    """One step of GRU: input (batch, input_size) and hx to h, both (batch, hidden_size)."""

    mode = "GRU"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(input, hx)  # type: ignore[no-any-return]
