"""Reads the indices and values that containers take, and raises the errors for wrong ones."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from ...core.tensor import Tensor
from ...errors import DTypeError, IndexingError
from .module import Module


class NamedContainer(Module):
    """Base of containers that hold their values by name, as a dict does."""

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of a name and a value."""
        raise NotImplementedError


def position(container: Any, index: Any) -> int:
    """`index`, which may count from the end, as a position from the start; else IndexingError."""
    i, n = operator.index(index), len(container)
    if not -n <= i < n:
        raise out_of_range(container, i)
    return i % n


def out_of_range(container: Any, index: int) -> IndexingError:
    """The error for an index outside of `container`."""
    return IndexingError(f"index {index} is out of range for a {type(container).__name__} of "
                         f"{len(container)}")


def listed_values(container: Any, method: str, values: Any) -> list[Any]:
    """The argument `values` of `method` as a new list, since it may be the container itself."""
    if isinstance(values, Tensor) or not isinstance(values, Iterable):
        raise DTypeError(f"{type(container).__name__}.{method}: takes a list or another iterable, "
                         f"not {type(values).__name__}", "put it into a list: [x]")
    return list(values)


def named_pairs(container: Any, values: Any) -> Iterable[tuple[str, Any]]:
    """The (name, value) pairs of a dict, a container with names, or an iterable of pairs."""
    if isinstance(values, (Mapping, NamedContainer)):
        return list(values.items())
    pairs = listed_values(container, "update", values)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise DTypeError(f"{type(container).__name__}.update: element {i} is "
                             f"{type(pair).__name__}, not a pair of a name and a value",
                             "pass a dict, or a list of pairs")
    return pairs
