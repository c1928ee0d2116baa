"""Rebuilds the objects of a saved state from their rows."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable
from typing import Any

from ...codegen.cache.json_codec import Decoder
from ...eager.core.tape import Leaf
from ...eager.core.tensor import Tensor
from ...eager.nn.base.parameter import Buffer, Parameter


class Holder:
    """A stand-in for an object of a user's class, with the attributes that were saved."""


class Cells:
    """A stand-in for a function, with the variables of its closure."""

    def __init__(self, count: int) -> None:
        self.__closure__ = tuple([types.CellType() for _ in range(count)])


class Heap:
    """The objects of a state. Each is built at its first use."""

    def __init__(self, rows: list[Any], of: Decoder) -> None:
        self._rows, self._of = rows, of
        self._objects: dict[int, Any] = {}
        self.tensors: dict[str, Tensor] = {}  # by name, without gradients

    def cell(self, cell: list[Any]) -> Any:
        """The value of a cell: a plain value, or an object."""
        kind, value = cell
        return self._of.value(value) if kind == "plain" else self._object(value)

    def _object(self, number: int) -> Any:
        if number not in self._objects:
            tag, *parts = self._rows[number]
            make, fill = _KINDS[tag]
            target = make(self, parts)
            self._objects.setdefault(number, target)
            fill(self, self._objects[number], parts)
        return self._objects[number]

    # ---- the kinds of rows: an empty object, and what fills it
    def tensor(self, parts: list[Any]) -> Tensor:
        target: Tensor = object.__new__(_TENSORS[parts[0]])
        target._data, target._view, target._grad = self._of.array(*parts[1]), None, None
        target.edge = Leaf(target) if parts[2] else None
        return target

    def fill_tensor(self, target: Tensor, parts: list[Any]) -> None:
        target._grad = self.cell(parts[3])
        name = base = parts[4]
        count = 1
        while name in self.tensors:
            name, count = f"{base}#{count}", count + 1
        if name:
            self.tensors[name] = target

    def elements(self, parts: list[Any]) -> Any:
        cls = _CONTAINERS[parts[0]]
        if cls is deque:
            return deque(maxlen=parts[2])
        return cls() if cls is list else cls(map(self.cell, parts[1]))

    def fill_elements(self, target: Any, parts: list[Any]) -> None:
        if isinstance(target, (list, deque)):
            target.extend(map(self.cell, parts[1]))

    def fill_items(self, target: dict[Any, Any], parts: list[Any]) -> None:
        target.update((self._of.value(key), self.cell(cell)) for key, cell in parts[0])

    def fill_cells(self, target: Cells, parts: list[Any]) -> None:
        for cell, content in zip(target.__closure__, parts[0]):
            cell.cell_contents = self.cell(content)
        target.__dict__.update((name, self.cell(cell)) for name, cell in parts[1])

    def fill_attributes(self, target: Holder, parts: list[Any]) -> None:
        target.__dict__.update((name, self.cell(cell)) for name, cell in parts[0])


def _nothing(heap: Heap, target: Any, parts: list[Any]) -> None:
    pass


_TENSORS: dict[str, type] = {cls.__name__: cls for cls in (Tensor, Parameter, Buffer)}
_CONTAINERS: dict[str, Any] = {
    cls.__name__: cls for cls in (list, tuple, set, frozenset, deque, bytearray)}
_KINDS: dict[str, tuple[Callable[[Heap, list[Any]], Any],
                        Callable[[Heap, Any, list[Any]], None]]] = {
    "tensor": (Heap.tensor, Heap.fill_tensor),
    "elements": (Heap.elements, Heap.fill_elements),
    "items": (lambda heap, parts: {}, Heap.fill_items),
    "cells": (lambda heap, parts: Cells(len(parts[0])), Heap.fill_cells),
    "attributes": (lambda heap, parts: Holder(), Heap.fill_attributes),
}
