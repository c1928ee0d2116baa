"""What recurrent layers and cells compute: a step from one state to the next, and runs of steps.

Sequences are packed: the rows of all sequences at step 0, then those at step 1, and so on, with the
longest sequence first. So the sequences that go on are the first rows of those before, and a
padded batch is the case where all go on to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from .. import interpreter
from ..casting import lowered
from ..ops.contract import matmul
from ..ops.gates import columns, lstm, lstm_step
from ..ops.pointwise import cast, relu, sigmoid, tanh
from ..ops.view import concat_same_dtype, flip, reshape, slice_axes, transpose
from ..tensor import Tensor

State = tuple[Tensor, ...]  # of each sequence: (h,), or (h, c) of an LSTM


class Weights(NamedTuple):
    """The parameters of one direction of one layer; gates stand one after the other in axis 0."""

    w_ih: Tensor  # (gates * hidden, input)
    w_hh: Tensor  # (gates * hidden, hidden or projection)
    b_ih: Tensor | None
    b_hh: Tensor | None
    w_hr: Tensor | None = None  # (projection, hidden)


class Kind(NamedTuple):
    """A kind of recurrence."""

    gates: int
    states: int
    step: Callable[[Tensor, Tensor, State], State]  # of what input and state give, and the state
    apart: bool = False  # the state's bias is added to the state's part alone, not to the sum


def _simple(activation: Callable[[Tensor], Tensor]) -> Kind:
    return Kind(1, 1, lambda of_input, of_state, state: (activation(of_input + of_state),))


def _lstm(of_input: Tensor, of_state: Tensor, state: State) -> State:
    return lstm_step(of_input + of_state, state[1])


def _gru(of_input: Tensor, of_state: Tensor, state: State) -> State:
    """Cho et al. 2014, with the reset gate after the product, as in cuDNN."""
    h = state[0]
    n = h.shape[1]
    both = sigmoid(columns(of_input, 0, 2, n) + columns(of_state, 0, 2, n))
    new = tanh(columns(of_input, 2, 1, n) + columns(both, 0, 1, n) * columns(of_state, 2, 1, n))
    return (new + columns(both, 1, 1, n) * (h - new),)


KINDS = {"RNN_TANH": _simple(tanh), "RNN_RELU": _simple(relu), "LSTM": Kind(4, 2, _lstm),
         "GRU": Kind(3, 1, _gru, apart=True)}


def of_inputs(kind: Kind, x: Tensor, w: Weights) -> Tensor:
    """What inputs (n, input) give at every step, in one product: (n, gates * hidden)."""
    bias = w.b_ih if w.b_ih is None or w.b_hh is None or kind.apart else w.b_ih + w.b_hh
    out = matmul(x, transpose(w.w_ih, 0, 1))
    return out if bias is None else out + bias


def stepper(kind: Kind, w: Weights) -> Callable[[Tensor, State], State]:
    """The function from what the input gives, and the state, to the next state."""
    w_hh, bias = transpose(w.w_hh, 0, 1), w.b_hh if kind.apart else None
    w_hr = None if w.w_hr is None else transpose(w.w_hr, 0, 1)

    def step(of_input: Tensor, state: State) -> State:
        of_state = cast(matmul(state[0], w_hh), of_input.dtype)  # an autocast makes it small
        state = kind.step(of_input, of_state if bias is None else of_state + bias, state)
        if w_hr is None:
            return state
        return cast(matmul(state[0], w_hr), of_input.dtype), *state[1:]

    return step


@lowered
def run(
    kind: Kind, x: Tensor, sizes: Sequence[int], state: State, w: Weights, reverse: bool = False
) -> tuple[Tensor, State]:
    """The h of every step, packed, and each sequence's last state.

    x: (n, input) packed; sizes: how many sequences go on at each step; reverse: from the end.
    """
    step = stepper(kind, w)
    given = of_inputs(kind, x, w)
    state = tuple(cast(s, given.dtype) for s in state)
    if kind.step is _lstm and w.w_hr is None and sizes[0] == sizes[-1] and given.size \
            and not interpreter.in_use:  # a recording fuses plain ops
        return _at_once(given, sizes[0], state, cast(w.w_hh, given.dtype), reverse)
    parts = _parts(given, [0, *accumulate(sizes)])
    if reverse:
        return _backwards(step, parts, sizes, state)
    outputs, ended = [], []
    for part, size in zip(parts, sizes):
        before = state[0].shape[0]
        if size != before:
            ended.append(_rows(state, size, before))
            state = _rows(state, 0, size)
        state = step(part, state)
        outputs.append(state[0])
    return concat_same_dtype(outputs, 0), _joined(state, *reversed(ended))


def _at_once(given: Tensor, size: int, state: State, w_hh: Tensor, reverse: bool
             ) -> tuple[Tensor, State]:
    """`run` of an LSTM over sequences of one length."""
    given = _steps_turned(given, size) if reverse else given
    h, c = lstm(given, w_hh, *state)
    last = _rows((h, c), h.shape[0] - size, h.shape[0])
    return _steps_turned(h, size) if reverse else h, last


def _steps_turned(x: Tensor, size: int) -> Tensor:
    """Packed rows of `size` sequences, the last step first."""
    return reshape(flip(reshape(x, (-1, size, x.shape[1])), 0), x.shape)


def _backwards(
    step: Callable[[Tensor, State], State], parts: list[Tensor], sizes: Sequence[int], first: State
) -> tuple[Tensor, State]:
    """`run` from the last step to the first; shorter sequences begin on the way."""
    outputs, state = [], _rows(first, 0, sizes[-1])
    for part, size in zip(reversed(parts), reversed(sizes)):
        before = state[0].shape[0]
        if size != before:
            state = _joined(state, _rows(first, before, size))
        state = step(part, state)
        outputs.append(state[0])
    return concat_same_dtype(outputs[::-1], 0), state


def _parts(x: Tensor, limits: Sequence[int]) -> list[Tensor]:
    """The rows of `x` from each of `limits` to the next.

    By halves: the gradient of a part is filled up to the size of the half that it was taken from,
    not to that of the whole for every step.
    """
    if len(limits) == 2:
        return [x]
    middle = len(limits) // 2
    left, right = (slice_axes(x, (a - limits[0], 0), (1, 1), (b - a, x.shape[1]))
                   for a, b in ((limits[0], limits[middle]), (limits[middle], limits[-1])))
    return _parts(left, limits[:middle + 1]) + _parts(right, limits[middle:])


def _rows(state: State, start: int, stop: int) -> State:
    """The rows of sequences from `start` to `stop`."""
    return tuple(slice_axes(s, (start, 0), (1, 1), (stop - start, s.shape[1])) for s in state)


def _joined(*states: State) -> State:
    """States one below the other."""
    return tuple(concat_same_dtype(parts, 0) for parts in zip(*states)) if states[1:] else states[0]
