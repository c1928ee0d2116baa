"""Implements Adafactor: Shazeer and Stern, arXiv 1804.04235."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..arrays.dtypes import finfo
from ..core.tensor import Tensor
from ..errors import ArgumentError
from ..ops.elementwise.pointwise import maximum, rsqrt
from ..ops.reduction.reduce import mean, sum
from .base.formulas import axpy, lerp, scale
from .base.optimizer import Optimizer, OptimizerSettings, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import choose, is_zero, root


class Adafactor(Optimizer):
    """Adafactor: p -= a * u, with u = g / sqrt(v) scaled down to a root mean square of at most `d`.

    v is the running mean of g ** 2. For a matrix the state has only the means over rows and over
    columns, and v is their product. a is min(lr, 1 / sqrt(t)) times the root mean square of p, or
    times eps[1] if that is larger. p *= 1 - lr * weight_decay before the step.
    Source: Shazeer and Stern, arXiv 1804.04235.

    Args:
        params: real tensors, pairs (name, tensor), or dicts of groups; see `Optimizer`.
        lr: largest relative step size, at least 0. Default 1e-2.
        beta2_decay: g ** 2 enters v with the share t ** beta2_decay; at most 0. Default -0.8.
        eps: lower limits: of sqrt(v) (None: the eps of the dtype), and of the size of p. Default
            (None, 1e-3).
        d: largest root mean square of u, at least 1. Default 1.0.
        weight_decay: share of p that a step removes, times lr. Default 0.
        maximize: negates the gradient. Default False.
        foreach: accepted for PyTorch's signature, without effect.

    Raises:
        ArgumentError: a negative setting, beta2_decay above 0, or d below 1.
        DTypeError: a complex parameter.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Linear(3, 2)
        >>> optimizer = fw.optim.Adafactor(layer.parameters())
        >>> sorted(optimizer.state[layer.weight])
        ['col_var', 'row_var', 'step']
        >>> optimizer.state[layer.weight]["row_var"].shape
        (2, 1)
    """

    by_element = False
    takes_complex = False

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:
        if not beta2_decay <= 0:
            raise ArgumentError(f"Adafactor: beta2_decay must be at most 0, got {beta2_decay}")
        super().__init__(params, constructor_settings(locals()))

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        names = ("row_var", "col_var") if p.ndim > 1 else ("variance",)
        return {"step": 0.0, **dict.fromkeys(names, 0.0)}

    def _shape_of(self, p: Tensor, name: str) -> Any:
        if name == "row_var":
            return (*p.shape[:-1], 1)
        if name == "col_var":
            return (*p.shape[:-2], 1, p.shape[-1])
        return super()._shape_of(p, name)

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        lr, (eps, least) = group["lr"], group["eps"]
        eps = finfo(p.dtype).eps if eps is None else eps
        g = -g if group["maximize"] else g  # type: ignore[operator]
        step = state["step"] + 1
        slowest = 1 / root(step)
        rate = choose(lr < slowest, lr, slowest)
        size = maximum(_root_mean_square(p), least)
        if not is_zero(group["weight_decay"]):
            p = scale(p, 1 - lr * group["weight_decay"])
        square, new = _mean_square(g, state, step ** group["beta2_decay"], eps)
        update = rsqrt(maximum(square, eps * eps)) * g
        shrunk = maximum(_root_mean_square(update) / group["d"], 1.0)
        return axpy(p, scale(-size / shrunk, rate), update), {"step": step, **new}


def _mean_square(g: Tensor, state: State, share: Any, eps: float) -> tuple[Tensor, State]:
    """The running mean of g ** 2, into which the new value enters with `share`, and its state."""
    if g.ndim < 2:
        variance = lerp(state["variance"], g * g, share)
        return variance, {"variance": variance}
    rows = lerp(state["row_var"], mean(g * g, -1, keepdims=True), share)
    columns = lerp(state["col_var"], mean(g * g, -2, keepdims=True), share)
    both = rows * columns / maximum(mean(rows, -2, keepdims=True), eps)
    return both, {"row_var": rows, "col_var": columns}


def _root_mean_square(x: Tensor) -> Tensor:
    return sum(x * x) ** 0.5 / math.sqrt(max(x.size, 1))
