"""A list of kernels as one native function, `run(table, arena)`.

The table holds the addresses of the arguments; buffers inside the program lie in the arena. Equal
kernels share the function that runs one of their tasks. Long kernels give their tasks to the thread
pool, short ones run on the caller.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..loops import Kernel
from . import threads
from .blocks import Rows
from .emit import task_function
from .jit import assembly, c_function, compile_object, load_object
from .signature import signature
from .target import Target, host
from .text import Module

PARALLEL_NANOSECONDS = 20_000  # kernels that take less are not worth a second thread
_SCRATCH_LIMIT = 8 << 20  # bytes, half of a worker's stack
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class Argument:
    """The buffer whose address is at `index` of the table."""

    index: int


@dataclass(frozen=True)
class Arena:
    """The buffer at an offset, in bytes, from the start of the arena."""

    offset: int


Slot = Argument | Arena


@dataclass(frozen=True)
class Step:
    """One kernel of a program, with a place for each of its arguments."""

    kernel: Kernel
    slots: Sequence[Slot]


class NativeProgram:
    """A compiled program: `ir` is its text, `image` its object code."""

    def __init__(self, ir: str, image: bytes, symbols: set[str], target: Target) -> None:
        self.ir = ir
        self.image = image
        self.target = target
        self.seconds: dict[str, float] = {}
        self.address = _load(image, symbols, "run", target)
        self._run = _ENTRY(self.address)
        self._steps: Callable[[], list[Callable[..., None]]] = list

    def run(self, table: int, arena: int) -> None:
        """Runs the program on the addresses in the array at `table`, with the arena at `arena`."""
        self._run(table, arena)

    def profile(self, table: int, arena: int) -> list[float]:
        """Runs the program; returns the seconds that each step took."""
        times = []
        for step in self._steps():
            began = time.perf_counter()
            step(table, arena)
            times.append(time.perf_counter() - began)
        return times

    def assembly(self) -> str:
        """The machine code as text."""
        return assembly(self.ir, self.target)


def build(
    steps: Sequence[Step], name: str = "program", target: Target | None = None,
    rows: Rows | None = None,
) -> NativeProgram:
    """Compiles a program for the present processor or another that it can stand in for.

    With `rows` the steps are for one block of rows, and the table begins with the number of rows.
    """
    target = target or host()
    times = [time.perf_counter()]
    ir, symbols = text(steps, name, target, rows=rows)
    times.append(time.perf_counter())
    image = compile_object(ir, target)
    times.append(time.perf_counter())
    program = NativeProgram(ir, image, symbols, target)
    times.append(time.perf_counter())
    stages = zip(("emit", "compile", "load"), times, times[1:], strict=False)
    program.seconds = {stage: end - start for stage, start, end in stages}
    program._steps = functools.cache(lambda: _apart(steps, name, target))
    return program


def _apart(steps: Sequence[Step], name: str, target: Target) -> list[Callable[..., None]]:
    """The steps of a program as functions, for measuring each."""
    ir, symbols = text(steps, name, target, apart=True)
    table = _load(compile_object(ir, target), symbols, "steps", target)
    return [_ENTRY(address) for address in (ctypes.c_size_t * len(steps)).from_address(table)]


def _load(image: bytes, symbols: set[str], export: str, target: Target) -> int:
    imports = {name: _resolved(name) for name in sorted(symbols)} | threads.entries()
    return load_object(image, [export], imports, target)[export]


def text(
    steps: Sequence[Step], name: str, target: Target, apart: bool = False,
    rows: Rows | None = None,
) -> tuple[str, set[str]]:
    """The LLVM IR of a program, and the functions of the C library that it calls.

    With `apart` each step is a function of its own, and `@steps` the table of these.
    """
    module = Module(target)
    functions: list[str] = []
    numbers: dict[Any, str] = {}
    calls = []
    for step in steps:
        _check(step, name)
        key = signature(step.kernel)
        if key not in numbers:
            numbers[key] = f"task.{len(numbers)}.{_identifier(step.kernel.name)}"
            functions.append(task_function(step.kernel, numbers[key], module))
        calls.append((step, numbers[key]))
    for entry, types in _ENTRIES.items():
        module.declare("void", entry, types)
    if apart:
        functions += [_function(f"step.{i}", [call]) for i, call in enumerate(calls)]
        table = ", ".join(f"ptr @step.{i}" for i in range(len(calls)))
        functions.append(f"@steps = constant [{len(calls)} x ptr] [{table}]")
    elif rows is not None:
        functions += [_function("block", calls), rows.text()]
    else:
        functions.append(_function("run", calls))
    return f"; {name}\n" + module.text(functions), module.symbols


_ENTRIES = {
    "fusewire_parallel": ("ptr", "ptr", "i64", "i64"),
    "fusewire_serial": ("ptr", "ptr", "i64"),
}


def _check(step: Step, name: str) -> None:
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


def _function(name: str, calls: Sequence[tuple[Step, str]]) -> str:
    """A function of table and arena that runs these steps."""
    most = max((len(step.slots) for step, _ in calls), default=0)
    lines = [f"define void @{name}(ptr %table, ptr %arena) #0 {{", "entry:"]
    lines.append(f"  %buffers = alloca [{max(most, 1)} x ptr], align 16")
    lines += [f"  %b{i} = getelementptr ptr, ptr %buffers, i64 {i}" for i in range(most)]
    for number, (step, task) in enumerate(calls):
        for i, slot in enumerate(step.slots):
            value = f"%v{number}.{i}"
            if isinstance(slot, Argument):
                lines.append(f"  %q{number}.{i} = getelementptr ptr, ptr %table, i64 {slot.index}")
                lines.append(f"  {value} = load ptr, ptr %q{number}.{i}")
            else:
                lines.append(f"  {value} = getelementptr i8, ptr %arena, i64 {slot.offset}")
            lines.append(f"  store ptr {value}, ptr %b{i}")
        lines.append(_call(step.kernel, task))
    return "\n".join([*lines, "  ret void", "}", ""])


def _call(kernel: Kernel, task: str) -> str:
    """The call that runs all tasks of a kernel on the buffers."""
    if kernel.tasks == 1:
        return f"  call void @{task}(ptr %buffers, i64 0)"
    args = f"ptr @{task}, ptr %buffers, i64 {kernel.tasks}"
    if kernel.cost < PARALLEL_NANOSECONDS:
        return f"  call void @fusewire_serial({args})"
    return f"  call void @fusewire_parallel({args}, i64 {min(int(kernel.cost), 1 << 60)})"
