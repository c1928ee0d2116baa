"""The back end of the CPU: kernels become one native program by LLVM."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..capture.graph.graph import Graph
from ..eager.settings import settings
from .backend import Backend
from .cache.program_cache import cached_program
from .cpu.nontemporal import use_nontemporal_stores
from .fusion.launch import Launch
from .ir.loop_ir import KernelBuffer
from .ir.target_info import Machine
from .lowering.lowering_table import CPU
from .program.arena import plan_arena
from .program.executable import Executable, Plan, interface_of
from .program.native_program import NativeProgram, ProgramStep, WrittenProgram, slot_of
from .program.native_program import write as write_program
from .program.native_threads import get_num_threads
from .program.prepack import PrepackedBuffers, prepacked_launches, prepacked_part
from .program.prepacked_executable import Parts, PrepackedExecutable
from .runtime.target import Target, host


def machine_of(target: Target, threads: int | None = None) -> Machine:
    """The properties of a target that the choice of loops depends on; `threads` defaults to those
    of this process."""
    narrow = target.x86 and target.vector_bytes < 64
    return Machine(target.vector_bytes, 16 if narrow else 32, threads or get_num_threads(),
                   winograd=settings.winograd, winograd_training=settings.winograd_training,
                   dot=target.dot and settings.bf16_dot,
                   dot16=target.dot16, dot8=target.dot8, matrix_unit=target.amx)


def assemble(plan: Plan, launches: list[Launch], target: Target) -> tuple[WrittenProgram, Parts]:
    """The program that runs these launches, before compilation."""
    if target.x86 and not plan.sizes:  # where it was measured
        launches = use_nontemporal_stores(launches, [plan.buffers[n] for n in plan.results])
    prepacked, launches, arguments = _prepack(plan, launches)
    slots, arena = plan_arena([[p.buffer for p in x.views] for x in launches], arguments)
    steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.views],
                         [(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in x.views],
                         x.refusals)
             for x in launches]
    written = write_program(steps, "program", target, prologue_steps=0
                            if prepacked is None else prepacked.steps)
    return written, Parts(interface_of(plan), arena, prepacked)


def _prepack(plan: Plan, launches: list[Launch]
             ) -> tuple[PrepackedBuffers | None, list[Launch], dict[KernelBuffer, int]]:
    """The prepacked buffers of a program, its launches with the prologue first, and all its
    arguments; the prepacked buffers follow the constants."""
    inputs = [plan.buffers[n] for n in plan.graph.inputs]
    constants = [plan.buffers[n] for n in plan.constants]
    persistent = {inputs[i] for i in plan.graph.persistent}
    first, others = prepacked_launches(launches, {*persistent, *constants}, plan.arguments)
    prepacked, prepacked_buffers = prepacked_part(first, others, inputs)
    if not prepacked_buffers:
        return None, launches, plan.arguments
    results = [b for b in plan.arguments if b not in {*inputs, *constants}]
    arguments = dict.fromkeys((*inputs, *constants, *prepacked_buffers, *results))
    return prepacked, [*first, *others], {b: i for i, b in enumerate(arguments)}


def cached(graph: Graph, target: Target, how: tuple[Any, ...],
           write: Callable[[], tuple[tuple[WrittenProgram, Parts], Any]]
           ) -> tuple[tuple[NativeProgram, Parts], Any]:
    """The compiled program of a graph, and its description, from the disk cache or new."""
    def split() -> tuple[WrittenProgram, tuple[Parts, Any]]:
        (written, parts), about = write()
        return written, (parts, about)

    program, (parts, about) = cached_program(graph, target, how, split)
    return (program, parts), about


def executable(program: tuple[NativeProgram, Parts], target: Target, numbers: Collection[int]
               ) -> Executable:
    """The program, ready to run."""
    code, parts = program
    if parts.prepacked is None:
        return Executable(parts.interface, code, parts.arena)
    return PrepackedExecutable(parts.interface, code, parts.arena, parts.prepacked)


CPU_BACKEND = Backend(CPU, lambda number: host(), machine_of, assemble, executable,
                      lambda program: program[0].ir, cached=cached)
