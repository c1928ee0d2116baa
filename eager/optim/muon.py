"""Implements Muon: Jordan et al., "Muon: an optimizer for hidden layers in neural networks"."""

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
from .base.optimizer import Optimizer, OptimizerSettings, constructor_settings
from .base.state_dicts import State
from .base.step_numbers import Number


class Muon(Optimizer):
    """Muon, for matrices: p -= lr * o, with o the momentum brought close to an orthogonal matrix.

    p *= 1 - lr * weight_decay before the step. Give biases, norms and embeddings to another
    optimizer.
    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024).

    Args:
        params: real matrices, pairs (name, matrix), or dicts of groups; see `Optimizer`.
        lr: learning rate, at least 0. Default 1e-3.
        weight_decay: share of p that a step removes, times lr. Default 0.1.
        momentum: share of the old value in the running mean of gradients. Default 0.95.
        nesterov: mixes the mean with the gradient once more. Default True.
        ns_coefficients: a, b and c of a Newton-Schulz step, see `orthogonalized`. Default
            (3.4445, -4.775, 2.0315).
        eps: smallest norm that the momentum is divided by. Default 1e-7.
        ns_steps: number of Newton-Schulz steps, below 100. Default 5.
        adjust_lr_fn: factor of lr for a (rows, columns) matrix. "original" is
            sqrt(max(1, rows / columns)), "match_rms_adamw" 0.2 * sqrt(max(rows, columns)). Default
            None: "original".

    Raises:
        ArgumentError: a negative setting, an unknown adjust_lr_fn, ns_coefficients that are not
            three numbers, or ns_steps of 100 or more.
        ShapeError: a parameter is not a matrix.
        DTypeError: a complex parameter.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.Linear(3, 2)
        >>> hidden = fw.optim.Muon([p for p in model.parameters() if p.ndim == 2])
        >>> others = fw.optim.AdamW([p for p in model.parameters() if p.ndim != 2])
        >>> len(hidden.param_groups[0]["params"]), len(others.param_groups[0]["params"])
        (1, 1)
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

    def _first_state(self, p: Tensor, group: OptimizerSettings) -> dict[str, Any]:
        return {"momentum_buffer": 0.0}

    def _stepped(self, p: Tensor, g: Tensor, state: State,
                 group: OptimizerSettings) -> tuple[Tensor, State]:
        lr, momentum = group["lr"], group["momentum"]
        mean = lerp(state["momentum_buffer"], g, 1 - momentum)
        direction = lerp(g, mean, momentum) if group["nesterov"] else mean
        update = orthogonalized(direction, group["ns_coefficients"], group["ns_steps"],
                                group["eps"])
        rate = lr * _adjustment(group["adjust_lr_fn"], *p.shape)
        p = scale(p, 1 - lr * group["weight_decay"])
        return axpy(p, -rate, cast(update, p.dtype)), {"momentum_buffer": mean}


def orthogonalized(x: Tensor, coefficients: Any, steps: int, eps: float) -> Tensor:
    """The matrix `x` with singular values close to 1, by Newton-Schulz steps.

    A step maps X to a X + (b S + c S S) X, with S = X X^T and (a, b, c) = `coefficients`. Each
    product is rounded to bfloat16.
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
    """`x` rounded to the precision of bfloat16, in float32."""
    return cast(cast(x, bfloat16), float32)


def _rounded_number(x: Number) -> Number:
    return _rounded(tensor(x)) if isinstance(x, (Tensor, Symbol)) else bfloat16.type(x).item()


def _adjustment(how: str | None, rows: int, columns: int) -> float:
    if how == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))
