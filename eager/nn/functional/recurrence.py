"""Runs recurrent layers: step by step, all steps of an LSTM at once, or as one op."""

from __future__ import annotations

from collections.abc import Sequence

from ... import interpreter
from ...arrays import devices
from ...core.tape import MODE
from ...core.tensor import Tensor
from ...ops.elementwise.casting import lowered
from ...ops.elementwise.pointwise import cast
from ...ops.layers import recurrent
from ...ops.layers.lstm import lstm
from ...ops.layers.recurrent import (
    KINDS,
    Kind,
    RecurrentWeights,
    State,
    beginning,
    of_direction,
    of_inputs,
    state_rows,
    stepwise,
    taken,
)
from ...ops.shape.join import stack
from ...ops.shape.view import flip, reshape
from ...upper_layer import UPPER


@lowered
def run(
    kind: Kind, x: Tensor, sizes: Sequence[int], state: State, w: RecurrentWeights,
    reverse: bool = False
) -> tuple[Tensor, State]:
    """The h of every step, packed, and the last state of each sequence.

    x: (n, input) packed; sizes: the number of sequences that continue at each step; reverse: from
    the last step to the first.
    """
    eagerly = interpreter.STATE.active is None  # a recording fuses plain ops
    if UPPER.recurrent_layer is not None and eagerly and not devices.is_elsewhere(x._data):
        result = UPPER.recurrent_layer(kind, x, sizes, state, w, reverse)
        if result is not None:
            return result  # type: ignore[no-any-return]
    projected = of_inputs(kind, x, w)
    state = tuple(cast(s, projected.dtype) for s in state)
    if kind is KINDS["LSTM"] and w.w_hr is None and sizes[0] == sizes[-1] and projected.size \
            and eagerly:
        return _at_once(projected, sizes[0], state, cast(w.w_hh, projected.dtype), reverse)
    return stepwise(kind, projected, sizes, state, w, reverse)


def _at_once(projected: Tensor, size: int, state: State, w_hh: Tensor, reverse: bool
             ) -> tuple[Tensor, State]:
    """`run` of an LSTM over sequences of one length."""
    projected = _reverse_steps(projected, size) if reverse else projected
    h, c = lstm(projected, w_hh, *state)
    last = state_rows((h, c), h.shape[0] - size, h.shape[0])
    return _reverse_steps(h, size) if reverse else h, last


def _reverse_steps(x: Tensor, size: int) -> Tensor:
    """Packed rows of `size` sequences in reverse order of steps."""
    return reshape(flip(reshape(x, (-1, size, x.shape[1])), 0), x.shape)


def stays_whole(*tensors: Tensor | None) -> bool:
    """True if a layer of these inputs and weights should be one op, as in a model.

    Its gradient is that of its steps, so with gradients the steps are separate ops.
    """
    if not interpreter.keeps_layers():
        return False
    present = [t for t in tensors if t is not None]
    return len({t.dtype for t in present}) == 1 and not (
        MODE.enabled and any(t.edge is not None for t in present))


@lowered
def whole(kind: str, x: Tensor, directions: tuple[RecurrentWeights, ...], state: State
          ) -> tuple[Tensor, State]:
    """The h of every step (steps, directions, batch, hidden), and the last state, as ops of layers.

    state: each (directions, batch, hidden), empty for zeros.
    """
    names = ("forward", "reverse")[:len(directions)]
    return recurrent.layer(kind, x, recurrent.stored(KINDS[kind], directions), state, names)


def of_stored(kind: str, x: Tensor, weights: Sequence[Tensor], state: State,
              directions: tuple[str, ...]) -> tuple[Tensor, State]:
    """The results of `whole` for weights as ONNX stores them, as one op or as steps."""
    if stays_whole(x, *weights, *state):
        return recurrent.layer(kind, x, weights, state, directions)
    w, r, *bias = weights
    (steps, batch, features), outputs, lasts = x.shape, [], []
    state = state or beginning(KINDS[kind], x, r, len(directions))
    for number, direction in enumerate(directions):
        start = tuple(of_direction(s, number) for s in state)
        own = taken(KINDS[kind], number, w, r, *bias)
        out, last = run(KINDS[kind], reshape(x, (-1, features)), [batch] * steps, start, own,
                        direction == "reverse")
        outputs.append(reshape(out, (steps, batch, r.shape[2])))
        lasts.append(last)
    return stack(outputs, 1), tuple(map(stack, zip(*lasts)))
