"""Divides gradients into buckets, which ranks reduce one after the other during a backward."""

from __future__ import annotations

from collections.abc import Sequence

from ..eager.core.tensor import Tensor

BUCKET_MB = 25.0
_SMALLEST = 1 << 20  # bytes; the latency of smaller sums is as long as they take
_FEWEST = 16  # no computation hides the last bucket, so it is a small part of all


def bucket_size(total: float, limit: float) -> float:
    """The bytes from which on a bucket is full.

    Buckets of one size keep a link busy that is as fast as the backward. Smaller ones behind a
    large one would wait for it.

    Args:
        total: bytes of all gradients.
        limit: bytes of the largest bucket.
    """
    return min(limit, max(_SMALLEST, total / _FEWEST))


def buckets(parameters: Sequence[Tensor], limit: int) -> list[list[Tensor]]:
    """Parameters in order, in lists of one dtype with at most `limit` bytes, or one parameter."""
    full = bucket_size(sum(map(_bytes, parameters)), limit)
    found: list[list[Tensor]] = []
    held = 0
    for p in parameters:
        size = _bytes(p)
        if not found or p.dtype != found[-1][0].dtype or held >= full or held + size > limit:
            found.append([])
            held = 0
        found[-1].append(p)
        held += size
    return found


def _bytes(p: Tensor) -> int:
    return p.size * p.dtype.itemsize
