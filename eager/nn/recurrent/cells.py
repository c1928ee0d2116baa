"""Recurrent cells: layers that compute one step."""

from __future__ import annotations

from typing import Any

from ...arguments import check_choice, check_whole
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.create import zeros
from ...ops.layers.recurrent import KINDS, RecurrentWeights, of_inputs, stepper
from ...ops.shape.view import reshape
from ..base.parameter import Parameter
from .base import Recurrent

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Recurrent):
    """Base of RNNCell, LSTMCell and GRUCell, with weights for `num_chunks` gates.

    A subclass defines `mode` and forward. weight_ih is (num_chunks * hidden_size, input_size),
    weight_hh (num_chunks * hidden_size, hidden_size).

    Args:
        input_size: features of the input.
        hidden_size: features of the state h.
        bias: adds learned biases.
        num_chunks: the number of gates.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: a size is below 1.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.RNNCellBase(3, 5, bias=True, num_chunks=4).weight_ih.shape
        (20, 3)
    """

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int,
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        owner = type(self).__name__
        self.input_size = check_whole(owner, "input_size", input_size, 1)
        self.hidden_size = check_whole(owner, "hidden_size", hidden_size, 1)
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
        weights = RecurrentWeights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        from_input = of_inputs(kind, reshape(input, (-1, self.input_size)), weights)
        next_state = stepper(kind, weights)(from_input, tuple(reshape(s, rows) for s in state))
        return self._as_hx(tuple(reshape(s, shape) for s in next_state))

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """The next h of an RNN: input (batch, input_size), hx = h -> (batch, hidden_size).

    input and h are (batch, input_size) and (batch, hidden_size), or both lack batch. hx is 0 by
    default.

    Args:
        input_size: features of the input.
        hidden_size: features of the state h.
        bias: adds learned biases. Default True.
        nonlinearity: "tanh" or "relu". Default "tanh".
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: a size is below 1, or an unknown nonlinearity.
        ShapeError: input or hx have other shapes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.RNNCell(3, 5)(fw.zeros(4, 3), fw.zeros(4, 5)).shape
        (4, 5)
    """

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
    """The next (h, c) of an LSTM: input (batch, input_size), hx = (h, c) -> (h, c).

    h and c are (batch, hidden_size), or both and the input lack batch. hx is 0 by default.

    Args:
        input_size: features of the input.
        hidden_size: features of the state h.
        bias: adds learned biases. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: a size is below 1.
        ShapeError: input or hx have other shapes.

    Example:
        >>> import fusewire as fw
        >>> h, c = fw.nn.LSTMCell(3, 5)(fw.zeros(4, 3))
        >>> h.shape, c.shape
        ((4, 5), (4, 5))
    """

    mode = "LSTM"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        return self._next(input, hx)  # type: ignore[no-any-return]


class GRUCell(RNNCellBase):
    """The next h of a GRU: input (batch, input_size), hx = h -> (batch, hidden_size).

    input and h are (batch, input_size) and (batch, hidden_size), or both lack batch. hx is 0 by
    default.

    Args:
        input_size: features of the input.
        hidden_size: features of the state h.
        bias: adds learned biases. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: a size is below 1.
        ShapeError: input or hx have other shapes.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.GRUCell(3, 5)(fw.zeros(4, 3), fw.zeros(4, 5)).shape
        (4, 5)
    """

    mode = "GRU"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(input, hx)  # type: ignore[no-any-return]
