"""Writes values at indices of run time, as x[indices] = v does."""

from __future__ import annotations

from typing import Any

from ...arrays.shapes import TensorType, product
from ...core.dispatch import apply
from ...core.op import Op, define
from ...core.tensor import Tensor
from ..batching import written_at
from ..create import iota, zeros_like
from ..elementwise.pointwise import equal, where
from ..shape.take import check_indices, take_op
from ..shape.view import expand_to, reshape


def _impl(xp: Any, x: Any, v: Any, i: Any) -> Any:
    check_indices("index_put", i, x.shape[0], 0)
    out = x.copy()
    xp.put(out, i, v)
    return out


def _vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, v: Tensor, i: Tensor) -> list[Any]:
    """The gradients of `x` and `v`. Overwritten elements of either have the gradient 0."""
    gx = index_put(g, zeros_like(v), i) if needs[0] else None
    if not needs[1]:
        return [gx, None, None]
    number = reshape(iota((product(i.shape),), 0, device=x.device), i.shape)
    stays = index_put(iota(x.shape[:1], 0, device=x.device), number, i)
    last = apply(take_op, (stays, i), {"axis": 0})
    counts = reshape(equal(last, number), (*i.shape, *(1,) * (x.ndim - 1)))
    return [gx, where(counts, apply(take_op, (g, i), {"axis": 0}), 0.0), None]


index_put_op = define(Op(
    "index_put", "scatter_rows", lambda x, v, i: TensorType(x.shape, x.dtype), _impl, None, _vjp,
    why={"onnx": "ONNX does not define which of several values for one index stays"},
    bounds=lambda x, v, i: ((2, x.shape[0]),), batch=written_at, stored=True))


def index_put(x: Tensor, v: Tensor, i: Tensor) -> Tensor:
    """`x` with v[j] written to x[i[j]], for each j in order: the last value for an index stays.

    `v` broadcasts to the shape of `i` followed by the other axes of `x`.
    """
    return apply(index_put_op, (x, expand_to(v, (*i.shape, *x.shape[1:])), i))
