"""Iterates over the tensors in a layer's result: one, or nested lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...core.tensor import Tensor


def tensors_in(out: Any) -> Iterator[Tensor]:
    """The tensors of a result, in order."""
    if isinstance(out, Tensor):
        yield out
    elif isinstance(out, (list, tuple, Mapping)):
        for x in out.values() if isinstance(out, Mapping) else out:
            yield from tensors_in(x)
