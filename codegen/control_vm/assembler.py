"""The orders that native code follows through a tree, while they are written, and as it reads them.

What they are about has numbers, of which nobody knows at first how they will come to lie: slots.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..llvm.control_vm import COUNTS, Opcode
from ..program.arena import padded
from ..program.executable import Executable

_COPIED = 1 << 18  # bytes: whatever is larger is not copied from one place to another
_TURN_NANOSECONDS = 50  # what it takes to go from one program to the next, at least


class ControlOperand(NamedTuple):
    """Where a value is: the array of a number, a constant, a result, or a register."""

    kind: str
    number: int


class NotNativelyControlled(Exception):
    """Why the ways of a tree are no native call."""


@dataclass
class ControlAssembler:
    """Orders, and all that they are about."""

    written: list[list[Any]] = field(default_factory=list)
    lists: list[ControlOperand] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    registers: list[int] = field(default_factory=list)  # where in the arena they are
    results: list[Any] = field(default_factory=list)  # shapes and dtypes of arrays
    programs: list[Executable] = field(default_factory=list)
    top: int = 0  # where in the arena the next register may begin
    size: int = 0  # bytes of all registers

    def __len__(self) -> int:
        return len(self.written)

    def add(self, what: Opcode, *words: Any) -> list[Any]:
        """One more order, which may be changed."""
        order = [what, *words, *[0] * (4 - len(words))]
        self.written.append(order)
        return order

    def run(self, program: Executable, given: Sequence[ControlOperand],
            results: Sequence[ControlOperand]
            ) -> list[ControlOperand]:
        """Runs a program; where its outputs are."""
        interface, native = program.interface, program.program
        table = [*given, *map(self.constant, interface.constants), *results]
        if native.steps:
            cost = _TURN_NANOSECONDS + round(min(native.cost, 1e15))
            self.add(Opcode.RUN, native.address, len(self.lists), len(table), cost)
            self.lists += table
            self.programs.append(program)
        return [table[i] for i in interface.outputs]

    def copy(self, target: ControlOperand, source: ControlOperand, size: int) -> None:
        """Copies so many bytes; NotNative where they are too many."""
        if size > _COPIED:
            raise NotNativelyControlled(f"{size} bytes would be copied between buffers")
        self.add(Opcode.COPY, target, source, size)

    def constant(self, array: Any) -> ControlOperand:
        self.constants.append(array)
        return ControlOperand("constant", len(self.constants) - 1)

    def register(self, size: int) -> ControlOperand:
        """Memory of so many bytes."""
        self.registers.append(self.top)
        self.top += padded(size)
        self.size = max(self.size, self.top)
        return ControlOperand("register", len(self.registers) - 1)


class ControlImage:
    """The orders as native code reads them, and where in the arena everything lies."""

    def __init__(self, orders: ControlAssembler, loops: int, arrays: int) -> None:
        first = {"array": 0, "constant": arrays, "result": arrays + len(orders.constants)}
        first["register"] = arguments = first["result"] + len(orders.results)
        self._first, registers = first, len(orders.registers)
        self._counts = arguments, registers, loops
        self._all = 8 * (COUNTS + loops)
        self._part = self._all + 8 * (arguments + registers)
        longest = max((o[3] for o in orders.written if o[0] is Opcode.RUN), default=0)
        self._start = padded(self._part + 8 * longest)
        self._inner = self._start + orders.size
        self.size = padded(self._inner + max((p.arena for p in orders.programs), default=0))
        self._orders = array.array("q", [self._word(w) for o in orders.written for w in o])
        self._lists = array.array("q", map(self.number, orders.lists))
        self._offsets = array.array("q", [self._start + place for place in orders.registers])

    def _word(self, word: Any) -> int:
        return self.number(word) if isinstance(word, ControlOperand) else int(word)

    def number(self, slot: ControlOperand) -> int:
        """The place of a slot among all addresses: of arrays, constants, results, registers."""
        return self._first[slot.kind] + slot.number

    def place(self, register: ControlOperand) -> int:
        """Where a register is in the arena, if no loop exchanges it."""
        return self._offsets[register.number]

    def words(self, fresh: bool, budget: int) -> array.array[int]:
        """The tree as `fusewire_ways` takes it."""
        parts = map(address_of, (self._orders, self._lists, self._offsets))
        return array.array("q", [*parts, fresh, budget, *self._counts, self._all, self._part,
                                 self._inner])


def address_of(words: array.array[int]) -> int:
    """Where the words begin."""
    return words.buffer_info()[0]
