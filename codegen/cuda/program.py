"""A graph as one module of CUDA C, and the launches that compute it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...capture.graph.graph import Graph
from ..compile import lower_graph, slot_of
from ..dynamic.dynamic_program import DynamicProgram, compile_any_size
from ..fusion.launch import Launch
from ..gpu.argsort import lower_sort
from ..gpu.attention.select import attention_kernels, has_kernel
from ..gpu.cost_model import FIRST, Choice
from ..gpu.gemm.contract import lower_contract
from ..gpu.lower import lower
from ..gpu.scan import lower_scan
from ..gpu.scatter_add import lower_add_at
from ..gpu.scatter_rows import lower_scatter_rows
from ..ir.loop_ir import Buffer, Kernel
from ..ir.target_info import Machine
from ..program.arena import plan_arena
from ..program.executable import Interface, Plan, interface_of
from ..program.native_program import Slot
from ..select.lowering_table import CPU, LoweringTable
from .horizontal_fusion import fuse_launches
from .module import CudaModule, module_of

GPU = Machine(vector_bytes=128, registers=64, winograd=0, task_divisor=256, in_order=False)
"""What the choice of loops goes by on every GPU: a vector is what the lanes of a warp read."""

LOWERED = LoweringTable({
    **CPU.lower, "rows": lower, "columns": lower, "contract": lower_contract, "scan": lower_scan,
    "sort": lower_sort, "put": lower_scatter_rows, "composite": attention_kernels,
}, has_kernel, {"add_at": lower_add_at}, decomposes_calls=True)
_PIECE = 16  # bytes moved at once


@dataclass(frozen=True)
class CudaStep:
    """A launch: the number of its function in the module, and where its arguments lie."""

    function: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class CudaProgram:
    """Everything that has to be known to run a graph: `arena` bytes hold what only it uses."""

    interface: Interface
    module: CudaModule
    steps: tuple[CudaStep, ...]
    arena: int

    @property
    def scratch(self) -> int:
        """The bytes that functions work in, one after the other."""
        return max([f.scratch for f in self.module.functions], default=0)


def program_of(graph: Graph, checks: bool = True, choice: Choice = FIRST) -> CudaProgram:
    """The program of a graph; CodegenError where something in it has no code. Where there are
    several ways with the same numbers, `choice` decides."""
    return _assembled(*lower_graph(graph, GPU, checks, _kinds(choice)))


def program_for_any(graph: Graph, least: Mapping[str, int]) -> DynamicProgram:
    """The program of a graph for all sizes up to at least these; CodegenError where code depends on
    the sizes. What reads them finds them in memory, as one more argument."""
    return compile_any_size(graph, least, lambda known, sizes: lower_graph(
        known, replace(GPU, dynamic_sizes=sizes), kinds=LOWERED), _assembled)


def _assembled(plan: Plan, launches: list[Launch]) -> CudaProgram:
    rows = fuse_launches(launches, plan.arguments)
    slots, arena = plan_arena([[p.buffer for x in row for p in x.views] for row in rows],
                              plan.arguments)
    number = {k: n for n, k in enumerate(dict.fromkeys(map(_kernels, rows)))}
    functions = [(f"k{n}_{_label(kernels)}", kernels) for kernels, n in number.items()]
    steps = [CudaStep(number[_kernels(row)], tuple([slot_of(p, slots) for x in row
                                                    for p in x.views]))
             for row in rows]
    module = module_of(functions, _aligned(launches))
    return CudaProgram(interface_of(plan), module, tuple(steps), arena)


def _kernels(row: Sequence[Launch]) -> tuple[Kernel, ...]:
    return tuple([x.kernel for x in row])


def _kinds(choice: Choice) -> LoweringTable:
    return replace(LOWERED, lower={**LOWERED.lower, "contract": functools.partial(
        LOWERED.lower["contract"], choice=choice)})


def _aligned(launches: list[Launch]) -> dict[Kernel, frozenset[Buffer]]:
    """The buffers of each kernel that begin at a multiple of a piece wherever it is launched."""
    found: dict[Kernel, frozenset[Buffer]] = {}
    for x in launches:
        here = frozenset(b for b, p in zip(x.kernel.arguments, x.views)
                         if p.offset * p.buffer.dtype.itemsize % _PIECE == 0)
        found[x.kernel] = found.get(x.kernel, here) & here
    return found


def _label(kernels: Sequence[Kernel]) -> str:
    """What a function is called after its number."""
    _, _, label = kernels[0].name.partition("_")  # the number of its group is the function's own
    plain = "".join(c if c.isalnum() else "_" for c in label or kernels[0].name)
    return plain if len(kernels) == 1 else f"{plain}_and_{len(kernels) - 1}"
