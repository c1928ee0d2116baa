"""What stands in the place of a tensor's array while an upper layer puts ops off."""

from __future__ import annotations

from typing import Any


class Later:
    """An array that is computed when it is asked for. Its shape and dtype are known.

    `Tensor(data)` holds it like an array. Code that needs an array itself asks for it by `array`.
    """

    __slots__ = ()

    def array(self, how: str) -> Any:
        """The array, for code that asks for it by `how`."""
        raise NotImplementedError

    def held_by(self, tensor: Any) -> Any:
        """What a tensor made of this value holds: the array, or this until the array is there."""
        raise NotImplementedError


def held_by(tensor: Any, data: Any) -> Any:
    """What a tensor made of `data` holds."""
    return data.held_by(tensor) if isinstance(data, Later) else data


def array_of(data: Any, how: str) -> Any:
    """The array that `data` stands for; anything else as it is."""
    return data.array(how) if isinstance(data, Later) else data
