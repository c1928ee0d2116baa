"""Elements written at places that are known only at run time, as x[indices] = v does."""

from __future__ import annotations

from typing import Any

from ...arrays.shapes import TensorType, product
from ...core.dispatch import apply
from ...core.op import Op, define
from ...core.tensor import Tensor
from ..batching import put_at
from ..create import iota, zeros_like
from ..elementwise.pointwise import equal, where
from ..shape.view import _check_indices, expand_to, reshape, take_op


def _put_impl(xp: Any, x: Any, v: Any, i: Any) -> Any:
    _check_indices("index_put", i, x.shape[0], 0)
    out = x.copy()
    xp.put(out, i, v)
    return out


def _put_vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, v: Tensor, i: Tensor) -> list[Any]:
    """What was written over has no gradient: elements of x, and values but the last of a place."""
    gx = index_put(g, zeros_like(v), i) if needs[0] else None
    if not needs[1]:
        return [gx, None, None]
    number = reshape(iota((product(i.shape),), 0, device=x.device), i.shape)
    stays = index_put(iota(x.shape[:1], 0, device=x.device), number, i)
    last = apply(take_op, (stays, i), {"axis": 0})
    counts = reshape(equal(last, number), (*i.shape, *(1,) * (x.ndim - 1)))
    return [gx, where(counts, apply(take_op, (g, i), {"axis": 0}), 0.0), None]


index_put_op = define(Op(
    "index_put", "put", lambda x, v, i: TensorType(x.shape, x.dtype), _put_impl, None, _put_vjp,
    why={"onnx": "ONNX leaves open which of several values written to one place counts"},
    bounds=lambda x, v, i: ((2, x.shape[0]),), batch=put_at))


def index_put(x: Tensor, v: Tensor, i: Tensor) -> Tensor:
    """`x` with v[j] written to x[i[j]], for each index j in order: the last value of a place stays.

    `v` broadcasts to the shape of `i` and that of the elements of `x`.
    """
    return apply(index_put_op, (x, expand_to(v, (*i.shape, *x.shape[1:])), i))
