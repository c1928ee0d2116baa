"""Values that a native call of control flow needs besides its arrays: numbers and sizes.

Each lies in an array that follows the arrays of tensors. Arrays that depend on sizes are made once
for each set of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capture.heap.access_path import Path
from ...capture.sizes.size_expr import SizeExpr, SizeSymbol
from ...capture.sizes.symbolic_dim import Dim, size_expr_of
from ...eager.arrays.shapes import TensorType
from ..dynamic.dynamic_program import DynamicProgram
from ..dynamic.specializations import DynamicExecutable
from ..ir.sizes import bounded_size, is_dynamic, rebound, upper_bound
from ..program.prepacked_executable import PrepackedExecutable
from .assembler import ControlAssembler, ControlOperand, NotNativelyControlled
from .scalar_arithmetic import ScalarArithmetic

Sizes = Mapping[str, int]
NUMBER_DTYPES = {int: np.dtype(np.int64), float: np.dtype(np.float64)}


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
        packed: dict[int, list[Any]] = {}
        given = iter(numbers)
        for value in self.made_in_calls:
            if isinstance(value, Path):
                yield np.array(next(given), self.numbers[value])
                continue
            key = id(value.program)
            if key not in packed:
                packed[key] = value.program.packed([arrays[i] for i in value.inputs])
            yield packed[key][value.number]

    def _added(self, make: Callable[[Sizes], Any] | None) -> ControlOperand:
        self.makers.append(make)
        return ControlOperand("array", self.first + len(self.makers) - 1)


class ArgumentArithmetic(ScalarArithmetic):
    """Computes with numbers and sizes of the arguments, too."""

    def __init__(self, assembler: ControlAssembler, extra: ExtraArrays,
                 type_of: Callable[[Path], type]) -> None:
        """type_of: the guarded type of the number at a path."""
        super().__init__(assembler)
        self._extra, self._type_of = extra, type_of

    def argument(self, path: Path) -> ControlOperand:
        kind = self._type_of(path)
        if kind not in NUMBER_DTYPES:
            raise NotNativelyControlled(f"it computes with a {kind.__name__} of the arguments")
        dtype = NUMBER_DTYPES[kind]
        return self.element(self._extra.number(path, dtype), dtype)

    def size(self, size: SizeExpr) -> ControlOperand:
        total = self.constant(0)
        for monomial, factor in size.terms:
            term = self.constant(factor)
            for atom, power in monomial:
                for _ in range(power):
                    term = self.compute("mul", term, self._atom(atom))
            total = self.compute("add", total, term)
        return total

    def _atom(self, atom: Any) -> ControlOperand:
        if not isinstance(atom, SizeSymbol):
            return self.compute("floordiv", self.size(atom.num), self.size(atom.den))
        name = atom.name
        array = self._extra.of_sizes(("size", name), lambda sizes: np.array(sizes[name], np.int64))
        return self.element(array, np.dtype(np.int64))


class Capacities:
    """The dynamic-shape programs of a tree, and the sizes for which all of them have room."""

    def __init__(self, executables: Sequence[DynamicExecutable], names: Collection[str]) -> None:
        """names: of the sizes that are known when a call begins."""
        self.programs = {each: _program_of(each) for each in executables}
        self._sizes: dict[str, Any] = {}  # with bounds
        for program in self.programs.values():
            if not program.capacity.keys() <= {*names}:
                raise NotNativelyControlled("a size is known only when its values are")
            for name, most in program.capacity.items():
                most = min(most, upper_bound(self._sizes.get(name, most)))
                self._sizes[name] = bounded_size(name, 1, most)

    def have_room(self, sizes: Sizes) -> bool:
        """True if all programs can run with these sizes."""
        return all(program.has_room({name: sizes[name] for name in program.capacity})
                   and executable.has_code_for(sizes)
                   for executable, program in self.programs.items())

    def at_capacity(self, type: TensorType) -> TensorType:
        """A type with its largest sizes."""
        sizes = [self._largest(n) if is_dynamic(n) else n
                 for n in type.shape]
        return TensorType(tuple(sizes), type.dtype)

    def _largest(self, size: Any) -> int:
        if not size_expr_of(size).symbols() <= self._sizes.keys():
            raise NotNativelyControlled("a loop carries a tensor whose size has no bound")
        return upper_bound(rebound(size, self._sizes))


def _program_of(executable: DynamicExecutable) -> DynamicProgram:
    program = executable.program_for_all()
    if program is None:
        raise NotNativelyControlled(f"no program is for all sizes: {executable.refusal}")
    return program


def shape_at(shape: Sequence[Any], sizes: Sizes) -> tuple[int, ...]:
    """A shape of sizes and size expressions, with numbers."""
    return tuple([n.value(sizes) if isinstance(n, SizeExpr) else n for n in shape])


def exprs_of(shape: Sequence[Any]) -> tuple[Any, ...]:
    """A shape with expressions for its symbolic sizes."""
    return tuple([size_expr_of(n) if type(n) is Dim else n for n in shape])
