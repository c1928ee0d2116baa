"""Lowers arithmetic of Python scalars to instructions of the control VM, with Python's exact
results.

If an int exceeds 64 bits, the call takes the slow path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Node
from ...capture.scalars.scalar_expr import OPERATORS, ScalarExpr
from ..llvm.control_vm import Opcode
from ..llvm.python_scalars import NAMES
from .assembler import ControlAssembler, ControlOperand, NotNativelyControlled

SCALAR_BYTES = 8  # bytes
LiveValues = Mapping[Any, ControlOperand]  # where nodes are, and numbers that loops carry


class ScalarKind(NamedTuple):
    """A type of Python scalars: its dtype in memory, and its format for `struct`."""

    type: type
    dtype: Any
    view: str


_KINDS = {bool: ScalarKind(bool, np.dtype(np.int64), "q"),
          int: ScalarKind(int, np.dtype(np.int64), "q"),
          float: ScalarKind(float, np.dtype(np.float64), "d")}
_RESULTS = {"lt": bool, "le": bool, "eq": bool, "ne": bool, "gt": bool, "ge": bool}
_BITS = ("and", "or", "xor")  # of two bools a bool


class ScalarArithmetic:
    """Writes instructions that compute scalars. `kinds`: the kind of each scalar operand."""

    def __init__(self, assembler: ControlAssembler) -> None:
        self.assembler = assembler
        self.kinds: dict[ControlOperand, ScalarKind] = {}

    def value(self, formula: ScalarExpr, live: LiveValues) -> ControlOperand:
        """The operand that holds the value of a formula, once the written instructions have run."""
        slots: dict[ScalarExpr, ControlOperand] = {}
        for part in formula.parts:
            if part.op in OPERATORS:
                slots[part] = self._compute(part.op, [slots[a] for a in part.args])
            elif part.op == "constant":
                slots[part] = self._constant(part.args[0].value)
            elif part.op == "element":
                slots[part] = self._element(part.args[0], live)
            elif part.op == "phi":
                slots[part] = live[part]
            else:
                raise NotNativelyControlled("it computes with numbers or sizes of the arguments")
        return slots[formula]

    def operand(self, number: ControlOperand, node: Node) -> ControlOperand:
        """A scalar converted to the dtype that a program takes."""
        dtype, kind = node.type.dtype, self.kinds[number].type
        if kind is int and dtype.kind == "f":
            number, kind = self._as_float(number), float
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
        copy = self.assembler.register(SCALAR_BYTES)
        self.assembler.copy(copy, number, SCALAR_BYTES)
        self.kinds[copy] = kind
        return copy

    def _constant(self, value: Any) -> ControlOperand:
        kind = _KINDS.get(type(value))
        if kind is None or (kind.type is int and not -1 << 63 <= value < 1 << 63):
            raise NotNativelyControlled(f"it computes with {value!r:.40}")
        slot = self.assembler.constant(np.array(value, kind.dtype))
        self.kinds[slot] = kind
        return slot

    def _element(self, node: Node, live: LiveValues) -> ControlOperand:
        types = {"b": bool, "i": int, "u": int, "f": float}
        dtype = node.type.dtype
        return self._emit(f"of {dtype.name}", types.get(dtype.kind), live[node])

    def _compute(self, op: str, operands: Sequence[ControlOperand]) -> ControlOperand:
        kinds = [self.kinds[slot].type for slot in operands]
        if float in kinds or op == "truediv":
            operands = [slot if kind is float else self._as_float(slot)
                        for slot, kind in zip(operands, kinds)]
            return self._emit(f"{op} of float", _RESULTS.get(op, float), *operands)
        bools = op in _BITS and kinds == [bool, bool]
        return self._emit(f"{op} of int", bool if bools else _RESULTS.get(op, int), *operands)

    def _as_float(self, number: ControlOperand) -> ControlOperand:
        """An int as the float that equals it."""
        return self._emit("float of int", float, number)

    def _emit(self, name: str, kind: type | None, *operands: ControlOperand) -> ControlOperand:
        """Writes one operation; returns its result, a scalar of this kind or an operand of a
        program."""
        if name not in NAMES or len(operands) > 2:
            raise NotNativelyControlled(f"Python computes a number: {name}")
        result = self.assembler.register(SCALAR_BYTES)
        self.assembler.add(Opcode.SCALAR, NAMES.index(name), result, operands[0], operands[-1])
        if kind is not None:
            self.kinds[result] = _KINDS[kind]
        return result
