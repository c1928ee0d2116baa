"""Compiles a list of kernels into one native program, which runs with a table and an arena.

The table holds the addresses of the arguments; other buffers lie in the arena. Equal kernels share
their task function. Long kernels give their tasks to the thread pool, short ones run on the caller.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...capture.runtime.metrics import count_program, phase
from ..fusion.kernel_key import BufferView
from ..ir.loop_ir import Kernel, KernelBuffer
from ..llvm.emit import task_function
from ..llvm.ir_builder import LlvmModule
from ..llvm.kernel_signature import signature
from ..llvm.row_blocks import WHOLE, RowBlocks
from ..llvm.step_table import BLOCK_ROWS_OFFSET, Arena, Argument, ProgramStep, Slot, program_text
from ..runtime import object_cache
from ..runtime.jit import LoadedCode, assembly, c_function, load_object
from ..runtime.target import Target, host
from . import native_threads

__all__ = ["Arena", "Argument", "NativeProgram", "ProgramStep", "Slot", "WrittenProgram", "build",
           "write"]

_SCRATCH_LIMIT = 8 << 20  # bytes, half of a worker's stack
_RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)
_STEPS = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)


class WrittenProgram(NamedTuple):
    """A program before compilation: its LLVM IR, the C library functions that it calls, and its
    steps."""

    ir: str
    symbols: frozenset[str]
    steps: list[ProgramStep]

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel of each step."""
        return [step.kernel for step in self.steps]


class ProgramFacts(NamedTuple):
    """The data of a program beside its object code."""

    symbols: frozenset[str]
    steps: int
    cost: float  # of all steps, in nanoseconds on one core


class NativeProgram:
    """A compiled program: `image` is its object code."""

    def __init__(self, image: bytes, facts: ProgramFacts, target: Target,
                 write: Callable[[], WrittenProgram]
                 ) -> None:
        """`write()` gives the source of the object code, on demand."""
        self.image, self.target, self._write = image, target, write
        self.facts, self.steps, self.cost = facts, facts.steps, facts.cost
        self._code = _load(image, facts.symbols, target)
        self.address, self.after_prologue_address = self._code["program"], self._code["later"]
        self._run, self._part = _entries()

    @functools.cached_property
    def written(self) -> WrittenProgram:
        """The source of the object code."""
        return self._write()

    @property
    def ir(self) -> str:
        """The program's text."""
        return self.written.ir

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel of each step."""
        return self.written.kernels

    def run(self, table: int, arena: int) -> None:
        """Runs the program on the addresses in the array at `table`, with the arena at `arena`."""
        self._run(self.address, table, arena)

    def nanoseconds(self, rows: int) -> float:
        """The cost on one core; of a program for row blocks, that of `rows` rows."""
        block = ctypes.c_int64.from_address(self.address + BLOCK_ROWS_OFFSET).value
        return self.cost if not block else -(-rows // block) * self.cost

    def run_after_prologue(self, table: int, arena: int) -> None:
        """Runs the steps after the prologue, whose results are prepacked."""
        self._run(self.after_prologue_address, table, arena)

    def run_steps(self, table: int, arena: int, first: int, stop: int) -> None:
        """Runs the steps from number `first` on before `stop`."""
        self._part(self.address, table, arena, first, stop)

    def profile(self, table: int, arena: int, first: int = 0) -> list[tuple[float, float]]:
        """Runs the steps from number `first` on; returns (begin, end) of each step, equal for
        skipped ones."""
        times = [(time.perf_counter(),) * 2] * first
        for number in range(first, self.steps):
            began = time.perf_counter()
            self.run_steps(table, arena, number, number + 1)
            times.append((began, time.perf_counter()))
        return times

    def assembly(self) -> str:
        """The machine code as text."""
        return assembly(self.ir, self.target)


def slot_of(view: BufferView, slots: Mapping[KernelBuffer, Slot]) -> Slot:
    """The slot of a view, from the slot of its buffer."""
    slot = slots[view.buffer]
    return replace(slot, offset=slot.offset + view.offset * view.buffer.dtype.itemsize)


def build(
    steps: Sequence[ProgramStep], name: str = "program", target: Target | None = None,
    rows: RowBlocks = WHOLE, prologue_steps: int = 0,
) -> NativeProgram:
    """Compiles a program for the present processor, or another that it can stand in for. Its `run`
    makes all steps, its `run_after_prologue` those after the first `prologue_steps`.

    With `rows` the steps are for one block of rows, and the table begins with the number of rows.
    """
    target = target or host()
    return compile_written(write(steps, name, target, rows, prologue_steps), target)


def write(steps: Sequence[ProgramStep], name: str, target: Target, rows: RowBlocks = WHOLE,
          prologue_steps: int = 0
          ) -> WrittenProgram:
    """The LLVM IR of a program, with its symbols and kernels."""
    with phase("lowering"):
        ir, symbols = program_ir(steps, name, target, rows, prologue_steps)
        return WrittenProgram(ir, frozenset(symbols), list(steps))


def compile_written(written: WrittenProgram, target: Target) -> NativeProgram:
    """The compiled program."""
    image, from_disk = object_cache.compiled(written.ir, target)
    count_program(from_disk)
    with phase("loading"):
        return NativeProgram(image, facts_of(written), target, lambda: written)


def facts_of(written: WrittenProgram) -> ProgramFacts:
    """The facts of a written program."""
    cost = sum(k.cost for k in written.kernels)
    return ProgramFacts(written.symbols, len(written.kernels), cost)


def _load(image: bytes, symbols: frozenset[str], target: Target) -> LoadedCode:
    imports = {name: _resolved(name) for name in sorted(symbols)}
    return load_object(image, ["program", "later"], imports, target)


@functools.cache
def _entries() -> tuple[Callable[..., None], Callable[..., None]]:
    return (_RUN(native_threads.entry("fusewire_run")),
            _STEPS(native_threads.entry("fusewire_steps")))


def program_ir(
    steps: Sequence[ProgramStep], name: str, target: Target, rows: RowBlocks = WHOLE,
    prologue_steps: int = 0
) -> tuple[str, set[str]]:
    """The LLVM IR of a program, and the C library functions that it calls."""
    module = LlvmModule(target)
    functions: list[str] = []
    numbers: dict[Any, str] = {}
    tasks: dict[Kernel, str] = {}
    for step in steps:
        if step.kernel not in tasks:
            key = signature(step.kernel)
            if key not in numbers:
                numbers[key] = f"task.{len(numbers)}.{_identifier(step.kernel.name)}"
                functions.append(task_function(step.kernel, numbers[key], module))
            tasks[step.kernel] = numbers[key]
        _check(step, name)
    functions.append(program_text([(s, tasks[s.kernel]) for s in steps], rows, prologue_steps))
    return f"; {name}\n" + module.text(functions), module.symbols


def _check(step: ProgramStep, name: str) -> None:
    kernel = step.kernel
    if len(step.slots) != len(kernel.arguments):
        raise ValueError(
            f"{name}: kernel {kernel.name} has {len(kernel.arguments)} arguments, "
            f"got {len(step.slots)} slots"
        )
    scratch = sum(b.size * b.dtype.itemsize for b in kernel.scratch)
    if scratch > _SCRATCH_LIMIT:
        raise ValueError(
            f"kernel {kernel.name} needs {scratch} bytes of scratch, more than {_SCRATCH_LIMIT}: "
            "put large temporary buffers into the arena"
        )


def _identifier(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


def _resolved(name: str) -> int:
    address = c_function(name)
    if not address:
        raise RuntimeError(f"the C library of this system has no function {name}")
    return address
