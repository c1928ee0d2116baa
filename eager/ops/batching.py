"""Runs ops over a batch at once, for `vmap`: the `batch` rules of the op table.

A rule is batch(op, xs, batched, params) -> tensor. `xs` are the inputs of the op; those for which
`batched` is True have the batch as an additional first axis. The result has it first, too. The
kinds pointwise, reduce, scan, contract and composite need no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays.dtypes import int64
from ..core.dispatch import apply
from ..core.op import OPS, Op
from ..core.tensor import Tensor

Rule = Callable[[Op, tuple[Any, ...], tuple[bool, ...], dict[str, Any]], Tensor]


def batch_size(xs: tuple[Any, ...], batched: tuple[bool, ...]) -> Any:
    """The number of examples."""
    return next(x.shape[0] for x, b in zip(xs, batched) if b)


def all_batched(xs: tuple[Any, ...], batched: tuple[bool, ...]) -> tuple[Any, ...]:
    """`xs` with the batch as first axis of every tensor; tensors without it are repeated."""
    n = batch_size(xs, batched)
    return tuple(repeated(x, n) if isinstance(x, Tensor) and not b else x
                 for x, b in zip(xs, batched))


def repeated(x: Tensor, n: Any) -> Tensor:
    """`x` repeated `n` times along a new first axis."""
    return apply(OPS["broadcast_to"], (x,), {"shape": (n, *x.shape)})


def leading(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
            ) -> Tensor:
    """The rule of an op that works on the last axes and accepts any leading axes."""
    return apply(op, all_batched(xs, batched), params)


def shifted(*names: str) -> Rule:
    """The rule of an op whose params `names` are axes (one or a tuple) counted from the front."""

    def batch(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
              ) -> Tensor:
        moved = {n: tuple(a + 1 for a in params[n]) if isinstance(params[n], tuple)
                 else params[n] + 1 for n in names}
        return apply(op, all_batched(xs, batched), {**params, **moved})

    return batch


def folded(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
           ) -> Tensor:
    """The rule of an op whose inputs and result have examples on their first axis already."""
    xs = all_batched(xs, batched)
    lead = xs[0].shape[:2]
    flat = [_changed("reshape", x, shape=(lead[0] * lead[1], *x.shape[2:])) for x in xs]
    out = apply(op, tuple(flat), params)
    return _changed("reshape", out, shape=(*lead, *out.shape[1:]))


def prefixed(zeros: tuple[str, ...] = (), ones: tuple[str, ...] = (), sizes: tuple[str, ...] = ()
             ) -> Rule:
    """The rule of an op whose params have one entry per axis; the batch gets 0, 1 or its size."""

    def batch(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
              ) -> Tensor:
        first = [(zeros, 0), (ones, 1), (sizes, batch_size(xs, batched))]
        more = {name: (entry, *params[name]) for names, entry in first for name in names}
        return apply(op, all_batched(xs, batched), {**params, **more})

    return batch


def _changed(name: str, x: Tensor, **params: Any) -> Tensor:
    return apply(OPS[name], (x,), params)


def permuted(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
             ) -> Tensor:
    """The rule of permute_dims."""
    return apply(op, xs, {"axes": (0, *(a + 1 for a in params["axes"]))})


def broadcast(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
              ) -> Tensor:
    """The rule of broadcast_to: new axes come after the batch."""
    (x,), shape = xs, (xs[0].shape[0], *params["shape"])
    inner = (1,) * (len(shape) - x.ndim)
    x = _changed("reshape", x, shape=(shape[0], *inner, *x.shape[1:])) if inner else x
    return apply(op, (x,), {"shape": shape})


def taken(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
          ) -> Tensor:
    """The rule of take: with the examples joined to one axis, indices get an offset."""
    (x, i), axis = xs, params["axis"]
    if not batched[1]:
        return apply(op, xs, {"axis": axis + 1})
    if not batched[0]:
        return _moved(apply(op, xs, params), axis, 0)
    count, size = x.shape[0], x.shape[axis + 1]
    flat = _moved(x, axis + 1, 1)
    flat = _changed("reshape", flat, shape=(count * size, *flat.shape[2:]))
    out = apply(op, (flat, _offset("take", i, size)), {"axis": 0})  # (batch, *indices, *others)
    axes = (0, *range(i.ndim, i.ndim + axis), *range(1, i.ndim), *range(i.ndim + axis, out.ndim))
    return _changed("permute_dims", out, axes=axes)


def added_at(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
             ) -> Tensor:
    """The rule of add_at, the gradient of `take`."""
    (values, i), axis, size = xs, params["axis"], params["size"]
    if not batched[1]:
        return apply(op, xs, {"axis": axis + 1, "size": size})
    values, i = all_batched(xs, batched)
    count, width = i.shape[0], i.ndim - 1
    axes = (0, *range(1 + axis, 1 + axis + width), *range(1, 1 + axis),
            *range(1 + axis + width, values.ndim))
    front = _changed("permute_dims", values, axes=axes)  # (batch, *indices, *others)
    out = apply(op, (front, _offset("add_at", i, size)), {"axis": 0, "size": count * size})
    out = _changed("reshape", out, shape=(count, size, *out.shape[1:]))
    return _moved(out, 1, axis + 1)


def written_at(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
               ) -> Tensor:
    """The rule of index_put: with the examples joined to one axis, indices get an offset."""
    x, values, i = all_batched(xs, batched)
    flat = _changed("reshape", x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))
    out = apply(op, (flat, values, _offset("index_put", i, x.shape[1])), params)
    return _changed("reshape", out, shape=x.shape)


def _offset(name: str, i: Tensor, size: Any) -> Tensor:
    """Indices (batch, ...) into an axis of `size`, as indices into all examples' axes joined."""
    checked = apply(OPS["check_index"], (i,), {"size": size, "what": f"{name}: index"})
    number = apply(OPS["iota"], (), {"shape": i.shape, "axis": 0, "dtype": int64})
    return checked + number * size  # int64: small dtypes could not count all examples


def _moved(x: Tensor, source: int, target: int) -> Tensor:
    """`x` with the axis `source` moved to `target`."""
    rest = [a for a in range(x.ndim) if a != source]
    return _changed("permute_dims", x, axes=(*rest[:target], source, *rest[target:]))
