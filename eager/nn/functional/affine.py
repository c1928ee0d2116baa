"""Affine maps of the last axis."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError
from ...ops.contract import matmul
from ...ops.view import transpose
from ...tensor import Tensor, as_tensor

__all__ = ["linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (..., n_in) and (n_out, n_in) to (..., n_out)."""
    input, weight = as_tensor("linear", input), as_tensor("linear", weight)
    if weight.data.ndim != 2 or input.data.shape[-1:] != weight.data.shape[1:]:
        raise _linear_error(input, weight)
    out = matmul(input, transpose(weight, 0, 1))
    return out if bias is None else out + bias


def _linear_error(input: Tensor, weight: Tensor) -> ShapeError:
    if weight.ndim != 2:
        return ShapeError(f"linear: the weight must be (n_out, n_in), got shape {weight.shape}")
    size = input.shape[-1] if input.ndim else "nothing"
    n_in = weight.shape[1]
    fits = input.ndim > 1 and _product(input.shape[1:]) == n_in
    return ShapeError(
        f"linear: input {input.shape} ends in {size}, but the weight {weight.shape} = "
        f"(n_out, n_in) takes {n_in}",
        "flatten the input first: x.flatten(1), or nn.Flatten()" if fits else
        f"the last size of the input must be {n_in}")


def _product(sizes: Any) -> Any:
    total = 1
    for n in sizes:
        total = total * n
    return total
