"""Products summed over shared axes: one op, spelled as an einsum over two tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .. import dtypes
from ..dispatch import apply
from ..errors import ShapeError
from ..op import Op, define, each
from ..shapes import TensorType, broadcast
from ..tensor import Tensor, as_tensor
from .pointwise import cast
from .view import expand_to

__all__ = ["matmul", "tensordot"]


def parts(spec: str) -> tuple[str, str, str]:
    """The letters of left, right and result in "ij,jk->ik"."""
    inputs, _, out = spec.partition("->")
    left, _, right = inputs.partition(",")
    return left, right, out


def _result(x: TensorType, y: TensorType, spec: str) -> TensorType:
    left, right, out = parts(spec)
    sizes: dict[str, Any] = {}
    for letters, t in ((left, x), (right, y)):
        for letter, n in zip(letters, t.shape):
            if sizes.setdefault(letter, n) != n:
                raise ShapeError(f"contract {spec}: axis {letter!r} is {sizes[letter]} on the left "
                                 f"{x.shape} and {n} on the right {y.shape}",
                                 "sizes that are multiplied with each other must be equal")
    return TensorType(tuple(sizes[c] for c in out), x.dtype)


@cache
def _as_matmul(spec: str) -> Callable[[Any, Any], Any]:
    """A function of two arrays that computes the contraction through BLAS."""
    left, right, out = parts(spec)
    batch = [c for c in out if c in left and c in right]
    rows, columns = [c for c in out if c not in right], [c for c in out if c not in left]
    summed = [c for c in left if c not in out]
    to_left = [left.index(c) for c in (*batch, *rows, *summed)]
    to_right = [right.index(c) for c in (*batch, *summed, *columns)]
    made = "".join((*batch, *rows, *columns))
    to_out = [made.index(c) for c in out]

    def run(x: Any, y: Any) -> Any:
        size = dict(zip(left, x.shape)) | dict(zip(right, y.shape))
        b, m, n, k = (tuple(size[c] for c in group) for group in (batch, rows, columns, summed))
        count = [int(np.prod(group, dtype=np.int64)) for group in (m, n, k)]
        x = x.transpose(to_left).reshape(*b, count[0], count[2])
        y = y.transpose(to_right).reshape(*b, count[2], count[1])
        return np.matmul(x, y).reshape(b + m + n).transpose(to_out)

    return run


def _impl(xp: Any, x: Any, y: Any, spec: str) -> Any:
    if spec == "ij,jk->ik":
        return np.matmul(x, y)
    return _as_matmul(spec)(x, y)


def _left_vjp(g: Tensor, out: Tensor, x: Tensor, y: Tensor, spec: str) -> Tensor:
    left, right, made = parts(spec)
    return contract(g, y, f"{made},{right}->{left}")


def _right_vjp(g: Tensor, out: Tensor, x: Tensor, y: Tensor, spec: str) -> Tensor:
    left, right, made = parts(spec)
    return contract(x, g, f"{left},{made}->{right}")


contract_op = define(Op("contract", "contract", _result, _impl, None, each(_left_vjp, _right_vjp)))


def contract(x: Tensor, y: Tensor, spec: str) -> Tensor:
    """The einsum `spec` of two tensors of one dtype, in which every letter of one input stands in
    the other or in the result, and none twice in one place."""
    return apply(contract_op, (x, y), {"spec": spec})


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """The matrix product of the last two axes, the leading axes broadcast; vectors as in NumPy.

    >>> import fusewire as fw
    >>> fw.tensor([[1, 2], [3, 4]]) @ fw.tensor([10, 1])
    tensor([12, 34])
    """
    x, y = as_tensor("matmul", x), as_tensor("matmul", y)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(f"matmul: does not take 0-d tensors, got {x.shape} and {y.shape}",
                         "use x * y")
    x, y = _same_dtype(x, y)
    _check_inner(x, y)
    if y.ndim == 1:
        return contract(x, y, f"{_letters(x.ndim - 1)}k,k->{_letters(x.ndim - 1)}")
    if x.ndim == 1:
        lead = _letters(y.ndim - 2)
        return contract(x, y, f"k,{lead}kn->{lead}n")
    if y.ndim == 2:  # the leading axes of x are rows too
        lead = _letters(x.ndim - 1)
        return contract(x, y, "ij,jk->ik" if x.ndim == 2 else f"{lead}y,yz->{lead}z")
    batch = broadcast("matmul", x.shape[:-2], y.shape[:-2])
    x, y = (expand_to(t, (*batch, *t.shape[-2:])) for t in (x, y))
    lead = _letters(len(batch))
    return contract(x, y, f"{lead}xy,{lead}yz->{lead}xz")


def _letters(count: int) -> str:
    return "abcdefgh"[:count] if count <= 8 else "abcdefghijlmopqrstuvw"[:count]


def _same_dtype(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    dtype = dtypes.promote(x.dtype, y.dtype)
    return cast(x, dtype), cast(y, dtype)


def _check_inner(x: Tensor, y: Tensor) -> None:
    a, b = x.shape[-1], y.shape[-2] if y.ndim > 1 else y.shape[0]
    if a != b:
        turned = y.ndim > 1 and y.shape[-1] == a
        raise ShapeError(
            f"matmul: inner sizes differ: left {x.shape} ends in {a}, right {y.shape} needs {b}",
            "the right side looks transposed: pass y.T" if turned else
            "the last size of the left must equal the second to last of the right")


def tensordot(x: Tensor, y: Tensor, axes: int = 2) -> Tensor:
    """The sum of products over the last `axes` axes of `x` and the first `axes` of `y`."""
    x, y = _same_dtype(as_tensor("tensordot", x), as_tensor("tensordot", y))
    if not isinstance(axes, int) or not 0 <= axes <= min(x.ndim, y.ndim):
        raise ShapeError(f"tensordot: axes {axes!r} for shapes {x.shape} and {y.shape}",
                         "it is how many axes are summed over, no more than either side has")
    a, s, b = (_all_letters[i:i + n] for i, n in
               ((0, x.ndim - axes), (20, axes), (30, y.ndim - axes)))
    return contract(x, y, f"{a}{s},{s}{b}->{a}{b}")


_all_letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
