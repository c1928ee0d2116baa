"""Computes recurrent layers: one step, all steps, and a whole layer as an op.

Sequences are packed: the rows of all sequences at step 0, then those at step 1, and so on, with the
longest sequence first. The sequences that continue are therefore the first rows of a step. In a
padded batch all sequences continue to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from ...arrays.shapes import TensorType
from ...core.op import Op
from ...core.tensor import Tensor
from ..create import zeros
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import cast, relu, sigmoid, tanh
from ..products.contract import matmul
from ..shape.concat import concat_same_dtype
from ..shape.join import stack
from ..shape.view import reshape, slice_axes, transpose
from .lstm import columns, lstm_step

State = tuple[Tensor, ...]  # of each sequence: (h,), or (h, c) of an LSTM
PARTS = ("y", "h", "c")  # of a layer: the h of every step, the last h, the last c of an LSTM


class RecurrentWeights(NamedTuple):
    """The parameters of one direction of one layer; gates follow one another along axis 0."""

    w_ih: Tensor  # (gates * hidden, input)
    w_hh: Tensor  # (gates * hidden, hidden or projection)
    b_ih: Tensor | None
    b_hh: Tensor | None
    w_hr: Tensor | None = None  # (projection, hidden)


class Kind(NamedTuple):
    """A kind of recurrence: its gates, its states and its step."""

    order: tuple[int, ...]  # the index here of each gate of ONNX
    states: int
    step: Callable[[Tensor, Tensor, State], State]  # of the parts of input and state, and the state
    apart: bool = False  # the state's bias is added to the state's part, not to the sum

    @property
    def gates(self) -> int:
        return len(self.order)


def _simple(activation: Callable[[Tensor], Tensor]) -> Kind:
    return Kind((0,), 1, lambda of_input, of_state, state: (activation(of_input + of_state),))


def _lstm(of_input: Tensor, of_state: Tensor, state: State) -> State:
    return lstm_step(of_input + of_state, state[1])


def _gru(of_input: Tensor, of_state: Tensor, state: State) -> State:
    """Cho et al. 2014, with the reset gate after the product, as in cuDNN."""
    h = state[0]
    n = h.shape[1]
    both = sigmoid(columns(of_input, 0, 2, n) + columns(of_state, 0, 2, n))
    new = tanh(columns(of_input, 2, 1, n) + columns(both, 0, 1, n) * columns(of_state, 2, 1, n))
    return (new + columns(both, 1, 1, n) * (h - new),)


KINDS = {"RNN_TANH": _simple(tanh), "RNN_RELU": _simple(relu),
         "LSTM": Kind((0, 3, 1, 2), 2, _lstm),  # i, f, g, o; ONNX calls g c
         "GRU": Kind((1, 0, 2), 1, _gru, apart=True)}  # r, z, n; ONNX calls n h


# ---- steps
def of_inputs(kind: Kind, x: Tensor, w: RecurrentWeights) -> Tensor:
    """The part of the gates that inputs (n, input) give at every step: (n, gates * hidden)."""
    bias = w.b_ih if w.b_ih is None or w.b_hh is None or kind.apart else w.b_ih + w.b_hh
    out = matmul(x, transpose(w.w_ih, 0, 1))
    return out if bias is None else out + bias


def stepper(kind: Kind, w: RecurrentWeights) -> Callable[[Tensor, State], State]:
    """A function of the inputs' part of the gates and the state that returns the next state."""
    w_hh, bias = transpose(w.w_hh, 0, 1), w.b_hh if kind.apart else None
    w_hr = None if w.w_hr is None else transpose(w.w_hr, 0, 1)

    def step(of_input: Tensor, state: State) -> State:
        of_state = cast(matmul(state[0], w_hh), of_input.dtype)  # autocast lowers the product
        state = kind.step(of_input, of_state if bias is None else of_state + bias, state)
        if w_hr is None:
            return state
        return cast(matmul(state[0], w_hr), of_input.dtype), *state[1:]

    return step


def stepwise(
    kind: Kind, inputs: Tensor, sizes: Sequence[int], state: State, w: RecurrentWeights,
    reverse: bool
) -> tuple[Tensor, State]:
    """The h of every step, packed, and each sequence's last state.

    Args:
        inputs: `of_inputs` of the packed inputs.
        sizes: number of sequences that have each step.
        reverse: runs from the last step to the first.
    """
    step, parts = stepper(kind, w), packed_rows(inputs, [0, *accumulate(sizes)])
    if reverse:
        return _backwards(step, parts, sizes, state)
    outputs, ended = [], []
    for part, size in zip(parts, sizes):
        before = state[0].shape[0]
        if size != before:
            ended.append(state_rows(state, size, before))
            state = state_rows(state, 0, size)
        state = step(part, state)
        outputs.append(state[0])
    return concat_same_dtype(outputs, 0), beside(state, *reversed(ended))


def _backwards(
    step: Callable[[Tensor, State], State], parts: list[Tensor], sizes: Sequence[int], first: State
) -> tuple[Tensor, State]:
    """`stepwise` from the last step to the first; shorter sequences begin later."""
    outputs, state = [], state_rows(first, 0, sizes[-1])
    for part, size in zip(reversed(parts), reversed(sizes)):
        before = state[0].shape[0]
        if size != before:
            state = beside(state, state_rows(first, before, size))
        state = step(part, state)
        outputs.append(state[0])
    return concat_same_dtype(outputs[::-1], 0), state


def packed_rows(x: Tensor, limits: Sequence[int]) -> list[Tensor]:
    """The rows of `x` from each of `limits` to the next.

    It splits by halves: the gradient of a part is padded to the size of the half that it was sliced
    from, and not to the whole for every step.
    """
    if len(limits) == 2:
        return [x]
    middle = len(limits) // 2
    left, right = (slice_axes(x, (a - limits[0], 0), (1, 1), (b - a, x.shape[1]))
                   for a, b in ((limits[0], limits[middle]), (limits[middle], limits[-1])))
    return packed_rows(left, limits[:middle + 1]) + packed_rows(right, limits[middle:])


def state_rows(state: State, start: int, stop: int) -> State:
    """The rows of sequences from `start` to `stop`."""
    return tuple(slice_axes(s, (start, 0), (1, 1), (stop - start, s.shape[1])) for s in state)


def beside(*states: State) -> State:
    """States stacked below each other."""
    return tuple(concat_same_dtype(parts, 0) for parts in zip(*states)) if states[1:] else states[0]


def beginning(kind: Kind, x: Tensor, r: Tensor, directions: int) -> State:
    """The zeros with which a layer begins, for x (steps, batch, input) and r (.., hidden)."""
    shape = (directions, x.shape[1], r.shape[-1])
    return (zeros(shape, dtype=x.dtype, device=x.device),) * kind.states


# ---- a layer as one op, with all directions, and weights in the layout of ONNX
def stored(kind: Kind, directions: Sequence[RecurrentWeights]) -> list[Tensor]:
    """W (directions, gates * hidden, input), R (.., hidden) and, if any, B (.., 2 * .. hidden)."""
    reordered = [[_reordered(x, kind.order) for x in w if x is not None] for w in directions]
    each = [[w, r, concat_same_dtype(bias, 0)] if bias else [w, r] for w, r, *bias in reordered]
    return [stack(parts) for parts in zip(*each)]


def taken(kind: Kind, number: int, w: Tensor, r: Tensor,
          b: Tensor | None = None) -> RecurrentWeights:
    """The weights of one direction from those that `stored` returned."""
    gates = [kind.order.index(k) for k in range(len(kind.order))]
    w_ih, w_hh = (_reordered(of_direction(x, number), gates) for x in (w, r))
    if b is None:
        return RecurrentWeights(w_ih, w_hh, None, None)
    both, n = of_direction(b, number), w.shape[1]
    b_ih, b_hh = (_reordered(slice_axes(both, (k * n,), (1,), (n,)), gates) for k in range(2))
    return RecurrentWeights(w_ih, w_hh, b_ih, b_hh)


def _reordered(x: Tensor, gates: Sequence[int]) -> Tensor:
    """The gates of `x` along axis 0, in the order `gates`."""
    n, rest = x.shape[0] // len(gates), x.shape[1:]
    if list(gates) == sorted(gates):
        return x
    none, each = (0,) * len(rest), (1,) * x.ndim
    return concat_same_dtype([slice_axes(x, (k * n, *none), each, (n, *rest)) for k in gates], 0)


def of_direction(x: Tensor, number: int) -> Tensor:
    """x[number]."""
    rest = x.shape[1:]
    return reshape(slice_axes(x, (number, *[0] * len(rest)), (1,) * x.ndim, (1, *rest)), rest)


def _layer(x: Tensor, w: Tensor, r: Tensor, *rest: Tensor, kind: str, directions: tuple[str, ...],
           bias: bool, part: str) -> Tensor:
    k, (steps, batch, features) = KINDS[kind], x.shape
    assert type(steps) is int, "an exporter has to refuse this"
    rows, results = reshape(x, (-1, features)), []
    first = rest[bias:] or beginning(k, x, r, len(directions))
    for number, direction in enumerate(directions):
        weights = taken(k, number, w, r, *rest[:bias])
        start = tuple(of_direction(s, number) for s in first)
        out, last = stepwise(k, of_inputs(k, rows, weights), [batch] * steps, start, weights,
                             direction == "reverse")
        results.append((reshape(out, (steps, batch, r.shape[2])), *last)[PARTS.index(part)])
    return stack(results, 1 if part == "y" else 0)


def _layer_type(x: TensorType, w: TensorType, r: TensorType, *rest: TensorType, kind: str,
                directions: tuple[str, ...], bias: bool, part: str) -> TensorType:
    last = (len(directions), x.shape[1], r.shape[2])
    return TensorType((x.shape[0], *last) if part == "y" else last, x.dtype)


layer_op: Op = composite("recurrent", _layer, _layer_type)


def layer(kind: str, x: Tensor, weights: Sequence[Tensor], state: State, directions: tuple[str, ...]
          ) -> tuple[Tensor, State]:
    """The h of every step (steps, directions, batch, hidden), and the last state.

    Args:
        x: (steps, batch, input).
        weights: as `stored` returns them.
        state: tensors (directions, batch, hidden); none for zeros.
        directions: "forward" or "reverse", for each direction.
    """
    y, *last = (call(layer_op, x, *weights, *state, kind=kind, directions=directions,
                     bias=len(weights) == 3,
                     part=part) for part in PARTS[:1 + KINDS[kind].states])
    return y, tuple(last)
