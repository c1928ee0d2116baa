"""Assembles instructions of the control VM, and encodes them for native code.

While they are written, instructions refer to values by symbolic operands; encoding replaces these
by addresses.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..llvm.control_vm import COUNTS, Opcode
from ..program.arena import padded


class ControlOperand(NamedTuple):
    """The location of a value: an array, a constant, a result or a register, with its number."""

    kind: str
    number: int


class NotNativelyControlled(Exception):
    """The reason why control flow is not lowered to native code."""


@dataclass
class ControlAssembler:
    """A list of instructions, with the constants, registers and results that they use."""

    instructions: list[list[Any]] = field(default_factory=list)
    argument_lists: list[ControlOperand] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    registers: list[int] = field(default_factory=list)  # where in the arena they are
    results: list[Any] = field(default_factory=list)  # shapes and dtypes of arrays
    program_arena: int = 0  # bytes of memory that one program needs
    arena_top: int = 0  # where in the arena the next register may begin
    register_bytes: int = 0  # bytes of all registers

    def __len__(self) -> int:
        return len(self.instructions)

    def add(self, opcode: Opcode, *operands: Any) -> list[Any]:
        """Adds an instruction; returns it, so that its operands can be patched."""
        instruction = [opcode, *operands, *[0] * (4 - len(operands))]
        self.instructions.append(instruction)
        return instruction

    def run(self, program: int | str, table: Sequence[ControlOperand], arena: int, cost: int = 0
            ) -> None:
        """Adds the run of a program, given by its address or its symbol, on the values of a table.
        arena: bytes of memory that it needs. cost: nanoseconds."""
        self.add(Opcode.RUN, program, len(self.argument_lists), len(table), cost)
        self.argument_lists += table
        self.program_arena = max(self.program_arena, arena)

    def copy(self, target: ControlOperand, source: ControlOperand, size: int, offset: int = 0
             ) -> None:
        """Adds a copy of `size` bytes that begin `offset` bytes into the source."""
        self.add(Opcode.COPY, target, source, size, offset)

    def constant(self, array: Any) -> ControlOperand:
        self.constants.append(array)
        return ControlOperand("constant", len(self.constants) - 1)

    def register(self, size: int) -> ControlOperand:
        """A new register of `size` bytes."""
        self.registers.append(self.arena_top)
        self.arena_top += padded(size)
        self.register_bytes = max(self.register_bytes, self.arena_top)
        return ControlOperand("register", len(self.registers) - 1)


class ControlImage:
    """The encoded instructions, and the layout of the arena."""

    def __init__(self, assembler: ControlAssembler, loops: int, arrays: int) -> None:
        first = {"array": 0, "constant": arrays, "result": arrays + len(assembler.constants)}
        first["register"] = arguments = first["result"] + len(assembler.results)
        self._first_index, registers = first, len(assembler.registers)
        self._counts = arguments, registers, loops
        self._addresses_offset = 8 * (COUNTS + loops)
        self._arguments_offset = self._addresses_offset + 8 * (arguments + registers)
        longest = max((o[3] for o in assembler.instructions if o[0] is Opcode.RUN), default=0)
        self._registers_offset = padded(self._arguments_offset + 8 * longest)
        self._program_arena_offset = self._registers_offset + assembler.register_bytes
        self.size = padded(self._program_arena_offset + assembler.program_arena)
        self.instructions = [self._encode(word) for instruction in assembler.instructions
                             for word in instruction]
        self.argument_lists = list(map(self.address_index, assembler.argument_lists))
        self.offsets = [self._registers_offset + offset for offset in assembler.registers]
        self.operations = {o[1] for o in assembler.instructions if o[0] is Opcode.SCALAR}
        self._parts: list[array.array[int]] = []  # of the descriptor, which holds their addresses

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of an image behind its budget (see `llvm/control_vm.py`)."""
        return (*self._counts, self._addresses_offset, self._arguments_offset,
                self._program_arena_offset)

    def _encode(self, operand: Any) -> int | str:
        if isinstance(operand, str):
            return operand  # a symbol
        return self.address_index(operand) if isinstance(operand, ControlOperand) else int(operand)

    def address_index(self, operand: ControlOperand) -> int:
        """The index of an operand in the address table: arrays, constants, results, registers."""
        return self._first_index[operand.kind] + operand.number

    def arena_offset(self, register: ControlOperand) -> int:
        """The offset of a register in the arena, if no loop swaps it."""
        return self.offsets[register.number]

    def descriptor(self, fresh: bool, budget: int) -> array.array[int]:
        """The image as `fusewire_control` takes it, valid as long as this object."""
        if not self._parts:
            self._parts = [array.array("q", words)  # type: ignore[arg-type]  # without symbols
                           for words in (self.instructions, self.argument_lists, self.offsets)]
        return array.array("q", [*map(address_of, self._parts), fresh, budget, *self.numbers])


def address_of(words: array.array[int]) -> int:
    """The address of the first word."""
    return words.buffer_info()[0]
