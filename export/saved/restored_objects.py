"""The objects of a saved state, made again from their rows."""

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
    """What stands for an object of a user's class: some of its attributes."""


class Cells:
    """What stands for a function: the variables of its closure."""

    def __init__(self, count: int) -> None:
        self.__closure__ = tuple([types.CellType() for _ in range(count)])


class Heap:
    """The objects of a state: each is made when it is first asked for."""

    def __init__(self, rows: list[Any], of: Decoder) -> None:
        self._rows, self._of = rows, of
        self._made: dict[int, Any] = {}
        self.tensors: dict[str, Tensor] = {}  # by name, without gradients

    def cell(self, cell: list[Any]) -> Any:
        """What stands at a place."""
        kind, value = cell
        return self._of.value(value) if kind == "plain" else self._object(value)

    def _object(self, number: int) -> Any:
        if number not in self._made:
            tag, *parts = self._rows[number]
            make, fill = _KINDS[tag]
            made = make(self, parts)
            self._made.setdefault(number, made)
            fill(self, self._made[number], parts)
        return self._made[number]

    # ---- the kinds of rows: an empty object, and what fills it
    def tensor(self, parts: list[Any]) -> Tensor:
        made: Tensor = object.__new__(_TENSORS[parts[0]])
        made._data, made._base, made._grad = self._of.array(*parts[1]), None, None
        made.edge = Leaf(made) if parts[2] else None
        return made

    def fill_tensor(self, made: Tensor, parts: list[Any]) -> None:
        made._grad = self.cell(parts[3])
        name = base = parts[4]
        count = 1
        while name in self.tensors:
            name, count = f"{base}#{count}", count + 1
        if name:
            self.tensors[name] = made

    def elements(self, parts: list[Any]) -> Any:
        cls = _CONTAINERS[parts[0]]
        if cls is deque:
            return deque(maxlen=parts[2])
        return cls() if cls is list else cls(map(self.cell, parts[1]))

    def fill_elements(self, made: Any, parts: list[Any]) -> None:
        if isinstance(made, (list, deque)):
            made.extend(map(self.cell, parts[1]))

    def fill_items(self, made: dict[Any, Any], parts: list[Any]) -> None:
        made.update((self._of.value(key), self.cell(cell)) for key, cell in parts[0])

    def fill_cells(self, made: Cells, parts: list[Any]) -> None:
        for cell, content in zip(made.__closure__, parts[0]):
            cell.cell_contents = self.cell(content)
        made.__dict__.update((name, self.cell(cell)) for name, cell in parts[1])

    def fill_attributes(self, made: Holder, parts: list[Any]) -> None:
        made.__dict__.update((name, self.cell(cell)) for name, cell in parts[0])


def _nothing(heap: Heap, made: Any, parts: list[Any]) -> None:
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
