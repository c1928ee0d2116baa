"""Declares attention and its gradient as ops: sums of values, weighted by query-key scores.

As one op, it can have kernels of its own, which never write scores and weights to memory: these are
one number for each pair of a query and a key. Targets without such a kernel decompose the op. The
backward computes the weights again from the inputs of the forward.
"""

from __future__ import annotations

from typing import Any

from ...arrays import dtypes
from ...arrays.shapes import TensorType, product
from ...core.tensor import Tensor
from ..create import iota
from ..elementwise.composite import call, composite, derived
from ..elementwise.pointwise import (
    cast,
    greater_equal,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
    where,
)
from ..products.contract import matmul
from ..reduction.reduce import any as any_of
from ..reduction.reduce import sum as sum_of
from ..reduction.softmax import softmax
from ..shape.join import concat, split
from ..shape.view import matrix_transpose, reshape

__all__: list[str] = []

NEVER = -float("inf")  # added to a score if the query must not attend to the key
TILE = 4  # least number of queries for which there is a kernel


def weights_of(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, scale: Any,
               groups: int = 1) -> tuple[Tensor, Tensor | None]:
    """The weight of each key (..., s, e) for each query (..., l, e): (..., l, s).

    The second result, (..., l, 1), is True for queries that may attend to any key; the weights of
    the others are meaningless. None stands for all queries.

    groups: each head of `key`, axis -3, serves that many heads of `query`.
    """
    scores = _of_groups(query * scale, matrix_transpose(key), groups)
    some = None
    if causal:
        before = greater_equal(iota((query.shape[-2], 1), 0, device=key.device),
                               iota((key.shape[-2],), 0, device=key.device))
        if mask is None:  # each query may attend to the first key
            return softmax(where(before, scores, NEVER), -1), None
        mask = logical_and(mask, before) if _is_bool(mask) else where(before, mask, NEVER)
    if mask is not None:
        scores, some = _masked(scores, mask)
    return softmax(scores, -1), some


def weighted(weights: Tensor, value: Tensor, some: Tensor | None, groups: int = 1) -> Tensor:
    """The sums of `value` (..., s, v) with these weights: (..., l, v)."""
    out = _of_groups(weights, value, groups)
    return out if some is None else where(some, out, 0.0)


def _is_bool(mask: Tensor) -> bool:
    return mask.dtype == dtypes.bool


def _of_groups(x: Tensor, y: Tensor, groups: int) -> Tensor:
    """x @ y, where each matrix of `y` serves `groups` matrices of `x`."""
    out = matmul(_together(x, groups), y)
    return out if groups == 1 else reshape(out, (*x.shape[:-1], out.shape[-1]))


def _together(x: Tensor, groups: int) -> Tensor:
    """The matrices of `groups` heads stacked into one."""
    if groups == 1:
        return x
    *lead, heads, rows, columns = x.shape
    return reshape(x, (*lead, heads // groups, groups * rows, columns))


def _masked(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The masked `scores`, and True for queries that may attend to any key.

    The scores of other queries are not masked, since the softmax of -inf alone would be nan.
    """
    some = attends_to_any(mask)
    if _is_bool(mask):
        return where(logical_or(mask, logical_not(some)), scores, NEVER), some
    return scores + where(some, cast(mask, scores.dtype), 0.0), some


def attends_to_any(mask: Tensor) -> Tensor:
    """True for queries (..., l, 1) that may attend to any key, by a mask (..., l, s)."""
    return any_of(mask if _is_bool(mask) else not_equal(mask, NEVER), -1, keepdims=True)


# ---- as ops
def _attention(query: Tensor, key: Tensor, value: Tensor, *mask: Tensor, causal: bool,
               scale: float, groups: int) -> Tensor:
    weights, some = weights_of(query, key, mask[0] if mask else None, causal, scale, groups)
    return weighted(weights, value, some, groups)


def _result(query: TensorType, key: TensorType, value: TensorType, *mask: TensorType,
            **params: Any) -> TensorType:
    return TensorType((*query.shape[:-1], value.shape[-1]), query.dtype)


def _backward(g: Tensor, out: Tensor, query: Tensor, key: Tensor, value: Tensor, *mask: Tensor,
              causal: bool, scale: float, groups: int) -> Tensor:
    weights, some = weights_of(query, key, mask[0] if mask else None, causal, scale, groups)
    g = g if some is None else where(some, g, 0.0)
    along = sum_of(g * out, -1, keepdims=True)
    of_weights = _of_groups(g, matrix_transpose(value), groups)
    of_scores = weights * (of_weights - along) * scale
    grads = (_of_groups(of_scores, key, groups),
             matmul(matrix_transpose(_together(of_scores, groups)), _together(query, groups)),
             matmul(matrix_transpose(_together(weights, groups)), _together(g, groups)))
    return concat([reshape(x, (x.size,)) for x in grads])


def _backward_result(g: TensorType, out: TensorType, *inputs: TensorType, **params: Any
                     ) -> TensorType:
    return TensorType((sum(x.size for x in inputs[:3]),), g.dtype)


def _vjp(needs: tuple[bool, ...], g: Tensor, out: Tensor, *inputs: Tensor, **params: Any) -> Any:
    fixed_sizes = all(isinstance(n, int) for x in inputs for n in x.shape)
    if any(needs[3:]) or not fixed_sizes:
        return _by_its_ops(needs, g, out, *inputs, **params)
    operands = inputs[:3]
    parts = split(call(backward_op, g, out, *inputs, **params), [x.size for x in operands])
    grads = [reshape(part, x.shape) if need else None
             for part, x, need in zip(parts, operands, needs)]
    return [*grads, *[None] * len(inputs[3:])]


def _work(query: TensorType, key: TensorType, value: TensorType, *mask: TensorType, **params: Any
          ) -> float:
    """Nanoseconds of the products and a softmax; 0 if there is no kernel."""
    if query.dtype != dtypes.float32 or query.shape[-2] < TILE:
        return 0.0
    pairs = product(query.shape[:-1]) * key.shape[-2]
    return float(pairs * ((query.shape[-1] + value.shape[-1]) / 50 + 1))


_by_its_ops = derived(_attention)

# The gradients of query, key and value, joined to a vector. Inputs: the gradient of the result, the
# result, and the inputs of attention.
backward_op = composite("attention_back", _backward, _backward_result, whole=True,
                        work=lambda g, out, *inputs, **params: 2 * _work(*inputs))
# Inputs: query, key, value and perhaps a mask, True where a query may attend, or added numbers.
attention_op = composite("attention", _attention, _result, vjp=_vjp, whole=True, work=_work)
