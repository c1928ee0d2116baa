"""A list of kernels as one native function, `run(table, arena)`.

The table holds the addresses of the arguments; buffers inside the program lie in the arena. Each step
is a function of both; equal kernels share the function that runs their tasks. Long kernels give their
tasks to the thread pool, short ones run on the caller.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from fusewire.codegen.llvm import threads
from fusewire.codegen.llvm.emit import task_function
from fusewire.codegen.llvm.jit import assembly, c_function, compile_object, load_object
from fusewire.codegen.llvm.signature import signature
from fusewire.codegen.llvm.target import Target, host
from fusewire.codegen.llvm.text import Module
from fusewire.codegen.loops import Kernel

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


Slot = Union[Argument, Arena]


@dataclass(frozen=True)
class Step:
    """One kernel of a program, with a place for each of its arguments."""

    kernel: Kernel
    slots: Sequence[Slot]


class NativeProgram:
    """A compiled program. `ir` is its text, `seconds` what it took to make it, by stage."""

    def __init__(self, ir: str, image: bytes, symbols: set[str], steps: int, target: Target) -> None:
        self.ir = ir
        self.image = image
        self.target = target
        self.seconds: dict[str, float] = {}
        imports = {name: _resolved(name) for name in sorted(symbols)}
        imports["fusewire_parallel"] = threads.parallel_address()
        self._code = load_object(image, ["run", "steps"], imports, target)
        self._run = _ENTRY(self._code["run"])
        table = (ctypes.c_void_p * steps).from_address(self._code["steps"])
        self._steps: list[Callable[..., None]] = [_ENTRY(address) for address in table]

    @property
    def address(self) -> int:
        """The address of `void run(table, arena)`."""
        return self._code["run"]

    def run(self, table: int, arena: int) -> None:
        """Runs the program on the addresses in the array at `table`, with the arena at `arena`."""
        self._run(table, arena)

    def profile(self, table: int, arena: int) -> list[float]:
        """Runs the program; returns the seconds that each step took."""
        times = []
        for step in self._steps:
            began = time.perf_counter()
            step(table, arena)
            times.append(time.perf_counter() - began)
        return times

    def assembly(self) -> str:
        """The machine code as text."""
        return assembly(self.ir, self.target)


def build(steps: Sequence[Step], name: str = "program", target: Target | None = None) -> NativeProgram:
    """Compiles a program for the present processor or another that it can stand in for."""
    target = target or host()
    began = time.perf_counter()
    ir, symbols = text(steps, name, target)
    written = time.perf_counter()
    image = compile_object(ir, target)
    compiled = time.perf_counter()
    program = NativeProgram(ir, image, symbols, len(steps), target)
    loaded = time.perf_counter() - compiled
    program.seconds = {"emit": written - began, "compile": compiled - written, "load": loaded}
    return program


def text(steps: Sequence[Step], name: str, target: Target) -> tuple[str, set[str]]:
    """The LLVM IR of a program, and the functions of the C library that it calls."""
    module = Module(target)
    functions: list[str] = []
    numbers: dict[Any, str] = {}
    for number, step in enumerate(steps):
        kernel = step.kernel
        if len(step.slots) != len(kernel.arguments):
            raise ValueError(
                f"{name}: kernel {kernel.name} has {len(kernel.arguments)} arguments, "
                f"got {len(step.slots)} slots"
            )
        parallel = kernel.tasks > 1 and kernel.cost >= PARALLEL_NANOSECONDS
        key = (signature(kernel), parallel)
        if key not in numbers:
            own = numbers[key] = f"{len(numbers)}.{_identifier(kernel.name)}"
            functions.append(task_function(kernel, f"task.{own}", module))
            functions.append((_job if parallel else _serial)(kernel, own))
        functions.append(_step(number, step, numbers[key], parallel))
    functions.append(_run(len(steps)))
    module.declare("void", "fusewire_parallel", ["ptr", "ptr", "i64"])
    return f"; {name}\n" + module.text(functions), module.symbols


def _identifier(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


def _resolved(name: str) -> int:
    address = c_function(name)
    if not address:
        raise RuntimeError(f"the C library of this system has no function {name}")
    return address


def _scratch(kernel: Kernel) -> str:
    """Memory for the scratch of one task after the other."""
    total = sum(b.size * b.dtype.itemsize for b in kernel.scratch)
    if total > _SCRATCH_LIMIT:
        raise ValueError(
            f"kernel {kernel.name} needs {total} bytes of scratch, more than {_SCRATCH_LIMIT}: "
            "put large temporary buffers into the arena"
        )
    return "".join(
        f"  %s{i} = alloca [{max(b.size * b.dtype.itemsize, 1)} x i8], align 64\n"
        for i, b in enumerate(kernel.scratch)
    )


def _call(kernel: Kernel, name: str, task: str) -> str:
    pointers = [f"ptr %a{i}" for i in range(len(kernel.arguments))]
    pointers += [f"ptr %s{i}" for i in range(len(kernel.scratch))]
    return f"  call void @task.{name}({', '.join([*pointers, f'i64 {task}'])})\n"


def _serial(kernel: Kernel, name: str) -> str:
    """A function of the buffers that runs all tasks here."""
    head = ", ".join(f"ptr %a{i}" for i in range(len(kernel.arguments)))
    start = f"define internal void @job.{name}({head}) #0 {{\nentry:\n{_scratch(kernel)}"
    if kernel.tasks <= 1:
        return f"{start}{_call(kernel, name, '0') if kernel.tasks else ''}  ret void\n}}\n"
    return f"""{start}  br label %next
next:
  %task = phi i64 [0, %entry], [%up, %next]
{_call(kernel, name, "%task")}  %up = add i64 %task, 1
  %more = icmp slt i64 %up, {kernel.tasks}
  br i1 %more, label %next, label %done
done:
  ret void
}}
"""


def _job(kernel: Kernel, name: str) -> str:
    """A function for the pool: takes tasks off the counter until none are left."""
    loads = "".join(
        f"  %p{i} = getelementptr ptr, ptr %args, i64 {i}\n  %a{i} = load ptr, ptr %p{i}\n"
        for i in range(len(kernel.arguments))
    )
    return f"""define internal void @job.{name}(ptr %args, ptr %pool) #0 {{
entry:
{_scratch(kernel)}{loads}  %counter = getelementptr i64, ptr %pool, i64 8
  br label %next
next:
  %task = atomicrmw add ptr %counter, i64 1 monotonic
  %more = icmp slt i64 %task, {kernel.tasks}
  br i1 %more, label %work, label %done
work:
{_call(kernel, name, "%task")}  br label %next
done:
  ret void
}}
"""


def _step(number: int, step: Step, name: str, parallel: bool) -> str:
    """A function of table and arena that runs one kernel."""
    lines = [f"define internal void @step.{number}(ptr %table, ptr %arena) #0 {{"]
    for i, slot in enumerate(step.slots):
        if isinstance(slot, Argument):
            lines.append(f"  %q{i} = getelementptr ptr, ptr %table, i64 {slot.index}")
            lines.append(f"  %a{i} = load ptr, ptr %q{i}")
        else:
            lines.append(f"  %a{i} = getelementptr i8, ptr %arena, i64 {slot.offset}")
    count = len(step.slots)
    if not parallel:
        lines.append(f"  call void @job.{name}({', '.join(f'ptr %a{i}' for i in range(count))})")
    else:
        lines.append(f"  %args = alloca [{count} x ptr]")
        for i in range(count):
            lines.append(f"  %s{i} = getelementptr ptr, ptr %args, i64 {i}")
            lines.append(f"  store ptr %a{i}, ptr %s{i}")
        cost = min(int(step.kernel.cost), 1 << 60)
        lines.append(f"  call void @fusewire_parallel(ptr @job.{name}, ptr %args, i64 {cost})")
    return "\n".join([*lines, "  ret void", "}", ""])


def _run(steps: int) -> str:
    names = [f"@step.{number}" for number in range(steps)]
    calls = "".join(f"  call void {name}(ptr %table, ptr %arena)\n" for name in names)
    table = ", ".join(f"ptr {name}" for name in names)
    return (
        f"@steps = constant [{steps} x ptr] [{table}]\n"
        f"define void @run(ptr %table, ptr %arena) #0 {{\n{calls}  ret void\n}}\n"
    )


