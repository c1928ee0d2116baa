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
    """input @ weight.T + bias: (..., n_in) to (..., n_out).

    Args:
        input: a tensor whose last axis has n_in elements.
        weight: (n_out, n_in).
        bias: (n_out,), or None for no bias. Default None.

    Raises:
        ShapeError: `weight` is not a matrix, or the last axis of `input` is not n_in.

    Example:
        >>> import fusewire as fw
        >>> x, weight = fw.tensor([1.0, 2.0]), fw.tensor([[1.0, 1.0], [0.0, 3.0]])
        >>> fw.nn.functional.linear(x, weight, fw.tensor([10.0, 0.0]))
        tensor([13.,  6.])
    """
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
    """A hint for an input of `shape` where its last size is not `n_in`."""
    if len(shape) > 1 and product(shape[1:]) == n_in:
        return "flatten the input first: x.flatten(1), or nn.Flatten()"
    if n_in in shape:
        axis = shape.index(n_in)
        return (f"the last size of the input must be {n_in}; axis {axis} has this size: if it is "
                f"the one of features, x.moveaxis({axis}, -1) makes it the last")
    return f"the last size of the input must be {n_in}"


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 + bias[o] for each o: (..., n1) and (..., n2) to (..., n_out).

    Args:
        input1: (..., n1).
        input2: (..., n2), with the leading axes of `input1`.
        weight: (n_out, n1, n2).
        bias: (n_out,), or None for no bias. Default None.

    Raises:
        ShapeError: `weight` does not have three axes, or the inputs do not fit it or each other.

    Example:
        >>> import fusewire as fw
        >>> x, y = fw.tensor([1.0, 2.0]), fw.tensor([3.0])
        >>> fw.nn.functional.bilinear(x, y, fw.ones((1, 2, 1)))
        tensor([9.])
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
