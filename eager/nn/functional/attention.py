"""Attention: sums of values, weighted by how well their keys go with a query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import interpreter
from ...arrays import dtypes
from ...arrays.shapes import same
from ...core.dispatch import LARGE
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops.create import full
from ...ops.elementwise.casting import lowered
from ...ops.elementwise.composite import call
from ...ops.elementwise.pointwise import cast, logical_not, logical_or, where
from ...ops.layers.attention import NEVER, TILE, attention_op, weighted, weights_of
from ...ops.reduction.reduce import mean
from ...ops.shape.join import concat, split
from ...ops.shape.view import broadcast_to, expand_dims, permute_dims, reshape, squeeze, unslice
from .affine import linear
from .dropouts import dropout

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


@lowered
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.mT * scale + attn_mask) @ value: query (..., l, e), key (..., s, e) and
    value (..., s, v) to (..., l, v).

    attn_mask (..., l, s): True where a query may look at a key, or numbers that are added.
    is_causal: query i may look at keys 0 to i. scale: 1 / sqrt(e) for None. dropout_p: the share of
    weights that are set to 0, whether training or not. enable_gqa: each head of key and value,
    axis -3, is that of several heads of query. A query that may look at nothing gives 0.
    Vaswani et al. 2017; grouped heads: Ainslie et al. 2023.

    >>> import fusewire as fw
    >>> x = fw.tensor([[1.0], [2.0]])
    >>> fw.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    tensor([[1.      ],
            [1.880797]])
    """
    name = "scaled_dot_product_attention"
    query, key, value = (as_tensor(name, x) for x in (query, key, value))
    _check_shapes(name, query, key, value)
    mask = None if attn_mask is None else _checked_mask(name, attn_mask)
    groups = _groups(name, query, key, value) if enable_gqa else 1
    return _attended(query, key, value, mask, is_causal, scale, dropout_p, groups)


def _check_shapes(name: str, query: Tensor, key: Tensor, value: Tensor) -> None:
    shapes = query.shape, key.shape, value.shape
    if min(map(len, shapes)) < 2 or shapes[0][-1] != shapes[1][-1] or \
            shapes[1][-2] != shapes[2][-2]:
        raise ShapeError(f"{name}: takes query (..., l, e), key (..., s, e) and value (..., s, v), "
                         "got {}, {} and {}".format(*shapes),
                         "sizes of one letter are equal; an axis of heads stands before l and s")


def _checked_mask(name: str, mask: Any) -> Tensor:
    mask = as_tensor(name, mask)
    if dtypes.kind(mask.dtype) not in "bf":
        raise DTypeError(f"{name}: a mask is bool, or numbers to add, not {mask.dtype.name}",
                         "compare it, as in mask != 0")
    return mask


def _is_bool(mask: Tensor) -> bool:
    return mask.dtype == dtypes.bool


def _groups(name: str, query: Tensor, key: Tensor, value: Tensor) -> int:
    """How many heads of `query` there are for each head of `key` and `value`."""
    if min(query.ndim, key.ndim, value.ndim) < 3 or key.shape[-3] != value.shape[-3] or \
            query.shape[-3] % key.shape[-3]:
        raise ShapeError(f"{name}: with enable_gqa the heads of query {query.shape} are a multiple "
                         f"of those of key {key.shape} and value {value.shape}, axis -3")
    return query.shape[-3] // key.shape[-3]  # type: ignore[no-any-return]


@lowered
def _attended(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool,
    scale: float | None, dropout_p: float, groups: int = 1,
) -> Tensor:
    """The sums of values."""
    dtype = query.dtype
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    query, key, value = map(_wide, (query, key, value))
    if not dropout_p and _is_one_op(query, key, value, mask, scale, groups):
        given = (query, key, value) if mask is None else (query, key, value, mask)
        out = call(attention_op, *given, causal=bool(causal), scale=float(scale), groups=groups)
    else:
        weights, some = weights_of(query, key, mask, causal, scale, groups)
        out = weighted(dropout(weights, dropout_p), value, some, groups)
    return cast(out, dtype)


def _wide(x: Tensor) -> Tensor:
    """`x`, or in float32: small floats are too coarse for what lies between."""
    return cast(x, dtypes.float32) if x.dtype.itemsize == 2 else x


def _is_one_op(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: Any,
               groups: int) -> bool:
    """Whether nothing is broadcast but the mask, and only to what there is; all dtypes are one; and
    somebody records, or the op has a kernel. NumPy would find the weights twice for gradients."""
    if not (interpreter.in_use or _is_large(query, key)):
        return False
    if not isinstance(scale, (int, float)) or not isinstance(groups, int) or \
            len({x.dtype for x in (query, key, value)}) > 1 or dtypes.kind(query.dtype) != "f":
        return False
    lead = query.shape[:-2]
    of_groups = lead if groups == 1 else (*lead[:-1], lead[-1] // groups)
    if not same(key.shape[:-2], of_groups) or not same(value.shape[:-2], of_groups):
        return False
    return mask is None or _fits(mask.shape, (*query.shape[:-1], key.shape[-2]))


def _is_large(query: Tensor, key: Tensor) -> bool:
    return query.dtype == dtypes.float32 and query.shape[-2] >= TILE \
        and max(query.size, key.size) >= LARGE


def _fits(shape: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Whether a shape can be broadcast to `whole`."""
    return len(shape) <= len(whole) and all(
        n == 1 or n == m for n, m in zip(reversed(shape), reversed(whole)))


# ---- several heads, with projections before and after
class Projection(NamedTuple):
    """A linear function of features: weight (embed_dim, features), bias (embed_dim,) or None."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class Heads(NamedTuple):
    """What attention of several heads computes with."""

    number: int  # of heads
    projections: tuple[Any, Any, Any]  # of query, key and value: functions of features
    out: Any  # that of the result
    bias_k: Tensor | None = None  # (1, 1, embed_dim): one more key
    bias_v: Tensor | None = None  # and its value
    add_zero_attn: bool = False  # one more key and value of zeros


@lowered
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
    bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What `nn.MultiheadAttention` gives, from its parameters: (l, n, embed_dim), and the weights.

    query (l, n, embed_dim), key and value (s, n, features), or all without n. static_k, static_v
    (n * num_heads, s, embed_dim // num_heads): used in place of the projected key and value.
    """
    if query.shape[-1] != embed_dim_to_check:
        raise ShapeError(f"multi_head_attention_forward: query {query.shape} ends in "
                         f"{query.shape[-1]}, not in embed_dim {embed_dim_to_check}")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else \
        thirds(in_proj_weight)
    heads = Heads(num_heads, projections(weights, thirds(in_proj_bias)),
                  Projection(out_proj_weight, out_proj_bias), bias_k, bias_v, add_zero_attn)
    return multi_head(heads, query, key, value, 1, dropout_p if training else 0.0,
                      key_padding_mask, attn_mask, need_weights, average_attn_weights, is_causal,
                      static_k, static_v)


def thirds(packed: Tensor | None) -> tuple[Any, Any, Any]:
    """The parts for query, key and value of a weight or bias that holds all three."""
    if packed is None:
        return None, None, None
    if packed.shape[0] % 3:
        raise ShapeError(f"multi_head_attention_forward: a packed weight or bias {packed.shape} "
                         "holds the rows of query, key and value: three times embed_dim")
    q, k, v = split(packed, packed.shape[0] // 3)
    return q, k, v


def projections(weights: tuple[Any, Any, Any], biases: tuple[Any, Any, Any]
                ) -> tuple[Any, Any, Any]:
    """Those of query, key and value."""
    q, k, v = map(Projection, weights, biases)
    return q, k, v


def multi_head(
    heads: Heads, query: Tensor, key: Tensor, value: Tensor, batch_axis: int, dropout_p: float,
    key_padding_mask: Tensor | None = None, attn_mask: Tensor | None = None,
    need_weights: bool = True, average: bool = True, is_causal: bool = False,
    static_k: Tensor | None = None, static_v: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`multi_head_attention_forward`, with the batch in axis 0 or 1."""
    _check_inputs(heads, query, key, value, batch_axis)
    if is_causal and attn_mask is None:
        raise ArgumentError("MultiheadAttention: is_causal=True says what attn_mask is, and that "
                            "was not given", "pass attn_mask=nn.Transformer."
                            "generate_square_subsequent_mask(length) as well")
    if query.ndim == 2:
        if key_padding_mask is not None:
            key_padding_mask = expand_dims(key_padding_mask, 0)
        query, key, value = (expand_dims(x, batch_axis) for x in (query, key, value))
        out, weights = multi_head(
            heads, query, key, value, batch_axis, dropout_p, key_padding_mask, attn_mask,
            need_weights, average, False, static_k, static_v)
        return squeeze(out, batch_axis), None if weights is None else squeeze(weights, 0)
    q, k, v = _of_heads(heads, query, key, value, batch_axis, static_k, static_v)
    mask = _merged(query, key, k.shape, batch_axis, attn_mask, key_padding_mask)
    out, weights = _with_weights(q, k, v, mask, dropout_p) if need_weights else (
        _attended(q, k, v, mask, False, None, dropout_p), None)
    order = (0, 2, 1, 3) if batch_axis == 0 else (2, 0, 1, 3)
    out = heads.out(reshape(permute_dims(out, order), query.shape))
    return out, mean(weights, 1) if average and weights is not None else weights


@lowered
def _with_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float
                  ) -> tuple[Tensor, Tensor]:
    """The sums of values, and the weights they were added with."""
    dtype, scale = query.dtype, 1 / math.sqrt(query.shape[-1])
    query, key, value = map(_wide, (query, key, value))
    weights, some = weights_of(query, key, mask, False, scale)
    out = weighted(dropout(weights, dropout_p), value, some)
    return cast(out, dtype), cast(weights if some is None else where(some, weights, 0.0), dtype)


def _check_inputs(heads: Heads, query: Tensor, key: Tensor, value: Tensor, batch_axis: int
                  ) -> None:
    shapes = query.shape, key.shape, value.shape
    alike = len({*map(len, shapes)}) == 1 and shapes[1][:-1] == shapes[2][:-1]
    if not alike or query.ndim not in (2, 3) or (
            query.ndim == 3 and shapes[0][batch_axis] != shapes[1][batch_axis]):
        raise ShapeError("MultiheadAttention: takes query (l, n, e), key (s, n, k) and value "
                         "(s, n, v), or (n, l, e) and so on with batch_first=True, or all without "
                         "n, got {}, {} and {}".format(*shapes))
    if query.shape[-1] % heads.number:
        raise ArgumentError(f"MultiheadAttention: embed_dim {query.shape[-1]} is not divisible by "
                            f"num_heads {heads.number}")


def _of_heads(
    heads: Heads, query: Tensor, key: Tensor, value: Tensor, batch_axis: int,
    static_k: Tensor | None, static_v: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """What each head sees of query, key and value: (n, heads, length, embed_dim // heads)."""
    q, k, v = (of(x) for of, x in zip(heads.projections, (query, key, value)))
    if heads.bias_k is not None and heads.bias_v is not None:
        k, v = (_with_one_more(x, bias, batch_axis)
                for x, bias in ((k, heads.bias_k), (v, heads.bias_v)))
    q, k, v = (_to_heads(x, heads.number, batch_axis) for x in (q, k, v))
    k, v = (made if given is None else reshape(given, (*made.shape[:2], -1, made.shape[3]))
            for given, made in ((static_k, k), (static_v, v)))
    if heads.add_zero_attn:
        k, v = (_longer(x, 2) for x in (k, v))
    return q, k, v


def _to_heads(x: Tensor, count: int, batch_axis: int) -> Tensor:
    """Features (l, n, e) or (n, l, e) as those of each head: (n, count, l, e // count)."""
    parted = reshape(x, (*x.shape[:2], count, x.shape[2] // count))
    return permute_dims(parted, (0, 2, 1, 3) if batch_axis == 0 else (1, 2, 0, 3))


def _with_one_more(x: Tensor, row: Tensor, batch_axis: int) -> Tensor:
    """Keys or values with one more position, which is the same for all examples."""
    at = 1 - batch_axis
    shape = tuple(1 if i == at else n for i, n in enumerate(x.shape))
    return concat([x, broadcast_to(row, shape)], at)


def _longer(x: Tensor, axis: int, by: int = 1) -> Tensor:
    """`x` with zeros (False) added at the end of `axis`."""
    at = axis % x.ndim
    shape = tuple(n + by if i == at else n for i, n in enumerate(x.shape))
    return unslice(x, shape, (0,) * x.ndim, (1,) * x.ndim, False if _is_bool(x) else 0)


def _merged(
    query: Tensor, key: Tensor, shape: Any, batch_axis: int, attn_mask: Tensor | None,
    padding: Tensor | None,
) -> Tensor | None:
    """Both masks as one that broadcasts to (n, heads, l, s), for keys of `shape` (n, heads, s, e).

    As PyTorch's layers have them, masks are True where a query must not look. Keys behind those
    that were given may be looked at always.
    """
    name, (n, heads, s, _) = "MultiheadAttention", shape
    length, given = query.shape[1 - batch_axis], key.shape[1 - batch_axis]
    masks = []
    if attn_mask is not None:
        mask = _checked_mask(name, attn_mask)
        if mask.shape not in ((length, given), (n * heads, length, given)):
            raise ShapeError(f"{name}: attn_mask must be (l, s) = {(length, given)} or "
                             f"(n * heads, l, s) = {(n * heads, length, given)}, got {mask.shape}")
        masks.append(mask if mask.ndim == 2 else reshape(mask, (n, heads, length, given)))
    if padding is not None:
        mask = _checked_mask(name, padding)
        if mask.shape != (n, given):
            raise ShapeError(f"{name}: key_padding_mask must be (n, s) = {(n, given)}, got "
                             f"{mask.shape}")
        masks.append(reshape(mask, (n, 1, 1, given)))
    if s != given:
        masks = [_longer(mask, -1, s - given) for mask in masks]
    if all(map(_is_bool, masks)):
        return None if not masks else logical_not(
            masks[0] if len(masks) == 1 else logical_or(*masks))
    never = full((), NEVER, query.dtype, query.device)
    added = [where(mask, never, 0.0) if _is_bool(mask) else mask for mask in masks]
    return added[0] if len(added) == 1 else added[0] + added[1]
