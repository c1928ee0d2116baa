"""Defines RNN, LSTM and GRU: their steps, and the loop over time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .....eager.errors import ImportModelError
from .....eager.nn import functional as F
from .....eager.nn.functional.recurrence import of_stored
from .....eager.ops import create
from .....eager.ops.elementwise import pointwise
from .....eager.ops.elementwise.clip import clip as limited
from .....eager.ops.indexing import scatter
from .....eager.ops.products.contract import matmul
from .....eager.ops.shape import view
from .....eager.ops.shape.join import split, stack
from ..runtime.table import Tensor, operator

__all__: list[str] = []

Activation = Callable[[Tensor], Tensor]
Step = Callable[[Tensor, list[Tensor]], list[Tensor]]

_ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "relu": lambda x, a, b: F.relu(x), "tanh": lambda x, a, b: pointwise.tanh(x),
    "sigmoid": lambda x, a, b: pointwise.sigmoid(x),
    "affine": lambda x, a, b: (1.0 if a is None else a) * x + (0.0 if b is None else b),
    "leakyrelu": lambda x, a, b: F.leaky_relu(x, 0.01 if a is None else a),
    "thresholdedrelu": lambda x, a, b: pointwise.where(
        pointwise.greater(x, 1.0 if a is None else a), x, 0.0),
    "scaledtanh": lambda x, a, b: (1.0 if a is None else a) * pointwise.tanh(
        (1.0 if b is None else b) * x),
    "hardsigmoid": lambda x, a, b: limited(
        x * (0.2 if a is None else a) + (0.5 if b is None else b), 0, 1),
    "elu": lambda x, a, b: F.elu(x, 1.0 if a is None else a),
    "softsign": lambda x, a, b: F.softsign(x),
    "softplus": lambda x, a, b: pointwise.logaddexp(x, 0.0),
}
_WITH_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_WITH_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def _activations(names: Any, alphas: Any, betas: Any, usual: tuple[str, ...], directions: int
                 ) -> list[list[Activation]]:
    """The activations of each direction; each alpha and beta belongs to the next that takes one."""
    names = [n.lower() for n in names or usual * directions]
    alpha_values, beta_values = iter(alphas or ()), iter(betas or ())
    activations: list[Activation] = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise ImportModelError(f"unknown activation {name!r}",
                                   f"known are {', '.join(_ACTIVATIONS)}")
        a = next(alpha_values, None) if name in _WITH_ALPHA else None
        b = next(beta_values, None) if name in _WITH_BETA else None
        activations.append(partial(_ACTIVATIONS[name], a=a, b=b))
    n = len(usual)
    return [activations[i * n:(i + 1) * n] for i in range(directions)]


def _over_time(step: Step, x: Tensor, state: list[Tensor], lengths: Tensor | None, backward: bool
               ) -> tuple[Tensor, list[Tensor]]:
    """The first state after each step over `x` (time, batch, n), and the last states."""
    time = x.shape[0]
    if lengths is not None and backward:
        x = _reversed(x, lengths)
    times = range(time - 1, -1, -1) if backward and lengths is None else range(time)
    outputs = []
    for t in times:
        new = step(x[t], state)
        if lengths is None:
            outputs.append(new[0])
        else:
            alive = view.expand_dims(pointwise.less(t, lengths), 1)
            outputs.append(pointwise.where(alive, new[0], 0.0))
            new = [pointwise.where(alive, n, o) for n, o in zip(new, state)]
        state = new
    if backward and lengths is None:
        outputs.reverse()
    out = stack(outputs)
    return (_reversed(out, lengths) if backward and lengths is not None else out), state


def _reversed(x: Tensor, lengths: Tensor) -> Tensor:
    at = create.iota(x.shape, 0)
    own = view.reshape(lengths, (1, -1, 1))
    return scatter.take_along_axis(x, pointwise.where(at < own, own - 1 - at, at), axis=0)


def _run(make_step: Callable[..., Step], x: Tensor, w: Tensor, r: Tensor, b: Tensor | None,
         lengths: Tensor | None, initial: list[Tensor | None], direction: str, layout: int,
         activations: list[list[Activation]], gates: int, **more: Any) -> Any:
    """Y (time, directions, batch, hidden), and the last states (directions, batch, hidden)."""
    x = view.permute_dims(x, (1, 0, 2)) if layout else x
    hidden, batch = r.shape[-1], x.shape[1]
    sides, lasts = [], []
    for side in range(w.shape[0]):
        if b is None:
            bias = [create.zeros(gates * hidden, dtype=x.dtype)] * 2
        else:
            bias = list(split(b[side], [gates * hidden] * 2))
        states = [create.zeros((batch, hidden), dtype=x.dtype) if s is None else
                  (s[:, side] if layout else s[side]) for s in initial]
        step = make_step(w[side], r[side], *bias, activations[side],
                         **{k: None if v is None else v[side] for k, v in more.items()})
        y, last = _over_time(step, x, states, lengths,
                             direction == "reverse" or side == 1)
        sides.append(y)
        lasts.append(last)
    y = stack(sides, 2 if layout else 1) if not layout else \
        stack([view.permute_dims(s, (1, 0, 2)) for s in sides], 2)
    return y, *(stack(list(of), 1 if layout else 0) for of in zip(*lasts))


def _of_nn(kind: str, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None,
           initial: list[Tensor | None], direction: str, layout: int) -> Any:
    """The result of `_run` by a layer of `nn`, which is exported as this operator again."""
    perm = (1, 0, 2)
    x = view.permute_dims(x, perm) if layout else x
    shape = (w.shape[0], x.shape[1], r.shape[-1])
    state = () if all(s is None for s in initial) else tuple(
        create.zeros(shape, dtype=x.dtype) if s is None else
        view.permute_dims(s, perm) if layout else s for s in initial)
    directions = ("forward", "reverse") if direction == "bidirectional" else (direction,)
    y, last = of_stored(kind, x, (w, r) if b is None else (w, r, b), state, directions)
    if not layout:
        return y, *last
    return view.permute_dims(y, (2, 0, 1, 3)), *(view.permute_dims(s, perm) for s in last)


def _in_nn(kinds: dict[str, tuple[str, ...]], names: Any, direction: str, w: Tensor, r: Tensor,
           b: Tensor | None) -> str:
    """The kind of `nn` layer with these activations (the first by default), or an empty string.

    It is empty as well if shapes do not fit, for which `_run` raises an error.
    """
    count, (_, rows, hidden) = _directions(direction), r.shape
    fits = w.shape[0] == r.shape[0] == count and w.shape[1] == rows and rows % hidden == 0 and (
        b is None or b.shape == (count, 2 * rows))
    own = [n.lower() for n in names] if names else [*next(iter(kinds.values()))] * count
    return next((kind for kind, each in kinds.items() if fits and own == [*each] * count), "")


def _clipped(x: Tensor, clip: float | None) -> Tensor:
    return x if not clip else limited(x, -clip, clip)


def _directions(direction: str) -> int:
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ImportModelError(f"unknown direction {direction!r}",
                               "known are forward, reverse and bidirectional")
    return 2 if direction == "bidirectional" else 1


@operator("RNN", many=True)
def _rnn(x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
         h: Tensor | None = None, activation_alpha: Any = None, activation_beta: Any = None,
         activations: Any = None, clip: float | None = None, direction: str = "forward",
         hidden_size: int = 0, layout: int = 0, output_sequence: int = 0) -> Any:
    kind = _in_nn({"RNN_TANH": ("tanh",), "RNN_RELU": ("relu",)}, activations, direction, w, r, b)
    if kind and lengths is None and not clip:
        return _of_nn(kind, x, w, r, b, [h], direction, layout)

    def make_step(w: Tensor, r: Tensor, wb: Tensor, rb: Tensor, f: list[Activation]) -> Step:
        def step(x: Tensor, state: list[Tensor]) -> list[Tensor]:
            gate = matmul(x, w.T) + matmul(state[0], r.T) + wb + rb
            return [f[0](_clipped(gate, clip))]

        return step

    functions = _activations(activations, activation_alpha, activation_beta, ("Tanh",),
                             _directions(direction))
    return _run(make_step, x, w, r, b, lengths, [h], direction, layout, functions, 1)


@operator("GRU", many=True)
def _gru(x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
         h: Tensor | None = None, activation_alpha: Any = None, activation_beta: Any = None,
         activations: Any = None, clip: float | None = None, direction: str = "forward",
         hidden_size: int = 0, layout: int = 0, linear_before_reset: int = 0,
         output_sequence: int = 0) -> Any:
    kind = _in_nn({"GRU": ("sigmoid", "tanh")}, activations, direction, w, r, b)
    if kind and lengths is None and not clip and linear_before_reset:
        return _of_nn(kind, x, w, r, b, [h], direction, layout)

    def make_step(w: Tensor, r: Tensor, wb: Tensor, rb: Tensor, f: list[Activation]) -> Step:
        n = r.shape[-1]
        r_zr, r_h = split(r, [2 * n, n])

        def step(x: Tensor, state: list[Tensor]) -> list[Tensor]:
            h = state[0]
            x_zr, x_h = split(matmul(x, w.T) + wb, [2 * n, n], 1)
            b_zr, b_h = split(rb, [2 * n, n])
            z, reset = split(f[0](_clipped(x_zr + matmul(h, r_zr.T) + b_zr, clip)), [n, n], 1)
            inner = reset * (matmul(h, r_h.T) + b_h) if linear_before_reset else \
                matmul(reset * h, r_h.T) + b_h
            return [(1 - z) * f[1](_clipped(x_h + inner, clip)) + z * h]

        return step

    functions = _activations(activations, activation_alpha, activation_beta, ("Sigmoid", "Tanh"),
                             _directions(direction))
    return _run(make_step, x, w, r, b, lengths, [h], direction, layout, functions, 3)


@operator("LSTM", many=True)
def _lstm(x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
          h: Tensor | None = None, c: Tensor | None = None, p: Tensor | None = None,
          activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
          clip: float | None = None, direction: str = "forward", hidden_size: int = 0,
          input_forget: int = 0, layout: int = 0, output_sequence: int = 0) -> Any:
    kind = _in_nn({"LSTM": ("sigmoid", "tanh", "tanh")}, activations, direction, w, r, b)
    if kind and lengths is None and p is None and not clip and not input_forget:
        return _of_nn(kind, x, w, r, b, [h, c], direction, layout)

    def make_step(w: Tensor, r: Tensor, wb: Tensor, rb: Tensor, f: list[Activation],
                  peep: Tensor | None) -> Step:
        n = r.shape[-1]
        peeps: Any = [0.0, 0.0, 0.0] if peep is None else split(peep, [n] * 3)

        def step(x: Tensor, state: list[Tensor]) -> list[Tensor]:
            h, c = state
            gates = matmul(x, w.T) + matmul(h, r.T) + wb + rb
            i, o, keep, new = split(gates, [n] * 4, 1)
            i = f[0](_clipped(i + peeps[0] * c, clip))
            keep = 1 - i if input_forget else \
                f[0](_clipped(keep + peeps[2] * c, clip))
            c = keep * c + i * f[1](_clipped(new, clip))
            o = f[0](_clipped(o + peeps[1] * c, clip))
            return [o * f[2](c), c]

        return step

    functions = _activations(activations, activation_alpha, activation_beta,
                             ("Sigmoid", "Tanh", "Tanh"), _directions(direction))
    return _run(make_step, x, w, r, b, lengths, [h, c], direction, layout, functions, 4, peep=p)
