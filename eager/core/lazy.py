"""Defines lazy arrays, which stand for a tensor's array until an upper layer computes it."""

from __future__ import annotations

from typing import Any

from ..errors import DTypeError


class AbstractLazyArray:
    """An array with a known shape and dtype that is computed on demand.

    `Tensor(data)` holds it like an array. Code that needs a NumPy array calls `array`.
    """

    __slots__ = ()

    def array(self, how: str) -> Any:
        """The computed array; `how` names the operation that needs it."""
        raise NotImplementedError

    def held_by(self, tensor: Any) -> Any:
        """The data of a new tensor: the array if it is computed, else this object."""
        raise NotImplementedError


def held_by(tensor: Any, data: Any) -> Any:
    """The data of a new tensor of `data`: an array, or a lazy array that is not computed yet."""
    if isinstance(data, AbstractLazyArray):
        return data.held_by(tensor)
    if isinstance(data, (int, float, complex, list, tuple)):
        raise DTypeError(f"Tensor wraps an array as it is, got {data!r:.80}",
                         "fw.tensor takes numbers and lists, fw.zeros and fw.empty take sizes")
    return data


def array_of(data: Any, how: str) -> Any:
    """The computed array of a lazy array; any other `data` unchanged."""
    return data.array(how) if isinstance(data, AbstractLazyArray) else data
