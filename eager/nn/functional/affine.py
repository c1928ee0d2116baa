"""Affine maps of the last axis, of one tensor or of two."""

from __future__ import annotations

from typing import Any

from ...arrays.shapes import product
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.declare import prepare
from ...ops.elementwise.casting import lowered
from ...ops.products.contract import LETTERS, contract, factors
from ...ops.shape.view import reshape

__all__ = ["bilinear", "linear"]


@lowered
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (..., n_in) and (n_out, n_in) to (..., n_out)."""
    input, weight = factors("linear", input, weight)
    if weight._data.ndim != 2 or input._data.shape[-1:] != weight._data.shape[1:]:
        raise _linear_error(input, weight)
    out = contract(input, weight, _SPECS[input._data.ndim])
    return out if bias is None else out + bias


# The last axes of both are summed: a transposed view of the weight would need a step of its own.
_SPECS = [f"{LETTERS[11:10 + n]}k,jk->{LETTERS[11:10 + n]}j" for n in range(len(LETTERS) - 10)]


def _linear_error(input: Tensor, weight: Tensor) -> ShapeError:
    if weight.ndim != 2:
        return ShapeError(f"linear: the weight must be (n_out, n_in), got shape {weight.shape}")
    size = input.shape[-1] if input.ndim else "nothing"
    n_in = weight.shape[1]
    return ShapeError(
        f"linear: input {input.shape} ends in {size}, but the weight {weight.shape} = "
        f"(n_out, n_in) takes {n_in}", _linear_help(input.shape, n_in))


def _linear_help(shape: tuple[Any, ...], n_in: Any) -> str:
    """What may be wrong with an input of `shape` where its last size is not `n_in`."""
    if len(shape) > 1 and product(shape[1:]) == n_in:
        return "flatten the input first: x.flatten(1), or nn.Flatten()"
    if n_in in shape:
        axis = shape.index(n_in)
        return (f"axis {axis} of the input has size {n_in}: is it the one of features? "
                f"x.moveaxis({axis}, -1) makes it the last")
    return f"the last size of the input must be {n_in}"


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 + bias[o] for each o: (..., n1) and (..., n2) to (..., n_out).

    weight (n_out, n1, n2), bias (n_out,).
    """
    x, y, w = prepare("bilinear", (input1, input2, weight), "float")
    if w.ndim != 3 or x.shape[:-1] != y.shape[:-1] or (*x.shape[-1:], *y.shape[-1:]) != w.shape[1:]:
        raise ShapeError(
            f"bilinear: inputs {x.shape} and {y.shape} do not fit the weight {w.shape} = "
            "(n_out, n1, n2)", "the inputs are (..., n1) and (..., n2), with equal leading axes")
    rows, columns = reshape(x, (-1, x.shape[-1])), reshape(y, (-1, y.shape[-1]))
    out = contract(contract(rows, w, "ni,oij->noj"), columns, "noj,nj->no")
    out = reshape(out, (*x.shape[:-1], w.shape[0]))
    return out if bias is None else out + bias
