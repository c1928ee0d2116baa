"""The back end of NVIDIA's GPUs: kernels become CUDA C, CuPy's memory holds the arrays."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import replace

from ...backend import Backend
from ...gpu.cost_model import CandidateChoice
from ...lowering.lowering_table import LoweringTable
from ..module import CudaFunction
from ..program import CUDA_LOWERING, GPU_MACHINE, CudaProgram, assemble
from .device import gpu
from .device_executable import DeviceExecutable
from .protocol import Device
from .report import report


def with_choice(choice: CandidateChoice) -> LoweringTable:
    """The lowering table in which `choice` picks among kernels with the same results."""
    return replace(CUDA_LOWERING, lower={**CUDA_LOWERING.lower, "contract": functools.partial(
        CUDA_LOWERING.lower["contract"], choice=choice)})


def _tuned(device: Device | None) -> LoweringTable:
    """The lowering table with the choices of a device, or those made without one."""
    return CUDA_LOWERING if device is None else with_choice(device.choice)


def _executable(program: CudaProgram, device: Device, numbers: Collection[int]
                ) -> DeviceExecutable:
    return DeviceExecutable(program, device, numbers)


def text_of(program: CudaProgram) -> str:
    """The module of a program, preceded by its launches as comments."""
    functions = [program.module.functions[step.function] for step in program.steps]
    launches = [f"// {f.name}<<<{f.grid}, {f.block}>>>  {', '.join(_source_lines(f)[:3])}\n"
                for f in functions]
    return "".join(launches) + program.module.source


def _source_lines(function: CudaFunction) -> list[str]:
    return list(dict.fromkeys(site for k in function.kernels for site in k.sites))


CUDA_BACKEND = Backend(
    CUDA_LOWERING, lambda number: gpu(number), lambda device: GPU_MACHINE,
    lambda plan, launches, device: assemble(plan, launches), _executable, text_of, _tuned,
    report=report)


def back_end() -> Backend:
    """The back end of NVIDIA's GPUs."""
    return CUDA_BACKEND
