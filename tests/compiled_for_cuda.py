"""Compiles graphs for a given device, such as the emulator, by the CUDA back end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from fusewire.capture.graph.graph import Graph
from fusewire.codegen.compile import assembled, compile_for
from fusewire.codegen.cuda.program import CudaProgram
from fusewire.codegen.cuda.runtime.backend import CUDA_BACKEND, with_choice
from fusewire.codegen.cuda.runtime.device_executable import DeviceExecutable
from fusewire.codegen.gpu.cost_model import FIRST_CANDIDATE, CandidateChoice


def compile_on(graph: Graph, device: Any, checks: bool = True, numbers: Collection[int] = ()
               ) -> DeviceExecutable:
    """The program of a graph on a device; its inputs `numbers` are on the CPU."""
    made: DeviceExecutable = compile_for(CUDA_BACKEND, graph, device, checks, numbers)
    return made


def program_of(graph: Graph, checks: bool = True, choice: CandidateChoice = FIRST_CANDIDATE
               ) -> CudaProgram:
    """The program of a graph before it is loaded; `choice` picks among kernels."""
    backend = replace(CUDA_BACKEND, tuned=lambda device: with_choice(choice))
    made: CudaProgram = assembled(backend, graph, None, checks)
    return made
