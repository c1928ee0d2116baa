"""Recurrent layers over sequences."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...arguments import check_at_least, check_choice, check_fraction
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.create import zeros
from ...ops.layers.recurrent import KINDS, State, Weights
from ...ops.shape.join import concat, stack
from ...ops.shape.view import expand_dims, permute_dims, reshape, squeeze, take, transpose
from .. import functional as F
from ..base.parameter import Parameter
from ..functional.recurrence import run, stays_whole, whole
from .base import Recurrent
from .packed_sequence import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]


class RNNBase(Recurrent):
    """What RNN, LSTM and GRU share: `mode` is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU"."""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.mode = check_choice(owner, "mode", mode, tuple(KINDS))
        self.input_size = check_at_least(owner, "input_size", input_size, 1)
        self.hidden_size = check_at_least(owner, "hidden_size", hidden_size, 1)
        self.num_layers = check_at_least(owner, "num_layers", num_layers, 1)
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout = float(check_fraction(owner, "dropout", dropout))
        self.proj_size = check_at_least(owner, "proj_size", proj_size, 0)
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

    def _weights(self, suffix: str) -> Weights:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        parameters: list[Any] = [self._parameters.get(name + suffix) for name in names]
        return Weights(*parameters)

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

    input (steps, batch, input_size) to (steps, batch, directions * hidden_size), and the last h of
    every layer and direction, (layers * directions, batch, hidden_size), which is what `hx` is.
    batch_first: (batch, steps, features); without batch (steps, features); a PackedSequence gives
    one. nonlinearity: "tanh" or "relu".

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
    """Gates i, f, g, o of x and h at every step: c = f * c + i * g, h = o * tanh(c).

    As RNN, but `hx` and the second result are (h, c). proj_size: h is o * tanh(c) @ weight_hr.T, of
    that size (Sak et al. 2014). Hochreiter and Schmidhuber 1997; Gers et al. 2000.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype)


class GRU(RNNBase):
    """Gates r, z and n of x and h at every step: h = (1 - z) * n + z * h, as RNN otherwise.

    Cho et al. 2014, with r applied after the product with h, as in cuDNN.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, device=device, dtype=dtype)
