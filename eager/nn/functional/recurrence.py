"""How recurrent layers run: step by step, all steps of an LSTM at once, or whole, as one op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import interpreter
from ...core.tape import MODE
from ...core.tensor import Tensor
from ...ops.elementwise.casting import lowered
from ...ops.elementwise.pointwise import cast
from ...ops.layers import recurrent
from ...ops.layers.lstm import lstm
from ...ops.layers.recurrent import (
    KINDS,
    Kind,
    State,
    Weights,
    beginning,
    of_direction,
    of_inputs,
    state_rows,
    stepwise,
    taken,
)
from ...ops.shape.join import stack
from ...ops.shape.view import flip, reshape

together: Callable[..., tuple[Tensor, State] | None] | None = None  # set by an upper layer: what
# `run` gives, of all steps as one program; None for what is left to the ops of steps


@lowered
def run(
    kind: Kind, x: Tensor, sizes: Sequence[int], state: State, w: Weights, reverse: bool = False
) -> tuple[Tensor, State]:
    """The h of every step, packed, and each sequence's last state.

    x: (n, input) packed; sizes: how many sequences go on at each step; reverse: from the end.
    """
    eagerly = interpreter.STATE.active is None  # a recording fuses plain ops
    if together is not None and eagerly and not x.is_cuda:
        found = together(kind, x, sizes, state, w, reverse)
        if found is not None:
            return found
    given = of_inputs(kind, x, w)
    state = tuple(cast(s, given.dtype) for s in state)
    if kind is KINDS["LSTM"] and w.w_hr is None and sizes[0] == sizes[-1] and given.size \
            and eagerly:
        return _at_once(given, sizes[0], state, cast(w.w_hh, given.dtype), reverse)
    return stepwise(kind, given, sizes, state, w, reverse)


def _at_once(given: Tensor, size: int, state: State, w_hh: Tensor, reverse: bool
             ) -> tuple[Tensor, State]:
    """`run` of an LSTM over sequences of one length."""
    given = _steps_turned(given, size) if reverse else given
    h, c = lstm(given, w_hh, *state)
    last = state_rows((h, c), h.shape[0] - size, h.shape[0])
    return _steps_turned(h, size) if reverse else h, last


def _steps_turned(x: Tensor, size: int) -> Tensor:
    """Packed rows of `size` sequences, the last step first."""
    return reshape(flip(reshape(x, (-1, size, x.shape[1])), 0), x.shape)


def stays_whole(*tensors: Tensor | None) -> bool:
    """Whether a layer of these inputs and weights is to be one op, as in a model.

    Its gradient is that of its steps: where one may be asked for, they are better ops of their own.
    """
    if not interpreter.keeps_layers():
        return False
    given = [t for t in tensors if t is not None]
    return len({t.dtype for t in given}) == 1 and not (
        MODE.enabled and any(t.edge is not None for t in given))


@lowered
def whole(kind: str, x: Tensor, directions: tuple[Weights, ...], state: State
          ) -> tuple[Tensor, State]:
    """The h of every step (steps, directions, batch, hidden), and the last state, as ops of layers.

    state: each (directions, batch, hidden), none for zeros.
    """
    ways = ("forward", "reverse")[:len(directions)]
    return recurrent.layer(kind, x, recurrent.stored(KINDS[kind], directions), state, ways)


def of_stored(kind: str, x: Tensor, weights: Sequence[Tensor], state: State,
              ways: tuple[str, ...]) -> tuple[Tensor, State]:
    """The same of weights as ONNX stores them, whether they stay whole or not."""
    if stays_whole(x, *weights, *state):
        return recurrent.layer(kind, x, weights, state, ways)
    w, r, *bias = weights
    (steps, batch, features), outputs, lasts = x.shape, [], []
    state = state or beginning(KINDS[kind], x, r, len(ways))
    for number, way in enumerate(ways):
        start = tuple(of_direction(s, number) for s in state)
        own = taken(KINDS[kind], number, w, r, *bias)
        out, last = run(KINDS[kind], reshape(x, (-1, features)), [batch] * steps, start, own,
                        way == "reverse")
        outputs.append(reshape(out, (steps, batch, r.shape[2])))
        lasts.append(last)
    return stack(outputs, 1), tuple(map(stack, zip(*lasts)))
