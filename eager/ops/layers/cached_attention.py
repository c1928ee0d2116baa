"""Declares attention to the keys of a cache, of which each query sees as many as it has positions.

Keys and values of many texts are rows of one array, and a table names the row of each position. So
texts of unequal lengths stand side by side without padding, the rows of a text need not be
neighbours, and texts may share rows: Kwon et al., "PagedAttention" (2023). The lengths are read at
run time; a code serves all of them.
"""

from __future__ import annotations

from typing import Any

from ...arrays import dtypes
from ...arrays.shapes import TensorType
from ...core.tensor import Tensor
from ..create import iota
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import cast, greater_equal, less, logical_and, remainder
from ..shape.take import take
from ..shape.view import permute_dims, reshape
from .attention import TILE, attention_op

__all__: list[str] = []


def cached_attention(query: Tensor, keys: Tensor, values: Tensor, table: Tensor, positions: Tensor,
                     *, scale: float, window: int | None = None) -> Tensor:
    """softmax(query @ keys.mT * scale) @ values over the keys that a query sees: (n, heads, l, v).

    A query at position p sees the keys at positions 0 to p, or the last `window` of them. At a
    position below 0 it sees none, and the result is 0.

    Args:
        query: (n, heads, l, e).
        keys: (rows, key_heads, e). Each head serves heads / key_heads heads of the query.
        values: (rows, key_heads, v), of the dtype of the keys.
        table: (n, columns), int64. Position p of text i is row table[i, p % columns].
        positions: (n, l), int64, of the queries.
        scale: the factor of the products.
        window: how many keys a query sees at most, no more than columns. Default None: all.
    """
    wide = cast(query, dtypes.float32) if query.dtype.itemsize == 2 else query
    out = call(cached_attention_op, wide, keys, values, table, positions, scale=float(scale),
               window=window or 0)
    return cast(out, query.dtype)


def _attention(query: Tensor, keys: Tensor, values: Tensor, table: Tensor, positions: Tensor, *,
               scale: float, window: int) -> Tensor:
    mask = _visible(table, positions, window)
    key, value = (cast(_of_texts(x, table), query.dtype) for x in (keys, values))
    return call(attention_op, query, key, value, mask, causal=False, scale=scale,
                groups=query.shape[1] // keys.shape[1])


def _visible(table: Tensor, positions: Tensor, window: int) -> Tensor:
    """True where a query sees the key in a column of the table: (n, 1, l, columns)."""
    n, length = positions.shape
    queries = reshape(positions, (n, 1, length, 1))
    columns = iota((table.shape[1],), 0, device=table.device)
    behind = remainder(queries - columns, table.shape[1])  # positions from the key to the query
    seen = greater_equal(queries, behind)
    return logical_and(seen, less(behind, window)) if window else seen


def _of_texts(rows: Tensor, table: Tensor) -> Tensor:
    """The rows of each text, by heads: (n, key_heads, columns, features)."""
    return permute_dims(take(rows, table, axis=0), (0, 2, 1, 3))


def _result(query: TensorType, keys: TensorType, values: TensorType, *rest: TensorType,
            **params: Any) -> TensorType:
    return TensorType((*query.shape[:-1], values.shape[-1]), query.dtype)


def has_few_queries(length: Any) -> bool:
    """True if a text has too few queries for the kernel of whole tiles."""
    return type(length) is int and length < TILE


# Inputs: query, keys, values, table and positions. window: 0 stands for none.
cached_attention_op = composite("cached_attention", _attention, _result, whole=True)
