"""The arrays that a native call of control flow takes behind those of its tensors.

They hold numbers of the arguments, sizes, and the results of prologues. Arrays that depend on sizes
only are made once for each set of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capture.heap.access_path import Path
from ..program.prepacked_executable import PrepackedExecutable
from .assembler import ControlOperand

Sizes = Mapping[str, int]


class PackedBuffer(NamedTuple):
    """A result of the prologue of a program, whose persistent inputs are these arrays of a call."""

    program: PrepackedExecutable
    inputs: tuple[int, ...]
    number: int


class ExtraArrays:
    """The arrays behind those of the tensors, in order."""

    def __init__(self, first: int) -> None:
        """first: the number of arrays of tensors."""
        self.first = first
        self.numbers: dict[Path, np.dtype[Any]] = {}  # with the dtypes of their arrays
        self.makers: list[Callable[[Sizes], Any] | None] = []  # None: made in each call
        self.made_in_calls: list[Path | PackedBuffer] = []  # in the order of these
        self._operands: dict[Any, ControlOperand] = {}

    def number(self, path: Path, dtype: np.dtype[Any]) -> ControlOperand:
        """The array of the number at a path."""
        if path not in self.numbers:
            self.numbers[path] = dtype
        return self._of_call(path)

    def packed(self, buffer: PackedBuffer) -> ControlOperand:
        """The array of a result of a prologue."""
        return self._of_call(buffer)

    def _of_call(self, value: Path | PackedBuffer) -> ControlOperand:
        if value not in self._operands:
            self.made_in_calls.append(value)
            self._operands[value] = self._added(None)
        return self._operands[value]

    def of_sizes(self, key: Any, make: Callable[[Sizes], Any]) -> ControlOperand:
        """An array that make(sizes) returns; equal keys have one array."""
        if key not in self._operands:
            self._operands[key] = self._added(make)
        return self._operands[key]

    def of_call(self, arrays: list[Any], numbers: Sequence[Any]) -> Iterator[Any]:
        """The arrays that are made in each call, from its arrays of tensors and its numbers."""
        packed: dict[Any, list[Any]] = {}  # by program and inputs
        given = iter(numbers)
        for value in self.made_in_calls:
            if isinstance(value, Path):
                yield np.array(next(given), self.numbers[value])
                continue
            key = value.program, value.inputs
            if key not in packed:
                packed[key] = value.program.packed([arrays[i] for i in value.inputs])
            yield packed[key][value.number]

    def _added(self, make: Callable[[Sizes], Any] | None) -> ControlOperand:
        self.makers.append(make)
        return ControlOperand("array", self.first + len(self.makers) - 1)
