"""Recurrent layers over sequences."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...arguments import check_choice, check_fraction, check_whole
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.create import zeros
from ...ops.layers.recurrent import KINDS, RecurrentWeights, State
from ...ops.shape.join import concat, stack
from ...ops.shape.take import take
from ...ops.shape.view import expand_dims, permute_dims, reshape, squeeze, transpose
from .. import functional as F
from ..base.parameter import Parameter
from ..functional.recurrence import run, stays_whole, whole
from .base import Recurrent
from .packed_sequence import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]


class RNNBase(Recurrent):
    """Base of RNN, LSTM and GRU, which may also be built by its name in `mode`.

    See RNN, LSTM and GRU for shapes.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size: features of a step.
        hidden_size: features of the state h.
        num_layers: the number of layers, each of which reads the output of the one before. Default
            1.
        bias: adds learned biases. Default True.
        batch_first: input and output are (batch, steps, ...). Default False.
        dropout: probability of dropout in training, between layers. Default 0.0.
        bidirectional: adds layers that read from the last step to the first. Default False.
        proj_size: size of h after a learned projection; 0 for none. Default 0.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: an unknown mode, a size below 1, dropout not in [0, 1], or proj_size not
            below hidden_size or with another mode than "LSTM".

    Example:
        >>> import fusewire as fw
        >>> output, h = fw.nn.RNNBase("GRU", 3, 5)(fw.zeros(7, 4, 3))
        >>> output.shape, h.shape
        ((7, 4, 5), (1, 4, 5))
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.mode = check_choice(owner, "mode", mode, tuple(KINDS))
        self.input_size = check_whole(owner, "input_size", input_size, 1)
        self.hidden_size = check_whole(owner, "hidden_size", hidden_size, 1)
        self.num_layers = check_whole(owner, "num_layers", num_layers, 1)
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout = float(check_fraction(owner, "dropout", dropout))
        self.proj_size = check_whole(owner, "proj_size", proj_size, 0)
        if proj_size and (proj_size >= hidden_size or mode != "LSTM"):
            raise ArgumentError(f"{owner}: proj_size {proj_size} must be below hidden_size "
                                f"{hidden_size}, and is for LSTM only")
        if dropout and num_layers == 1:
            warnings.warn(f"{owner}: dropout={dropout} acts between layers, but num_layers is 1",
                          stacklevel=3)
        for layer, suffix in enumerate(self._suffixes()):
            below = layer // self._directions
            self._create(self._shapes(suffix, self._width * self._directions if below else
                                      input_size), device, dtype)
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _width(self) -> int:
        """The number of features of h."""
        return self.proj_size or self.hidden_size

    def _suffixes(self) -> list[str]:
        """The suffix of parameter names, for each layer and direction."""
        return [f"_l{layer}{direction}" for layer in range(self.num_layers)
                for direction in ("", "_reverse")[:self._directions]]

    def _shapes(self, suffix: str, features: int) -> dict[str, tuple[int, ...]]:
        rows = KINDS[self.mode].gates * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            f"weight_ih{suffix}": (rows, features), f"weight_hh{suffix}": (rows, self._width)}
        if self.bias:
            shapes |= {f"bias_ih{suffix}": (rows,), f"bias_hh{suffix}": (rows,)}
        if self.proj_size:
            shapes[f"weight_hr{suffix}"] = (self.proj_size, self.hidden_size)
        return shapes

    def _weights(self, suffix: str) -> RecurrentWeights:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        parameters: list[Any] = [self._parameters.get(name + suffix) for name in names]
        return RecurrentWeights(*parameters)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """Lists of parameters, one list for each layer and direction."""
        return [[p for p in self._weights(suffix) if p is not None]  # type: ignore[misc]
                for suffix in self._suffixes()]

    def flatten_parameters(self) -> None:
        """Has no effect: the memory layout of parameters makes no difference here."""

    # ---- sequences
    def forward(self, input: Any, hx: Any = None) -> Any:
        state = self._as_state(hx)
        if isinstance(input, PackedSequence):
            return self._packed(input, state)
        if input.ndim not in (2, 3):
            raise ShapeError(f"{type(self).__name__}: takes (steps, batch, features), or (batch, "
                             "steps, features) with batch_first=True, or (steps, features), got "
                             f"shape {input.shape}")
        if input.ndim == 3:
            x = transpose(input, 0, 1) if self.batch_first else input
            out, last = self._padded(x, state)
            return (transpose(out, 0, 1) if self.batch_first else out), self._as_hx(last)
        for s in state or ():
            if s.ndim != 2:
                raise ShapeError(f"{type(self).__name__}: for an input without batch {input.shape} "
                                 f"hx has two axes (layers, features), got {s.shape}")
        state = None if state is None else tuple(expand_dims(s, 1) for s in state)
        out, last = self._padded(expand_dims(input, 1), state)
        return squeeze(out, 1), self._as_hx(tuple(squeeze(s, 1) for s in last))

    def _padded(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Output and final state for sequences of one length, (steps, batch, features)."""
        self._check_width(x.shape)
        steps, batch = x.shape[:2]
        if not steps:
            raise ShapeError(f"{type(self).__name__}: sequences have no steps in {x.shape}")
        if not self.proj_size and stays_whole(x, *state or (), *self.parameters(recurse=False)):
            return self._whole(x, () if state is None else self._initial(state, batch, x))
        state = self._initial(state, batch, x)
        out, last = self._layers(reshape(x, (-1, self.input_size)), [batch] * steps, state)
        return reshape(out, (steps, batch, self._width * self._directions)), last

    def _packed(self, input: PackedSequence, state: State | None) -> tuple[PackedSequence, Any]:
        self._check_width(input.data.shape)
        sizes = input.batch_sizes.tolist()
        state = _permuted(self._initial(state, sizes[0], input.data), input.sorted_indices)
        out, last = self._layers(input.data, sizes, state)
        return (PackedSequence(out, *input[1:]),
                self._as_hx(_permuted(last, input.unsorted_indices)))

    def _initial(self, state: State | None, batch: int, like: Tensor) -> State:
        """`state` with its shapes checked, or zeros for None."""
        leading = (self.num_layers * self._directions, batch)
        shapes = [(*leading, self._width), (*leading, self.hidden_size)][:KINDS[self.mode].states]
        if state is None:
            return tuple(zeros(shape, dtype=like.dtype, device=like.device) for shape in shapes)
        for s, shape, name in zip(state, shapes, "hc"):
            if s.shape != shape:
                raise ShapeError(f"{type(self).__name__}: {name} of hx must be (layers * directions"
                                 f", batch, features) = {shape}, got {s.shape}")
        return state

    def _layers(self, x: Tensor, sizes: Sequence[int], state: State) -> tuple[Tensor, State]:
        """The output of the last layer over packed rows, and the final state of every layer."""
        last: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self._directions):
                n = len(last)
                start: Any = tuple(s[n] for s in state)  # type: ignore[misc]
                out, end = run(KINDS[self.mode], x, sizes, start,
                               self._weights(self._suffixes()[n]), reverse=direction == 1)
                outputs.append(out)
                last.append(end)
            x = concat(outputs, 1)
            if layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        return x, tuple(stack(ends) for ends in zip(*last))

    def _whole(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """As `_padded`, with each layer as one op; an empty state stands for zeros."""
        (steps, batch), count, last = x.shape[:2], self._directions, []
        for layer in range(self.num_layers):
            first = layer * count
            weights = tuple(map(self._weights, self._suffixes()[first:first + count]))
            y, end = whole(self.mode, x, weights, tuple(s[first:first + count] for s in state))
            y = y if count == 1 else permute_dims(y, (0, 2, 1, 3))
            x = reshape(y, (steps, batch, count * self.hidden_size))
            last.append(end)
            if layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        return x, tuple(concat(ends, 0) for ends in zip(*last))

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
                    "dropout": 0, "bidirectional": False}
        return text + "".join(f", {name}={getattr(self, name)}" for name, value in defaults.items()
                              if getattr(self, name) != value)


def _permuted(state: State, indices: Tensor | None) -> State:
    return state if indices is None else tuple(take(s, indices, 1) for s in state)


class RNN(RNNBase):
    """h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh) at every step (Elman 1990).

    The call takes input (steps, batch, input_size), or (batch, steps, input_size) with batch_first,
    or (steps, input_size), or a PackedSequence; and optionally hx, the first h, which is 0 by
    default. It returns the output, (steps, batch, directions * hidden_size) or a PackedSequence,
    and the last h of every layer and direction, (num_layers * directions, batch, hidden_size).
    directions is 2 for bidirectional, else 1.

    weight_ih_l0 is (hidden_size, input_size), weight_hh_l0 (hidden_size, hidden_size), and so on
    for each layer and direction. All parameters are drawn uniformly from +-1 / sqrt(hidden_size).

    Args:
        input_size: features of a step.
        hidden_size: features of the state h.
        num_layers: the number of layers, each of which reads the output of the one before. Default
            1.
        nonlinearity: "tanh" or "relu". Default "tanh".
        bias: adds learned biases. Default True.
        batch_first: input and output are (batch, steps, ...). Default False.
        dropout: probability of dropout in training, between layers. Default 0.0.
        bidirectional: adds layers that read from the last step to the first. Default False.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: a size is below 1, dropout is not in [0, 1], or an unknown nonlinearity.
        ShapeError: input or hx have other shapes, or there are no steps.

    Example:
        >>> import fusewire as fw
        >>> output, h = fw.nn.RNN(3, 5, num_layers=2, bidirectional=True)(fw.zeros(7, 4, 3))
        >>> output.shape, h.shape
        ((7, 4, 10), (4, 4, 5))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        check_choice("RNN", "nonlinearity", nonlinearity, ("tanh", "relu"))
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias,
                         batch_first, dropout, bidirectional, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """c = f * c + i * g and h = o * tanh(c) at every step, with gates i, f, g, o of x and h.

    The call takes input (steps, batch, input_size), or (batch, steps, input_size) with batch_first,
    or (steps, input_size), or a PackedSequence; and optionally hx = (h, c), the first state, which
    is 0 by default. It returns the output, (steps, batch, directions * hidden_size) or a
    PackedSequence, and the last (h, c) of every layer and direction, each (num_layers * directions,
    batch, hidden_size). directions is 2 for bidirectional, else 1. With proj_size h is o * tanh(c)
    @ weight_hr.T, and h and the output have proj_size instead of hidden_size.

    weight_ih_l0 is (4 * hidden_size, input_size), weight_hh_l0 (4 * hidden_size, hidden_size), and
    so on for each layer and direction. All parameters are drawn uniformly from
    +-1 / sqrt(hidden_size). Hochreiter and Schmidhuber 1997; Gers et al. 2000; projection: Sak et
    al. 2014.

    Args:
        input_size: features of a step.
        hidden_size: features of the state h.
        num_layers: the number of layers, each of which reads the output of the one before. Default
            1.
        bias: adds learned biases. Default True.
        batch_first: input and output are (batch, steps, ...). Default False.
        dropout: probability of dropout in training, between layers. Default 0.0.
        bidirectional: adds layers that read from the last step to the first. Default False.
        proj_size: size of h after a learned projection; 0 for none. Default 0.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: a size is below 1, dropout is not in [0, 1], or proj_size is not below
            hidden_size.
        ShapeError: input or hx have other shapes, or there are no steps.

    Example:
        >>> import fusewire as fw
        >>> output, (h, c) = fw.nn.LSTM(3, 5, proj_size=2)(fw.zeros(7, 4, 3))
        >>> output.shape, h.shape, c.shape
        ((7, 4, 2), (1, 4, 2), (1, 4, 5))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype)

    if TYPE_CHECKING:  # the state is a pair, which type checkers then know

        def forward(self, input: Any, hx: Any = None) -> tuple[Any, tuple[Tensor, Tensor]]: ...


class GRU(RNNBase):
    """h = (1 - z) * n + z * h at every step, with gates r, z and n of x and h.

    The call takes input (steps, batch, input_size), or (batch, steps, input_size) with batch_first,
    or (steps, input_size), or a PackedSequence; and optionally hx, the first h, which is 0 by
    default. It returns the output, (steps, batch, directions * hidden_size) or a PackedSequence,
    and the last h of every layer and direction, (num_layers * directions, batch, hidden_size).
    directions is 2 for bidirectional, else 1.

    weight_ih_l0 is (3 * hidden_size, input_size), weight_hh_l0 (3 * hidden_size, hidden_size), and
    so on for each layer and direction. All parameters are drawn uniformly from
    +-1 / sqrt(hidden_size). Cho et al. 2014, with r applied after the product with h, as in cuDNN.

    Args:
        input_size: features of a step.
        hidden_size: features of the state h.
        num_layers: the number of layers, each of which reads the output of the one before. Default
            1.
        bias: adds learned biases. Default True.
        batch_first: input and output are (batch, steps, ...). Default False.
        dropout: probability of dropout in training, between layers. Default 0.0.
        bidirectional: adds layers that read from the last step to the first. Default False.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: a size is below 1, or dropout is not in [0, 1].
        ShapeError: input or hx have other shapes, or there are no steps.

    Example:
        >>> import fusewire as fw
        >>> output, h = fw.nn.GRU(3, 5)(fw.zeros(7, 4, 3))
        >>> output.shape, h.shape
        ((7, 4, 5), (1, 4, 5))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, device=device, dtype=dtype)
