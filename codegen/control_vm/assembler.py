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
from ..program.executable import Executable

_MAX_COPY_BYTES = 1 << 18  # larger values are swapped, never copied
_DISPATCH_NANOSECONDS = 50  # at least, to go from one program to the next


class ControlOperand(NamedTuple):
    """The location of a value: an array, a constant, a result or a register, with its number."""

    kind: str
    number: int


class NotNativelyControlled(Exception):
    """The reason why control flow is not lowered to native code."""


@dataclass
class ControlAssembler:
    """A list of instructions, with the constants, registers, results and programs that they use."""

    instructions: list[list[Any]] = field(default_factory=list)
    argument_lists: list[ControlOperand] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    registers: list[int] = field(default_factory=list)  # where in the arena they are
    results: list[Any] = field(default_factory=list)  # shapes and dtypes of arrays
    programs: list[Executable] = field(default_factory=list)
    arena_top: int = 0  # where in the arena the next register may begin
    register_bytes: int = 0  # bytes of all registers

    def __len__(self) -> int:
        return len(self.instructions)

    def add(self, opcode: Opcode, *operands: Any) -> list[Any]:
        """Adds an instruction; returns it, so that its operands can be patched."""
        instruction = [opcode, *operands, *[0] * (4 - len(operands))]
        self.instructions.append(instruction)
        return instruction

    def run(self, program: Executable, inputs: Sequence[ControlOperand],
            results: Sequence[ControlOperand]
            ) -> list[ControlOperand]:
        """Adds the run of a program; returns the operands of its outputs."""
        interface, native = program.interface, program.program
        table = [*inputs, *map(self.constant, interface.constants), *results]
        if native.steps:
            cost = _DISPATCH_NANOSECONDS + round(min(native.cost, 1e15))
            self.add(Opcode.RUN, native.address, len(self.argument_lists), len(table), cost)
            self.argument_lists += table
            self.programs.append(program)
        return [table[i] for i in interface.outputs]

    def copy(self, target: ControlOperand, source: ControlOperand, size: int) -> None:
        """Adds a copy of `size` bytes. Raises NotNativelyControlled if they are too many."""
        if size > _MAX_COPY_BYTES:
            raise NotNativelyControlled(
                f"{size} bytes would be copied between loop iterations or branches")
        self.add(Opcode.COPY, target, source, size)

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
        self.size = padded(self._program_arena_offset + max((p.arena for p in assembler.programs),
                                                            default=0))
        self._instructions = array.array("q", [self._encode(w) for o in assembler.instructions
                                               for w in o])
        self._argument_lists = array.array("q", map(self.address_index, assembler.argument_lists))
        self._offsets = array.array("q", [self._registers_offset + offset
                                          for offset in assembler.registers])

    def _encode(self, operand: Any) -> int:
        return self.address_index(operand) if isinstance(operand, ControlOperand) else int(operand)

    def address_index(self, operand: ControlOperand) -> int:
        """The index of an operand in the address table: arrays, constants, results, registers."""
        return self._first_index[operand.kind] + operand.number

    def arena_offset(self, register: ControlOperand) -> int:
        """The offset of a register in the arena, if no loop swaps it."""
        return self._offsets[register.number]

    def descriptor(self, fresh: bool, budget: int) -> array.array[int]:
        """The image as `fusewire_control` takes it."""
        parts = map(address_of, (self._instructions, self._argument_lists, self._offsets))
        return array.array("q", [*parts, fresh, budget, *self._counts, self._addresses_offset,
                                 self._arguments_offset, self._program_arena_offset])


def address_of(words: array.array[int]) -> int:
    """The address of the first word."""
    return words.buffer_info()[0]
