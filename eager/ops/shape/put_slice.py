"""Replaces a slice of a tensor: the op behind x[start:stop] = v."""

from __future__ import annotations

from typing import Any

from ...core.dispatch import apply
from ...core.op import Op, Source, define
from ...core.tensor import Tensor
from ..batching import prefixed
from ..create import zeros_like
from .view import as_slice, slice_axes, unslice_read


def _read(k: Any, index: Any, types: Any, at: Any, start: Any, step: Any, **rest: Any) -> Any:
    inner = unslice_read(k, index, [types[1]], at, types[0].shape, start, step, 0)[0]
    return [Source(1, inner.index, inner.mask), Source(0, tuple(index))]


def _impl(xp: Any, x: Any, v: Any, start: Any, step: Any) -> Any:
    out = x.copy()
    out[tuple(as_slice(b, s, n) for b, s, n in zip(start, step, v.shape))] = v
    return out


def _vjp(needs: Any, g: Tensor, out: Tensor, x: Tensor, v: Tensor, start: Any, step: Any) -> Any:
    return [put_slice(g, zeros_like(v), start, step) if needs[0] else None,
            slice_axes(g, start, step, v.shape) if needs[1] else None]


put_slice_op = define(Op(
    "put_slice", "view", lambda x, v, start, step: x, _impl, _read, _vjp,
    batch=prefixed(("start",), ("step",)), stored=True))


def put_slice(x: Tensor, v: Tensor, start: Any, step: Any) -> Tensor:
    """`x` with the slice from `start` on, every `step`-th element, replaced by `v` of its shape."""
    return apply(put_slice_op, (x, v), {"start": tuple(start), "step": tuple(step)})
