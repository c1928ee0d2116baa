"""Sizes of tensors: the tuple `x.shape`, and `x.size`, which is a number that can be called."""

from __future__ import annotations

import math
from typing import Any

from ....eager.arrays.shapes import product


class Size(tuple[Any, ...]):
    """The sizes of the axes of a tensor."""

    __slots__ = ()
    __module__ = "fusewire.torch"

    def numel(self) -> Any:
        """The number of elements."""
        return product(self)

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __getitem__(self, index: Any) -> Any:
        out = tuple.__getitem__(self, index)
        return Size(out) if isinstance(index, slice) else out

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, tuple(other)))


class _Count(int):
    """The number of elements of a tensor; a call returns its sizes, as `x.size()` in PyTorch."""

    shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        return Size(self.shape) if dim is None else self.shape[dim]


class _SymbolicCount:
    """The sizes of a tensor of which some are symbols."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[Any, ...]) -> None:
        self.shape = shape

    def __call__(self, dim: int | None = None) -> Any:
        return Size(self.shape) if dim is None else self.shape[dim]

    def __getattr__(self, name: str) -> Any:
        return getattr(product(self.shape), name)


def callable_size(shape: tuple[Any, ...]) -> Any:
    """The number of elements of a shape; a call returns the sizes, or that of one axis."""
    if all(type(n) is int for n in shape):
        count = _Count(math.prod(shape))
        count.shape = shape
        return count
    return _SymbolicCount(shape)
