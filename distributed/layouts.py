"""Knows which parameters are shards, and along which groups of ranks they are cut."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..eager.core.in_place import set_array
from ..eager.core.tape import no_grad
from ..eager.core.tensor import Tensor
from ..eager.errors import ShapeError
from .collectives import broadcast
from .engines.engine import ProcessGroup


class Cut(NamedTuple):
    """How the ranks of a group share a tensor of this shape: along an axis, or for None in equal
    parts of its elements in a row, with zeros at the end."""

    group: ProcessGroup
    axis: int | None
    shape: tuple[int, ...]


_CUT: dict[int, tuple[Cut, ...]] = {}  # by the id of a parameter that lives


def mark_cut(parameter: Tensor, cut: Cut) -> None:
    """Notes that a parameter is one of the parts that the ranks of a group share. A parameter that
    is cut several times is noted after each cut, in order."""
    if id(parameter) not in _CUT:
        weakref.finalize(parameter, _CUT.pop, id(parameter), None)
    _CUT[id(parameter)] = (*_CUT.get(id(parameter), ()), cut)


def cuts_of(parameter: Tensor) -> tuple[Cut, ...]:
    """The cuts of a parameter in order; empty for a parameter that each rank has whole."""
    return _CUT.get(id(parameter), ())


def groups_of(parameter: Tensor) -> tuple[ProcessGroup, ...]:
    """The groups among which a parameter is cut."""
    return tuple(cut.group for cut in cuts_of(parameter))


def broadcast_state(tensors: Iterable[Tensor], group: ProcessGroup) -> None:
    """Gives tensors the values that they have on the first rank of a group."""
    with no_grad():
        for tensor in tensors:
            set_array(tensor, broadcast(tensor.detach(), 0, group)._data)


def share(array: Any, group: ProcessGroup, axis: int, what: str) -> Any:
    """This rank's part of an array along an axis. ShapeError if the ranks cannot share it."""
    size = array.shape[axis]
    if size % group.size:
        raise ShapeError(f"{what}: {group.size} ranks cannot share axis {axis} of the shape "
                         f"{tuple(array.shape)}", f"use a size that {group.size} divides")
    length = size // group.size
    index = (slice(None),) * axis + (slice(group.rank * length, (group.rank + 1) * length),)
    return np.ascontiguousarray(array[index])
