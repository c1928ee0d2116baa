"""Writes kernels as one module of CUDA C, and describes how its functions are launched.

A function runs one kernel, or several independent ones. In the latter case each block derives
from its number which kernel it runs, and on which arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..gpu.thread_mapping import WARP, thread_mapping_of
from ..ir.loop_ir import Kernel, KernelBuffer, Product
from .kernel_body import KernelBody, scratch_size
from .prelude import PRELUDE

MIN_RESIDENT_THREADS = 512  # per processor, for large blocks: 128 registers each


@dataclass(frozen=True)
class CudaFunction:
    """A function of a module, for one or several kernels; earlier kernels take earlier blocks.

    Its arguments are the addresses of all kernels' buffers, then `scratch` bytes of device
    memory unless that is 0. A launch adds `shared` bytes of shared memory."""

    name: str
    kernels: tuple[Kernel, ...]
    grid: int
    block: int
    scratch: int
    shared: int = 0

    @property
    def arguments(self) -> tuple[KernelBuffer, ...]:
        """The buffers of all its arguments, in calling order."""
        return tuple([b for k in self.kernels for b in k.arguments])

    @property
    def product(self) -> Product | None:
        """The matrix product that the function computes, if a library can compute it instead."""
        return self.kernels[0].product if len(self.kernels) == 1 else None


@dataclass(frozen=True)
class CudaModule:
    """A module of CUDA C and its functions."""

    source: str
    functions: tuple[CudaFunction, ...]


def module_of(functions: Iterable[tuple[str, Sequence[Kernel]]],
              aligned: Mapping[Kernel, frozenset[KernelBuffer]]) -> CudaModule:
    """The module of functions, given by name and kernels, equal kernels side by side; `aligned`
    holds the buffers of each kernel that begin at a multiple of 16 bytes in all launches."""
    helpers: dict[str, str] = {}
    texts, cuda_functions = [], []
    for name, kernels in functions:
        mappings = {k: thread_mapping_of(k, alone=len(kernels) == 1) for k in kernels}
        bodies = {k: KernelBody(k, mapping, aligned[k], helpers) for k, mapping in mappings.items()}
        write_function = _single_kernel_function if len(kernels) == 1 else _fused_function
        texts.append("\n".join(write_function(name, [bodies[k] for k in kernels])))
        grids = [mappings[k].grid(k.tasks) for k in kernels]
        scratch = sum(scratch_size(mappings[k]) * mappings[k].groups_per_block * n
                      for k, n in zip(kernels, grids))
        cuda_functions.append(CudaFunction(name, tuple(kernels), sum(grids),
                                           mappings[kernels[0]].block_threads, scratch))
    source = "\n".join([PRELUDE.strip(), *helpers.values(), *texts])
    return CudaModule(source + "\n", tuple(cuda_functions))


def _function_head(name: str, block: int, parameters: Sequence[str]) -> list[str]:
    return [f'extern "C" __global__ void __launch_bounds__({_launch_bounds(block)})',
            f"{name}({', '.join(parameters)}) {{"]


def _launch_bounds(block: int) -> str:
    """The threads of a block, and the number of blocks that must fit on a processor.

    Without the latter the compiler targets too many blocks and spills registers."""
    return f"{block}, {1 if block <= 4 * WARP else max(1, MIN_RESIDENT_THREADS // block)}"


def _single_kernel_function(name: str, bodies: Sequence[KernelBody]) -> list[str]:
    """The function of a single kernel."""
    (body,) = bodies
    parameters = [f"{kind} {own}" for kind, own in body.parameters]
    scratch = ["unsigned char* scratch"] if body.mapping.device else []
    return [*_function_head(name, body.mapping.block_threads, [*parameters, *scratch]),
            *body.lines("blockIdx.x"), "}"]


def _fused_function(name: str, bodies: Sequence[KernelBody]) -> list[str]:
    """The function of several kernels; the code of equal kernels appears once."""
    assert len({b.mapping.block_threads for b in bodies}) == 1
    assert not any(b.mapping.device for b in bodies)
    parameters = [f"{kind} {own_block}_{n}" for n, b in enumerate(bodies)
                  for kind, own_block in b.parameters]
    lines, first, number = [], 0, 0
    for body, equal in groupby(bodies):
        count, grid = len([*equal]), body.mapping.grid(body.kernel.tasks)
        own_block = f"(block - {first})" if first else "block"
        launch_number = own_block if grid == 1 else f"{own_block} / {grid}"
        own_block = "0" if grid == 1 else f"({own_block} % {grid})" if count > 1 else own_block
        inner = [*_select_arguments(body, number, count, launch_number), *body.lines(own_block)]
        number, first = number + count, first + grid * count
        lines += [f"    if (block < {first}) {{", *(f"    {x}" for x in inner), "        return;",
                  "    }"]
    block = ["    const int block = blockIdx.x;"]
    return [*_function_head(name, bodies[0].mapping.block_threads, parameters), *block, *lines, "}"]


def _select_arguments(body: KernelBody, first: int, count: int, which: str) -> list[str]:
    """The lines that select the arguments of one of several launches of a kernel, by its number."""
    if count == 1:
        return [f"    {kind} {own} = {own}_{first};" for kind, own in body.parameters]
    lines = [f"    {kind} {own};" for kind, own in body.parameters]
    lines.append(f"    switch ({which}) {{")
    for n in range(count):
        label = f"case {n}" if n < count - 1 else "default"
        set_all = " ".join(f"{own} = {own}_{first + n};" for _, own in body.parameters)
        lines.append(f"    {label}: {set_all} break;")
    return [*lines, "    }"]
