"""The back end: kernels become one C source, the system's compiler a library, ctypes calls it."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fusewire.capture.runtime.metrics import Memory as MemoryOfCall
from fusewire.codegen.backend import Backend, register, unregister
from fusewire.codegen.fusion.launch import Launch
from fusewire.codegen.ir.loop_ir import Kernel
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.lowering.lowering_table import CPU
from fusewire.codegen.program.arena import plan_arena
from fusewire.codegen.program.executable import Interface, Plan, ProgramExecutable, interface_of
from fusewire.codegen.program.kernel_stats import bytes_of, kernel_facts
from fusewire.codegen.program.native_program import Arena, Slot, slot_of
from fusewire.eager.errors import CodegenError

from .arrays import C, CArray, Memory, download, empty, upload
from .emit import function_of, scratch_bytes

FLAGS = ("-O1", "-fPIC", "-shared", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off")
MACHINE = Machine(vector_bytes=16, registers=16, threads=1, winograd=0, winograd_training=0)


@dataclass(frozen=True)
class CDevice:
    """A device, for which code is compiled."""

    number: int


@dataclass(frozen=True)
class CProgram:
    """A lowered graph: its source, and the bytes of temporaries and of scratch that a call needs.
    The `kernels` are those of the steps."""

    interface: Interface
    source: str
    kernels: tuple[Kernel, ...]
    arena: int
    scratch: int


def assemble(plan: Plan, launches: list[Launch], device: CDevice) -> CProgram:
    """The program that runs these launches."""
    slots, arena = plan_arena([[p.buffer for p in x.views] for x in launches], plan.arguments)
    names = {k: f"kernel{i}" for i, k in enumerate(dict.fromkeys(x.kernel for x in launches))}
    functions = [function_of(k, name) for k, name in names.items()]
    steps = [_step(names[x.kernel], x.kernel.tasks, [slot_of(p, slots) for p in x.views])
             for x in launches]
    run = ["void run(char **table, char *arena, char *scratch) {", *steps, "}\n"]
    source = "\n".join([PRELUDE, *functions, *run])
    return CProgram(interface_of(plan), source, tuple([x.kernel for x in launches]), arena,
                    max([scratch_bytes(k) for k in names], default=0))


def _step(name: str, tasks: int, slots: list[Slot]) -> str:
    """The lines that run a kernel: its arguments are in the table or in the arena."""
    places = [f"arena + {s.offset}" if isinstance(s, Arena) else f"table[{s.index}] + {s.offset}"
              for s in slots]
    return f"    {{ char *arguments[] = {{{', '.join(places) or '0'}}};\n" \
           f"      for (int64_t task = 0; task < {tasks}; ++task) " \
           f"{name}(task, arguments, scratch); }}"


PRELUDE = Path(__file__).with_name("prelude.h").read_text()


@functools.lru_cache(maxsize=256)
def compiled(source: str) -> Callable[..., None]:
    """The function `run` of a source. RuntimeError, with the compiler's words, if it is no C."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "program.so")
        done = subprocess.run([*compiler(), *FLAGS, "-x", "c", "-", "-o", library, "-lm"],
                              input=source, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the C compiler refuses the source: {done.stderr[:500]}")
        run = ctypes.CDLL(library).run
    run.argtypes, run.restype = [ctypes.c_void_p] * 3, None
    function: Callable[..., None] = run
    return function


def compiler() -> list[str]:
    """The command of the system's C compiler: `CC`, or else cc."""
    command = os.environ.get("CC", "cc").split()
    if shutil.which(command[0]) is None:
        raise CodegenError(f"there is no C compiler {command[0]}", "install gcc or set CC")
    return command


class CExecutable(ProgramExecutable):
    """A compiled program of one device. A call allocates its temporaries."""

    def __init__(self, program: CProgram, device: CDevice, numbers: Collection[int]) -> None:
        self.program, self.device = program, device
        super().__init__(program.interface)
        self._constants = [upload(a, device.number) for a in program.interface.constants]
        self._run = compiled(program.source)

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], CArray]:
        """A function that allocates a result."""
        number = self.device.number
        return lambda: empty(shape, dtype, number)

    def _execute(self, arrays: list[Any], results: list[Any]) -> None:
        for i, a in enumerate(arrays):  # numbers and sizes are NumPy's
            if not isinstance(a, CArray):
                arrays[i] = upload(a, self.device.number)
            elif i in self.interface.overwritten:  # others may hold it
                arrays[i] = upload(download(a), self.device.number)
        everything = [*arrays, *self._constants, *results]
        table = (ctypes.c_void_p * len(everything))(*[a.memory.address for a in everything])
        arena, scratch = Memory(self.program.arena), Memory(self.program.scratch)
        self._run(table, arena.address, scratch.address)

    def rows(self, repeats: int = 7) -> list[dict[str, Any]]:
        """A row per kernel; the time of a call is divided by their estimated costs."""
        arrays = [np.ones(t.shape, t.dtype) for t in self.interface.inputs]
        if self.interface.sizes:
            arrays[-1][:len(self.interface.sizes)] = self.interface.sizes
        began = time.perf_counter()
        for _ in range(repeats):
            self._execute([upload(a, self.device.number) for a in arrays],
                          [make() for make in self._results])
        seconds, kernels = (time.perf_counter() - began) / repeats, self.program.kernels
        total = sum(k.cost for k in kernels) or 1
        return [{**row, "seconds": seconds * k.cost / total}
                for row, k in zip(kernel_facts(kernels), kernels)]

    @property
    def memory(self) -> MemoryOfCall:
        """The memory of a call."""
        inputs = bytes_of(self.interface.inputs) + sum(a.nbytes for a in self._constants)
        return MemoryOfCall(inputs, bytes_of(self.interface.results),
                            self.program.arena + self.program.scratch)

    @property
    def code(self) -> str:
        """The C source."""
        return self.program.source

    assembly = code


C_BACKEND = Backend(
    lowering=CPU, device=CDevice, machine=lambda device: MACHINE, assemble=assemble,
    executable=CExecutable, text=lambda program: program.source)


def install() -> None:
    """Makes "c:0" and "c:1" known to fusewire."""
    register(C, lambda: C_BACKEND)


def remove() -> None:
    """Undoes `install`. No array of these devices may exist."""
    unregister(C.name)
