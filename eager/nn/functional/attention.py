"""Attention: sums of values, weighted by how well their keys match a query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import interpreter
from ...arguments import check_number, check_whole, names_itself
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


@names_itself
@lowered
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.mT * scale + attn_mask) @ value: (..., l, v).

    The result is 0 for a query that may not see any key. Vaswani et al. (2017); grouped heads:
    Ainslie et al. (2023).

    Args:
        query: (..., l, e).
        key: (..., s, e).
        value: (..., s, v).
        attn_mask: broadcasts to (..., l, s): True where a query may see a key, or numbers that are
            added. Default None: every query sees every key.
        dropout_p: the share of weights set to 0, also outside of training. Default 0.
        is_causal: True lets query i see keys 0 to i. Default False.
        scale: the factor of the products. Default None: 1 / sqrt(e).
        enable_gqa: True lets each head of key and value, axis -3, serve several heads of query.
            Default False.

    Raises:
        ShapeError: shapes do not fit, or the heads of key do not divide the heads of query.
        DTypeError: `attn_mask` is neither bool nor floating point.
        ArgumentError: `dropout_p` is not from 0 to 1.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor([[1.0], [2.0]])
        >>> fw.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        tensor([[1.      ],
                [1.880797]])
    """
    if scale is not None:
        check_number("scaled_dot_product_attention", "scale", scale)
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
    """The number of heads of `query` for each head of `key` and `value`."""
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
    """The weighted sums of values."""
    dtype = query.dtype
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    query, key, value = map(_wide, (query, key, value))
    if not dropout_p and _is_one_op(query, key, value, mask, scale, groups):
        operands = (query, key, value) if mask is None else (query, key, value, mask)
        out = call(attention_op, *operands, causal=bool(causal), scale=float(scale), groups=groups)
    else:
        weights, some = weights_of(query, key, mask, causal, scale, groups)
        out = weighted(dropout(weights, dropout_p), value, some, groups)
    return cast(out, dtype)


def _wide(x: Tensor) -> Tensor:
    """`x`, in float32 if its dtype has 16 bits: these are too coarse for intermediate results."""
    return cast(x, dtypes.float32) if x.dtype.itemsize == 2 else x


def _is_one_op(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: Any,
               groups: int) -> bool:
    """True if attention can run as one op, and that is better than separate ops.

    Only the mask may broadcast, and all dtypes are equal. A recorder is active, or the op has a
    kernel: NumPy would compute the weights twice for gradients.
    """
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
    """True if a shape broadcasts to `whole`."""
    return len(shape) <= len(whole) and all(
        n == 1 or n == m for n, m in zip(reversed(shape), reversed(whole)))


# ---- several heads, with projections before and after
class Projection(NamedTuple):
    """A linear map of features: weight (embed_dim, features), bias (embed_dim,) or None."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class Heads(NamedTuple):
    """The parameters of attention with several heads."""

    number: int  # of heads
    projections: tuple[Any, Any, Any]  # of query, key and value: functions of features
    out: Any  # that of the result
    bias_k: Tensor | None = None  # (1, 1, embed_dim): one more key
    bias_v: Tensor | None = None  # and its value
    add_zero_attn: bool = False  # one more key and value of zeros


@names_itself
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
    """The result and the weights of `nn.MultiheadAttention`, from its parameters.

    Returns (l, n, embed_dim), and weights (n, l, s), or None without `need_weights`. All inputs may
    lack the axis of samples n.

    Args:
        query, key, value: (l, n, embed_dim), (s, n, features) and (s, n, features).
        embed_dim_to_check: the expected last axis of `query`.
        num_heads: the number of heads, which divides embed_dim.
        in_proj_weight, in_proj_bias: the projections of query, key and value in one:
            (3 * embed_dim, embed_dim) and (3 * embed_dim,), each or None.
        bias_k, bias_v: one more key and its value, (1, 1, embed_dim), or None.
        add_zero_attn: True adds a key and a value of zeros.
        dropout_p: the share of weights set to 0 in training.
        out_proj_weight, out_proj_bias: (embed_dim, embed_dim), and (embed_dim,) or None.
        training: False turns dropout off. Default True.
        key_padding_mask: (n, s): True hides a key, or numbers that are added. Default None.
        need_weights: False returns None for the weights. Default True.
        attn_mask: (l, s) or (n * num_heads, l, s), as `key_padding_mask`. Default None.
        use_separate_proj_weight: True uses the next three, not `in_proj_weight`. Default False.
        q_proj_weight, k_proj_weight, v_proj_weight: (embed_dim, features). Default None.
        static_k, static_v: (n * num_heads, s, embed_dim // num_heads), instead of the
            projected key and value. Default None.
        average_attn_weights: False returns weights by head, (n, num_heads, l, s). Default True.
        is_causal: True declares that `attn_mask` is causal, and requires one. Default False.

    Raises:
        ShapeError: shapes do not fit.
        DTypeError: a mask is neither bool nor floating point.
        ArgumentError: `num_heads` does not divide embed_dim, or `is_causal` lacks a mask.

    Example:
        >>> import fusewire as fw
        >>> x, square = fw.zeros((5, 2, 4)), fw.zeros((4, 4))
        >>> out, weights = fw.nn.functional.multi_head_attention_forward(
        ...     x, x, x, 4, 2, fw.zeros((12, 4)), None, None, None, False, 0.0, square, None)
        >>> out.shape, weights.shape
        ((5, 2, 4), (2, 5, 5))
    """
    _check_numbers(query, embed_dim_to_check, num_heads)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else \
        thirds(in_proj_weight)
    heads = Heads(num_heads, projections(weights, thirds(in_proj_bias)),
                  Projection(out_proj_weight, out_proj_bias), bias_k, bias_v, add_zero_attn)
    return multi_head(heads, query, key, value, 1, dropout_p if training else 0.0,
                      key_padding_mask, attn_mask, need_weights, average_attn_weights, is_causal,
                      static_k, static_v)


def _check_numbers(query: Tensor, embed_dim: int, num_heads: int) -> None:
    check_whole("multi_head_attention_forward", "num_heads", num_heads, 1)
    check_whole("multi_head_attention_forward", "embed_dim_to_check", embed_dim, 1)
    if query.shape[-1] != embed_dim:
        raise ShapeError(f"multi_head_attention_forward: query {query.shape} ends in "
                         f"{query.shape[-1]}, not in embed_dim {embed_dim}")


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
    """The projections of query, key and value."""
    q, k, v = map(Projection, weights, biases)
    return q, k, v


def multi_head(
    heads: Heads, query: Tensor, key: Tensor, value: Tensor, batch_axis: int, dropout_p: float,
    key_padding_mask: Tensor | None = None, attn_mask: Tensor | None = None,
    need_weights: bool = True, average: bool = True, is_causal: bool = False,
    static_k: Tensor | None = None, static_v: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`multi_head_attention_forward` with the batch in axis 0 or 1."""
    _check_inputs(heads, query, key, value, batch_axis)
    if is_causal and attn_mask is None:
        raise ArgumentError("MultiheadAttention: is_causal=True needs attn_mask, which is None",
                            "pass attn_mask=nn.Transformer."
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
    axes = (0, 2, 1, 3) if batch_axis == 0 else (2, 0, 1, 3)
    out = heads.out(reshape(permute_dims(out, axes), query.shape))
    return out, mean(weights, 1) if average and weights is not None else weights


@lowered
def _with_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float
                  ) -> tuple[Tensor, Tensor]:
    """The weighted sums of values, and the weights."""
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
    """Query, key and value of each head: (n, heads, length, embed_dim // heads)."""
    q, k, v = (of(x) for of, x in zip(heads.projections, (query, key, value)))
    if heads.bias_k is not None and heads.bias_v is not None:
        k, v = (_with_one_more(x, bias, batch_axis)
                for x, bias in ((k, heads.bias_k), (v, heads.bias_v)))
    q, k, v = (_to_heads(x, heads.number, batch_axis) for x in (q, k, v))
    k, v = (x if static is None else reshape(static, (*x.shape[:2], -1, x.shape[3]))
            for static, x in ((static_k, k), (static_v, v)))
    if heads.add_zero_attn:
        k, v = (_longer(x, 2) for x in (k, v))
    return q, k, v


def _to_heads(x: Tensor, count: int, batch_axis: int) -> Tensor:
    """Features (l, n, e) or (n, l, e) split by head: (n, count, l, e // count)."""
    parted = reshape(x, (*x.shape[:2], count, x.shape[2] // count))
    return permute_dims(parted, (0, 2, 1, 3) if batch_axis == 0 else (1, 2, 0, 3))


def _with_one_more(x: Tensor, row: Tensor, batch_axis: int) -> Tensor:
    """Keys or values with one more position, which is equal for all samples."""
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

    As in PyTorch's layers, these masks are True where a query must not look. All queries may look
    at the keys that the layer adds behind those of the caller.
    """
    name, (n, heads, s, _) = "MultiheadAttention", shape
    length, key_length = query.shape[1 - batch_axis], key.shape[1 - batch_axis]
    masks = []
    if attn_mask is not None:
        mask = _checked_mask(name, attn_mask)
        if mask.shape not in ((length, key_length), (n * heads, length, key_length)):
            raise ShapeError(f"{name}: attn_mask must be (l, s) = {(length, key_length)} or "
                             f"(n * heads, l, s) = {(n * heads, length, key_length)}, got "
                             f"{mask.shape}")
        masks.append(mask if mask.ndim == 2 else reshape(mask, (n, heads, length, key_length)))
    if padding is not None:
        mask = _checked_mask(name, padding)
        if mask.shape != (n, key_length):
            raise ShapeError(f"{name}: key_padding_mask must be (n, s) = {(n, key_length)}, got "
                             f"{mask.shape}")
        masks.append(reshape(mask, (n, 1, 1, key_length)))
    if s != key_length:
        masks = [_longer(mask, -1, s - key_length) for mask in masks]
    if all(map(_is_bool, masks)):
        return None if not masks else logical_not(
            masks[0] if len(masks) == 1 else logical_or(*masks))
    never = full((), NEVER, query.dtype, query.device)
    added = [where(mask, never, 0.0) if _is_bool(mask) else mask for mask in masks]
    return added[0] if len(added) == 1 else added[0] + added[1]
