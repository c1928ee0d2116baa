"""Assembles kernels to one module of CUDA C and the launches that compute a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..fusion.launch import Launch
from ..gpu.argsort import lower_sort
from ..gpu.attention.select import attention_kernels, has_kernel
from ..gpu.gemm.contract import lower_contract
from ..gpu.lower import lower
from ..gpu.scan import lower_scan
from ..gpu.scatter_add import lower_add_at
from ..gpu.scatter_rows import lower_scatter_rows
from ..ir.loop_ir import Kernel, KernelBuffer
from ..ir.target_info import Machine
from ..lowering.lowering_table import CPU, CompositeKernel, LoweringTable
from ..program.arena import plan_arena
from ..program.executable import Interface, Plan, interface_of
from ..program.native_program import Slot, slot_of
from .horizontal_fusion import fuse_launches
from .module import CudaModule, module_of

GPU_MACHINE = Machine(vector_bytes=128, registers=64, winograd=0, task_divisor=256, in_order=False,
                      gpu=True)
"""The machine that schedules assume for every GPU; a vector is the width of a warp's access."""

CUDA_LOWERING = LoweringTable({
    **CPU.lower, "pointwise": lower, "inner_reduce": lower, "outer_reduce": lower,
    "contract": lower_contract, "scan": lower_scan, "sort": lower_sort,
    "scatter_rows": lower_scatter_rows,
}, dict.fromkeys(("attention", "attention_back"), CompositeKernel(has_kernel, attention_kernels)),
    {"add_at": lower_add_at}, decomposes_calls=True)
VECTOR_BYTES = 16  # of one access of a thread


@dataclass(frozen=True)
class CudaStep:
    """A launch: the number of its function in the module, and the slots of its arguments."""

    function: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class CudaProgram:
    """A compiled graph; its temporaries share an arena of `arena` bytes."""

    interface: Interface
    module: CudaModule
    steps: tuple[CudaStep, ...]
    arena: int

    @property
    def scratch(self) -> int:
        """The bytes of scratch that functions need, one after the other."""
        return max([f.scratch for f in self.module.functions], default=0)


def assemble(plan: Plan, launches: list[Launch]) -> CudaProgram:
    """The program that runs these launches; small ones are fused."""
    fused_launches = fuse_launches(launches, plan.arguments)
    slots, arena = plan_arena([[p.buffer for x in fused for p in x.views]
                               for fused in fused_launches],
                              plan.arguments)
    function_number = {k: n for n, k in enumerate(dict.fromkeys(map(_kernels, fused_launches)))}
    functions = [(f"k{n}_{_label(kernels)}", kernels) for kernels, n in function_number.items()]
    steps = [CudaStep(function_number[_kernels(fused)],
                      tuple([slot_of(p, slots) for x in fused for p in x.views]))
             for fused in fused_launches]
    module = module_of(functions, _aligned_buffers(launches))
    return CudaProgram(interface_of(plan), module, tuple(steps), arena)


def _kernels(fused: Sequence[Launch]) -> tuple[Kernel, ...]:
    return tuple([x.kernel for x in fused])


def _aligned_buffers(launches: list[Launch]) -> dict[Kernel, frozenset[KernelBuffer]]:
    """The buffers of each kernel that begin at a multiple of a vector in all launches."""
    aligned: dict[Kernel, frozenset[KernelBuffer]] = {}
    for x in launches:
        here = frozenset(b for b, p in zip(x.kernel.arguments, x.views)
                         if p.offset * p.buffer.dtype.itemsize % VECTOR_BYTES == 0)
        aligned[x.kernel] = aligned.get(x.kernel, here) & here
    return aligned


def _label(kernels: Sequence[Kernel]) -> str:
    """The name of a function, without its number."""
    _, _, label = kernels[0].name.partition("_")  # drops the number of its group
    plain = "".join(c if c.isalnum() else "_" for c in label or kernels[0].name)
    return plain if len(kernels) == 1 else f"{plain}_and_{len(kernels) - 1}"
