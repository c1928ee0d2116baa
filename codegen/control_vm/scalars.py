"""Python's numbers on the way through a tree: formulas as orders, as far as native code has
Python's own results for them. Where an int grows beyond 64 bits, the call goes the long way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Node
from ...capture.scalars.scalar_expr import OPERATORS, ScalarExpr
from ..llvm.control_vm import Opcode
from ..llvm.python_scalars import NAMES
from .assembler import ControlAssembler, ControlOperand, NotNativelyControlled

NUMBER = 8  # bytes
Known = Mapping[Any, ControlOperand]  # where nodes are, and numbers that loops carry


class ScalarKind(NamedTuple):
    """A type of Python's numbers, how it lies in memory, and how that is read."""

    type: type
    dtype: Any
    view: str


_KINDS = {bool: ScalarKind(bool, np.dtype(np.int64), "q"),
          int: ScalarKind(int, np.dtype(np.int64), "q"),
          float: ScalarKind(float, np.dtype(np.float64), "d")}
_RESULTS = {"lt": bool, "le": bool, "eq": bool, "ne": bool, "gt": bool, "ge": bool}
_BITS = ("and", "or", "xor")  # of two bools a bool


class ScalarArithmetic:
    """Writes the orders that compute numbers. `kinds` says of each number what it is."""

    def __init__(self, orders: ControlAssembler) -> None:
        self.orders = orders
        self.kinds: dict[ControlOperand, ScalarKind] = {}

    def value(self, formula: ScalarExpr, known: Known) -> ControlOperand:
        """Where the value of a formula is, when what is written has been done."""
        slots: dict[ScalarExpr, ControlOperand] = {}
        for part in formula.parts:
            if part.op in OPERATORS:
                slots[part] = self._computed(part.op, [slots[a] for a in part.args])
            elif part.op == "constant":
                slots[part] = self._constant(part.args[0].value)
            elif part.op == "element":
                slots[part] = self._element(part.args[0], known)
            elif part.op == "phi":
                slots[part] = known[part]
            else:
                raise NotNativelyControlled("it computes with numbers or sizes of the arguments")
        return slots[formula]

    def operand(self, number: ControlOperand, node: Node) -> ControlOperand:
        """A number as the scalar of its dtype that a program takes."""
        dtype, kind = node.type.dtype, self.kinds[number].type
        if kind is int and dtype.kind == "f":
            number, kind = self._as_float(number), float
        return self._order(f"to {dtype.name} of {kind.__name__}", None, number)

    def kept(self, number: ControlOperand) -> ControlOperand:
        """A copy of a number that no loop moves."""
        return self._copied(number, self.kinds[number])

    def begin(self, phis: Sequence[ControlOperand], numbers: Sequence[ControlOperand]) -> None:
        """A loop begins, in which numbers have these names."""
        self.kinds.update((phi, self.kinds[n]) for phi, n in zip(phis, numbers))

    def check(self, numbers: Sequence[ControlOperand], phis: Sequence[ControlOperand]) -> None:
        """NotNative where what goes round a loop is another kind of number then."""
        if any(self.kinds[n] != self.kinds[p] for n, p in zip(numbers, phis)):
            raise NotNativelyControlled("a number changes its type in an iteration")

    def _copied(self, number: ControlOperand, kind: ScalarKind) -> ControlOperand:
        made = self.orders.register(NUMBER)
        self.orders.copy(made, number, NUMBER)
        self.kinds[made] = kind
        return made

    def _constant(self, value: Any) -> ControlOperand:
        kind = _KINDS.get(type(value))
        if kind is None or (kind.type is int and not -1 << 63 <= value < 1 << 63):
            raise NotNativelyControlled(f"it computes with {value!r:.40}")
        slot = self.orders.constant(np.array(value, kind.dtype))
        self.kinds[slot] = kind
        return slot

    def _element(self, node: Node, known: Known) -> ControlOperand:
        types = {"b": bool, "i": int, "u": int, "f": float}
        dtype = node.type.dtype
        return self._order(f"of {dtype.name}", types.get(dtype.kind), known[node])

    def _computed(self, op: str, given: Sequence[ControlOperand]) -> ControlOperand:
        kinds = [self.kinds[slot].type for slot in given]
        if float in kinds or op == "truediv":
            given = [slot if kind is float else self._as_float(slot)
                     for slot, kind in zip(given, kinds)]
            return self._order(f"{op} of float", _RESULTS.get(op, float), *given)
        bools = op in _BITS and kinds == [bool, bool]
        return self._order(f"{op} of int", bool if bools else _RESULTS.get(op, int), *given)

    def _as_float(self, number: ControlOperand) -> ControlOperand:
        """An int that a float can be equal to, as one."""
        return self._order("float of int", float, number)

    def _order(self, name: str, kind: type | None, *given: ControlOperand) -> ControlOperand:
        """One operation; where its result is, a number of this kind, or an operand."""
        if name not in NAMES or len(given) > 2:
            raise NotNativelyControlled(f"Python computes a number: {name}")
        made = self.orders.register(NUMBER)
        self.orders.add(Opcode.NUMBER, NAMES.index(name), made, given[0], given[-1])
        if kind is not None:
            self.kinds[made] = _KINDS[kind]
        return made
