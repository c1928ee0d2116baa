"""Lowers arithmetic of Python scalars to instructions of the control VM, with Python's exact
results.

If an int exceeds 64 bits, the call takes the slow path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Node
from ...capture.heap.access_path import Path
from ...capture.scalars.scalar_expr import MATH_FUNCTIONS, OPERATORS, ScalarExpr
from ...capture.sizes.size_expr import SizeExpr
from ...eager.arrays.shapes import TensorType
from ..llvm.control_vm import Opcode
from ..llvm.python_scalars import NAMES
from .assembler import ControlAssembler, ControlOperand, NotNativelyControlled

SCALAR = TensorType((), np.dtype(np.int64))  # as memory; its bits are an int, a bool or a float
_SCALAR_BYTES = 8
LiveValues = Mapping[Any, ControlOperand]  # where nodes are, and numbers that loops carry


class ScalarKind(NamedTuple):
    """A type of Python scalars: its dtype in memory, and its format for `struct`."""

    type: type
    dtype: Any
    view: str


_KINDS = {bool: ScalarKind(bool, np.dtype(np.int64), "q"),
          int: ScalarKind(int, np.dtype(np.int64), "q"),
          float: ScalarKind(float, np.dtype(np.float64), "d")}
_COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")
_RESULTS = dict.fromkeys((*_COMPARISONS, "isnan", "isinf", "isfinite"), bool)
_BITS = ("and", "or", "xor")  # of two bools a bool
_WHOLE = ("trunc", "floor", "ceil", "round")  # of a float an int
_OF_ONE = {*_WHOLE, "neg", "pos", "abs", "invert",
           *MATH_FUNCTIONS.keys() - {"atan2", "copysign", "fmod", "hypot"}}
_MAX_EXPONENT = 64  # of an int that is multiplied by itself


class ScalarArithmetic:
    """Writes instructions that compute scalars. `kinds`: the kind of each scalar operand."""

    def __init__(self, assembler: ControlAssembler) -> None:
        self.assembler = assembler
        self.kinds: dict[ControlOperand, ScalarKind] = {}
        self._constants: dict[Any, ControlOperand] = {}

    def value(self, formula: ScalarExpr, live: LiveValues) -> ControlOperand:
        """The operand that holds the value of a formula, once the written instructions have run."""
        slots: dict[ScalarExpr, ControlOperand] = {}
        for part in formula.parts:
            if part.op == "divmod":
                continue  # its items are computed where they are taken
            if part.op == "getitem" and part.args[0].op == "divmod":
                op = ("floordiv", "mod")[part.args[1].args[0].value]
                slots[part] = self.compute(op, *[slots[a] for a in part.args[0].args])
            elif part.op == "pow" and len(part.args) == 2:
                base, power = part.args
                slots[part] = self._power(slots[base], slots[power], power)
            elif part.op in OPERATORS:
                slots[part] = self.compute(part.op, *[slots[a] for a in part.args])
            elif part.op == "constant":
                slots[part] = self.constant(part.args[0].value)
            elif part.op == "element":
                slots[part] = self._element(part.args[0], live)
            elif part.op == "phi":
                slots[part] = live[part]
            elif part.op == "size":
                slots[part] = self.size(part.args[0])
            else:
                slots[part] = self.argument(part.args[0])
        return slots[formula]

    def argument(self, path: Path) -> ControlOperand:
        """The operand of a number of the arguments."""
        raise NotNativelyControlled("it computes with numbers of the arguments")

    def size(self, size: SizeExpr) -> ControlOperand:
        """The operand of a size."""
        raise NotNativelyControlled("it computes with sizes of the arguments")

    def operand(self, number: ControlOperand, node: Node) -> ControlOperand:
        """A scalar converted to the dtype that a program takes."""
        dtype, kind = node.type.dtype, self.kinds[number].type
        if kind is bool and dtype.kind != "b":
            kind = int
        if kind is int and dtype.kind == "f":
            number, kind = self._emit("float of int", float, number), float
        return self._emit(f"to {dtype.name} of {kind.__name__}", None, number)

    def pinned_copy(self, number: ControlOperand) -> ControlOperand:
        """A copy of a scalar that no loop swaps."""
        return self._copy(number, self.kinds[number])

    def bind_phis(self, phis: Sequence[ControlOperand], numbers: Sequence[ControlOperand]) -> None:
        """Gives the phis of a loop the kinds of their initial values."""
        self.kinds.update((phi, self.kinds[n]) for phi, n in zip(phis, numbers))

    def check_phi_kinds(self, numbers: Sequence[ControlOperand],
                        phis: Sequence[ControlOperand]) -> None:
        """Raises NotNativelyControlled if the value for a phi has another kind."""
        if any(self.kinds[n] != self.kinds[p] for n, p in zip(numbers, phis)):
            raise NotNativelyControlled("a number has another type after an iteration, or on "
                                        "another path")

    def _copy(self, number: ControlOperand, kind: ScalarKind) -> ControlOperand:
        copy = self.assembler.register(_SCALAR_BYTES)
        self.assembler.copy(copy, number, _SCALAR_BYTES)
        self.kinds[copy] = kind
        return copy

    def constant(self, value: Any) -> ControlOperand:
        """The operand of a constant."""
        kind = _KINDS.get(type(value))
        if kind is None or (kind.type is int and not -1 << 63 <= value < 1 << 63):
            raise NotNativelyControlled(f"it computes with {value!r:.40}")
        array = np.array(value, kind.dtype)
        key = kind.type, array.tobytes()  # -0.0 is equal to 0.0
        if key not in self._constants:
            self._constants[key] = self.assembler.constant(array)
            self.kinds[self._constants[key]] = kind
        return self._constants[key]

    def _element(self, node: Node, live: LiveValues) -> ControlOperand:
        return self.element(live[node], node.type.dtype)

    def element(self, operand: ControlOperand, dtype: Any) -> ControlOperand:
        """The only element of an array as a scalar."""
        types = {"b": bool, "i": int, "u": int, "f": float}
        return self._emit(f"of {dtype.name}", types.get(dtype.kind), operand)

    def compute(self, op: str, *operands: ControlOperand) -> ControlOperand:
        """The result of Python's operator on scalars."""
        if len(operands) != (1 if op in _OF_ONE else 2):
            raise NotNativelyControlled(f"Python computes a number: {op} of {len(operands)}")
        kinds = [self.kinds[slot].type for slot in operands]
        if op == "pos" or (op in _WHOLE and float not in kinds):
            return self._as_int(operands[0]) if float not in kinds else operands[0]
        if float in kinds or op == "truediv" or op in MATH_FUNCTIONS:
            return self._of_floats(op, operands)
        bools = op in _BITS and kinds == [bool, bool]
        return self._emit(f"{op} of int", bool if bools else _RESULTS.get(op, int), *operands)

    def _of_floats(self, op: str, operands: Sequence[ControlOperand]) -> ControlOperand:
        """The result of an operator on scalars, of which at least one is a float, of a division, or
        of a function of `math`. Python compares ints and floats exactly, and divides ints exactly.
        Otherwise it rounds ints to floats."""
        kinds = [self.kinds[slot].type for slot in operands]
        exact = op in _COMPARISONS or (op == "truediv" and float not in kinds)
        return self._emit(f"{op} of float", int if op in _WHOLE else _RESULTS.get(op, float),
                          *self._floats(operands, exact))

    def _floats(self, operands: Sequence[ControlOperand], exact: bool) -> list[ControlOperand]:
        """The operands as floats. exact: floats that equal them, in place of the nearest ones."""
        name = "float of int" if exact else "rounded of int"
        return [slot if self.kinds[slot].type is float else self._emit(name, float, slot)
                for slot in operands]

    def _power(self, base: ControlOperand, power: ControlOperand, formula: ScalarExpr
               ) -> ControlOperand:
        """A power. An int is multiplied by itself; the power has to be a constant then."""
        if float in (self.kinds[base].type, self.kinds[power].type):
            return self._emit("pow of float", float, *self._floats([base, power], False))
        exponent = formula.args[0].value if formula.op == "constant" else -1
        if not 0 <= exponent <= _MAX_EXPONENT:
            raise NotNativelyControlled("Python computes a number: a power of an int")
        result = self.constant(1)
        for _ in range(exponent):
            result = self.compute("mul", result, base)
        return result

    def _as_int(self, number: ControlOperand) -> ControlOperand:
        """An int or a bool as an int."""
        if self.kinds[number].type is int:
            return number
        return self.compute("add", number, self.constant(0))

    def _emit(self, name: str, kind: type | None, *operands: ControlOperand) -> ControlOperand:
        """Writes one operation; returns its result, a scalar of this kind or an operand of a
        program."""
        if name not in NAMES or len(operands) > 2:
            raise NotNativelyControlled(f"Python computes a number: {name}")
        result = self.assembler.register(_SCALAR_BYTES)
        self.assembler.add(Opcode.SCALAR, NAMES.index(name), result, operands[0], operands[-1])
        if kind is not None:
            self.kinds[result] = _KINDS[kind]
        return result
