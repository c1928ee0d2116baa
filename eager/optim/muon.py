"""Muon: Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..arguments import check_choice
from ..arrays.dtypes import bfloat16, float32
from ..core.tensor import Tensor, tensor
from ..errors import ArgumentError, ShapeError
from ..interpreter import Symbol
from ..ops.elementwise.pointwise import cast, maximum
from ..ops.products.contract import matmul
from ..ops.reduction.reduce import sum
from ..ops.shape.view import transpose
from .base.formulas import axpy, lerp, scale
from .base.optimizer import Optimizer, Settings, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import Number


class Muon(Optimizer):
    """p -= lr * o, with o the momentum brought near to an orthogonal matrix; for matrices only.

    The momentum m is the running mean of g, with `nesterov` g moved towards m once more. Before
    the step p *= 1 - lr * weight_decay. adjust_lr_fn: "original" (None is the same) takes
    sqrt(max(1, rows / columns)) times lr, "match_rms_adamw" 0.2 * sqrt(max(rows, columns)) times.

    Biases, norms and embeddings belong to another optimizer.
    """

    counts = ()
    by_element = False
    takes_complex = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1,
        momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7,
        ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:
        check_choice("Muon", "adjust_lr_fn", adjust_lr_fn, (None, "original", "match_rms_adamw"))
        if len(ns_coefficients) != 3:
            raise ArgumentError(f"Muon: ns_coefficients are three numbers, got {ns_coefficients}")
        if ns_steps >= 100:
            raise ArgumentError(f"Muon: ns_steps must be below 100, got {ns_steps}", "5 are usual")
        super().__init__(params, constructor_settings(locals()))

    def _check_parameter(self, p: Any) -> None:
        super()._check_parameter(p)
        if p.ndim != 2:
            raise ShapeError(f"Muon: takes matrices, got a parameter of shape {p.shape}",
                             "give the others to AdamW: [p for p in parameters if p.ndim != 2]")

    def _first_state(self, p: Tensor, group: Settings) -> dict[str, Any]:
        return {"momentum_buffer": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State, group: Settings) -> tuple[Tensor, State]:
        lr, momentum = group["lr"], group["momentum"]
        mean = lerp(state["momentum_buffer"], g, 1 - momentum)
        direction = lerp(g, mean, momentum) if group["nesterov"] else mean
        update = orthogonalized(direction, group["ns_coefficients"], group["ns_steps"],
                                group["eps"])
        rate = lr * _adjustment(group["adjust_lr_fn"], *p.shape)
        p = scale(p, 1 - lr * group["weight_decay"])
        return axpy(p, -rate, cast(update, p.dtype)), {"momentum_buffer": mean}


def orthogonalized(x: Tensor, coefficients: Any, steps: int, eps: float) -> Tensor:
    """The matrix `x` with all singular values brought to about 1, by steps of Newton and Schulz.

    Each takes X to a X + (b S + c S S) X with S = X X^T, for `coefficients` (a, b, c). Products are
    those of bfloat16: rounded after each.
    """
    a, b, c = coefficients
    is_tall = x.shape[0] > x.shape[1]
    x = _rounded(transpose(x, 0, 1) if is_tall else x)
    norm = _rounded(sum(x * x) ** 0.5)
    x = _rounded(x / maximum(norm, _rounded_number(eps)))
    for _ in range(steps):
        square = _rounded(matmul(x, transpose(x, 0, 1)))
        change = _rounded(axpy(scale(matmul(square, square), c), b, square))
        x = _rounded(axpy(matmul(change, x), a, x))
    return transpose(x, 0, 1) if is_tall else x


def _rounded(x: Tensor) -> Tensor:
    """`x` to the precision of bfloat16, in float32."""
    return cast(cast(x, bfloat16), float32)


def _rounded_number(x: Number) -> Number:
    return _rounded(tensor(x)) if isinstance(x, (Tensor, Symbol)) else bfloat16.type(x).item()


def _adjustment(how: str | None, rows: int, columns: int) -> float:
    if how == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))
