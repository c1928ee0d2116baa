"""Defines meshes of ranks, and the layouts that cut tensors along their axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..eager.errors import ArgumentError
from .engines.engine import ProcessGroup
from .groups import membership


class P(tuple[Any, ...]):
    """A layout: for each axis of a tensor, the mesh axis that cuts it, or None.

    Example: P("model", None) cuts the first axis among the ranks of the mesh axis "model".
    """

    def __new__(cls, *axes: str | None) -> P:
        return super().__new__(cls, axes)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self))})"


class DeviceMesh:
    """The ranks as an array with named axes. `mesh[name]` is the group along an axis.

    `shape` are the sizes of the axes, `names` their names, `coordinate` the position of this rank.
    """

    def __init__(self, shape: tuple[int, ...], names: tuple[str, ...]) -> None:
        own = membership()
        self.shape, self.names = shape, names
        ranks = np.arange(own.engine.size).reshape(shape)
        self.coordinate = tuple(int(i[0]) for i in np.nonzero(ranks == own.engine.rank))
        self.groups = {name: self._group(ranks, axis) for axis, name in enumerate(names)}

    def _group(self, everybody: Any, axis: int) -> ProcessGroup:
        index: list[Any] = list(self.coordinate)
        index[axis] = slice(None)
        ranks = tuple(map(int, everybody[tuple(index)]))
        return membership().add(ProcessGroup(
            f"{self.names[axis]} of ranks {' '.join(map(str, ranks))}", ranks,
            self.coordinate[axis]))

    def __getitem__(self, name: str) -> ProcessGroup:
        """The group of the ranks that differ from this one along the axis `name` only."""
        if name not in self.groups:
            raise ArgumentError(f"the mesh has no axis {name!r}",
                                f"its axes are {', '.join(map(repr, self.names))}")
        return self.groups[name]

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}={n}" for name, n in zip(self.names, self.shape))
        return f"DeviceMesh({axes})"


def init_device_mesh(shape: Sequence[int], names: Sequence[str]) -> DeviceMesh:
    """A mesh of all ranks. All ranks call this with the same arguments.

    Args:
        shape: sizes of the axes, whose product is the number of ranks. Neighbours along the last
            axis have neighbouring ranks.
        names: a name for each axis, such as "data" and "model".

    Raises:
        ArgumentError: sizes and names do not fit each other or the number of ranks.
    """
    size = membership().engine.size
    if len(shape) != len(names) or len(set(names)) != len(names):
        raise ArgumentError(f"init_device_mesh: {len(shape)} sizes and the names {list(names)}",
                            "give each axis a name of its own")
    if math.prod(shape) != size:
        raise ArgumentError(f"init_device_mesh: the shape {tuple(shape)} has "
                            f"{math.prod(shape)} ranks, the process group {size}",
                            f"choose sizes whose product is {size}")
    return DeviceMesh(tuple(shape), tuple(names))
