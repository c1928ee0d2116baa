"""Stores settings of parameter groups in tensors, and shows them as Python numbers.

A compiled step must see a new learning rate without a new trace, so it reads the rate from a 0-d
tensor. Reading the group gives the number of this moment.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from ...arrays.dtypes import float64
from ...core.tensor import Tensor, tensor
from ...interpreter import Symbol
from ...tensor_methods.methods import update

TENSOR_SETTING = "lr"  # the setting that is stored in a tensor from the start


class Setting:
    """Holds the tensor from which a compiled step reads a setting."""

    __slots__ = ("tensor",)

    def __init__(self, value: Any) -> None:
        self.tensor = tensor(value, dtype=float64)


class ParamGroup(MutableMapping[str, Any]):
    """A dict of parameters ("params") and their settings, whose numbers read as Python numbers.

    If the user assigns a tensor as a setting, reading it gives that tensor.
    """

    __slots__ = ("stored",)
    stored: dict[str, Any]  # as a step needs them: numbers, and a Setting for each that varies

    def __init__(self, settings: Any = ()) -> None:
        self.stored = {}
        self.update(settings)

    def __getitem__(self, name: str) -> Any:
        return _read(self.stored[name])

    def __setitem__(self, name: str, value: Any) -> None:
        self.stored[name] = _assigned(self.stored.get(name), value, name == TENSOR_SETTING)

    def __delitem__(self, name: str) -> None:
        del self.stored[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def __contains__(self, name: object) -> bool:
        return name in self.stored

    def copy(self) -> dict[str, Any]:
        """A plain dict of the present settings."""
        return dict(self)

    def __copy__(self) -> ParamGroup:
        return ParamGroup(self)

    def __or__(self, other: Any) -> dict[str, Any]:
        return {**self, **other}

    def __ror__(self, other: Any) -> dict[str, Any]:
        return {**other, **self}

    def __ior__(self, other: Any) -> ParamGroup:
        self.update(other)
        return self

    def __repr__(self) -> str:
        return repr(dict(self))

    def vary(self, name: str, value: Any, index: int | None = None) -> None:
        """Sets a number that changes from step to step; with `index` an element of a tuple.

        Compiled steps then read it as an input. A tensor of the user is changed in place.
        """
        old = self.stored[name]
        if index is None:
            self.stored[name] = _varied(old, value)
        else:
            self.stored[name] = (*old[:index], _varied(old[index], value), *old[index + 1:])


def stored(group: Any) -> dict[str, Any]:
    """The settings of a group as a step needs them: numbers, and a Setting for each that varies."""
    settings: dict[str, Any] = group.stored if isinstance(group, ParamGroup) else group
    return settings


def _read(value: Any) -> Any:
    if type(value) is Setting:
        return value.tensor.item()
    return tuple([_read(v) for v in value]) if type(value) is tuple else value


def _assigned(old: Any, value: Any, follow: bool) -> Any:
    """The stored form of a value that the user assigns instead of `old`."""
    if isinstance(value, (np.number, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if type(value) is tuple and type(old) is tuple and len(old) == len(value):
        # a trace treats a tuple as a constant, so numbers in it that change go into tensors
        return tuple([_assigned(o, v, v is not o and v != o) for o, v in zip(old, value)])
    if isinstance(value, bool) or not isinstance(value, (int, float, Symbol)):
        return value
    if type(old) is Setting:
        return _varied(old, value)
    return Setting(value) if follow else value


def _varied(old: Any, value: Any) -> Any:
    if isinstance(old, Tensor):
        return update(old, value)
    if type(old) is not Setting:
        return Setting(value)
    update(old.tensor, value)
    return old
