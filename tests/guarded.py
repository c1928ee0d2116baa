"""Runs programs with every buffer beside a guard page, so that accesses out of bounds crash.

Buffers inside a program lie in one arena, scratch on a stack. Here each is an argument of its own,
so that it has guards, too. Tasks run one after the other, since they share scratch.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate_node
from fusewire.codegen.compile import lower_graph
from fusewire.codegen.cpu_backend import machine_of
from fusewire.codegen.ir.loop_ir import Kernel, KernelBuffer
from fusewire.codegen.program.native_program import Argument, ProgramStep, build, slot_of
from fusewire.codegen.runtime.target import named

POSSIBLE = os.name == "posix"
TESTS = Path(__file__).parent


def in_a_process(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process that may crash."""
    return subprocess.run([sys.executable, *command], cwd=TESTS, capture_output=True, text=True,
                          timeout=900)


def guarded(size: int, dtype: Any, at_end: bool) -> Any:
    """A flat array that ends at a guard page, or begins behind one."""
    dtype = np.dtype(dtype)
    size_in_pages = -(-size * dtype.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
    block = mmap.mmap(-1, size_in_pages + 2 * mmap.PAGESIZE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for page in (first, first + mmap.PAGESIZE + size_in_pages):
        _forbid(page)
    start = mmap.PAGESIZE + (size_in_pages - size * dtype.itemsize if at_end else 0)
    return np.frombuffer(block, dtype, size, start)


def _forbid(page: int) -> None:
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(page, mmap.PAGESIZE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")


class Run:
    """One run of a graph on a processor, every buffer between guards."""

    def __init__(self, graph: Graph, cpu: str, at_end: bool) -> None:
        self.target, self.at_end = named(cpu), at_end
        self.plan, self.launches = lower_graph(graph, machine_of(self.target))
        self.memory: dict[KernelBuffer, Any] = {}
        self.kernels: dict[Kernel, Kernel] = {}

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The graph's outputs for these inputs."""
        plan = self.plan
        for node, array in zip(plan.graph.inputs, arrays):
            self._write(plan.buffers[node], array)
        for node in plan.constants:
            self._write(plan.buffers[node], evaluate_node(node, []))
        steps = [self._step(launch) for launch in self.launches]
        for buffer in plan.buffers.values():
            self._allocate(buffer)
        table = np.array([a.ctypes.data for a in self.memory.values()], np.uint64)
        build(steps, "guarded", self.target).run(table.ctypes.data, 0)
        outputs = plan.graph.outputs[:plan.output_count]
        arrays = [self.memory[plan.buffers[node]] for node in outputs]
        return [a[:math.prod(s)].reshape(s).copy() for a, s in zip(arrays, plan.shapes)]

    def _step(self, launch: Any) -> ProgramStep:
        kernel = self._with_visible_scratch(launch.kernel)
        for view in launch.views:
            self._allocate(view.buffer)
        slots = {b: Argument(i) for i, b in enumerate(self.memory)}
        views = dict(zip(launch.kernel.arguments, launch.views))
        return ProgramStep(kernel, [slot_of(views[b], slots)
                                    if b in views else Argument(self._allocate(b))
                                    for b in kernel.arguments])

    def _with_visible_scratch(self, kernel: Kernel) -> Kernel:
        """The kernel with scratch as arguments, and with serial tasks."""
        if kernel not in self.kernels:
            self.kernels[kernel] = replace(
                kernel, outputs=kernel.outputs + kernel.scratch, scratch=(), cost=0.0)
        return self.kernels[kernel]

    def _write(self, buffer: KernelBuffer, array: Any) -> None:
        self._allocate(buffer)
        self.memory[buffer][:] = np.asarray(array).reshape(-1)

    def _allocate(self, buffer: KernelBuffer) -> int:
        """The buffer's number in the table; its memory is made when it is first met."""
        if buffer not in self.memory:
            self.memory[buffer] = guarded(buffer.size, buffer.dtype, self.at_end)
            self.memory[buffer][:] = 77
        return list(self.memory).index(buffer)
