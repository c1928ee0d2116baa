"""What calls of layers return: tensors, alone or in lists, tuples and dictionaries."""

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
