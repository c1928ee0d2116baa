"""Kernels of the loop IR as one module of CUDA C, and how its functions are launched.

A function is one kernel, or several that do not need each other: then each block finds by its
number for which of them it works, and on which arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..gpu.thread_mapping import WARP, thread_mapping_of
from ..ir.loop_ir import Buffer, Kernel, Product
from .kernel_body import KernelBody, scratch_size
from .prelude import PRELUDE

_RESIDENT = 512  # threads of large blocks that a processor has at least: 128 registers for each


@dataclass(frozen=True)
class CudaFunction:
    """A function of a module, for one kernel or several, of which the first have the first blocks.
    It is launched with the addresses of all of their arguments, then of as many bytes as `scratch`
    says, where that is not 0. `shared` bytes of shared memory are added by a launch."""

    name: str
    kernels: tuple[Kernel, ...]
    grid: int
    block: int
    scratch: int
    shared: int = 0

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """Every buffer that it is called with, in calling order."""
        return tuple([b for k in self.kernels for b in k.arguments])

    @property
    def product(self) -> Product | None:
        """What all of it computes, where a library may do that as well."""
        return self.kernels[0].product if len(self.kernels) == 1 else None


@dataclass(frozen=True)
class CudaModule:
    """A module of CUDA C and its functions."""

    source: str
    functions: tuple[CudaFunction, ...]


def module_of(functions: Iterable[tuple[str, Sequence[Kernel]]],
              aligned: Mapping[Kernel, frozenset[Buffer]]) -> CudaModule:
    """The module of functions by their names and kernels, of which equal ones stand side by side;
    `aligned`: the buffers of each kernel that begin at a multiple of 16 bytes in all launches."""
    helpers: dict[str, str] = {}
    texts, made = [], []
    for name, kernels in functions:
        teams = {k: thread_mapping_of(k, alone=len(kernels) == 1) for k in kernels}
        bodies = {k: KernelBody(k, team, aligned[k], helpers) for k, team in teams.items()}
        write = _alone if len(kernels) == 1 else _together
        texts.append("\n".join(write(name, [bodies[k] for k in kernels])))
        grids = [teams[k].grid(k.tasks) for k in kernels]
        scratch = sum(scratch_size(teams[k]) * teams[k].teams * n for k, n in zip(kernels, grids))
        made.append(CudaFunction(name, tuple(kernels), sum(grids), teams[kernels[0]].block,
                                 scratch))
    source = "\n".join([PRELUDE.strip(), *helpers.values(), *texts])
    return CudaModule(source + "\n", tuple(made))


def _head(name: str, block: int, parameters: Sequence[str]) -> list[str]:
    return [f'extern "C" __global__ void __launch_bounds__({_bounds(block)})',
            f"{name}({', '.join(parameters)}) {{"]


def _bounds(block: int) -> str:
    """Threads of a block, and how many a processor has to have room for: left open, the compiler
    aims at more of them than is good, and has threads keep values in memory for it."""
    return f"{block}, {1 if block <= 4 * WARP else max(1, _RESIDENT // block)}"


def _alone(name: str, bodies: Sequence[KernelBody]) -> list[str]:
    """The function of a kernel."""
    (body,) = bodies
    parameters = [f"{kind} {own}" for kind, own in body.parameters]
    scratch = ["unsigned char* scratch"] if body.team.device else []
    return [*_head(name, body.team.block, [*parameters, *scratch]), *body.lines("blockIdx.x"), "}"]


def _together(name: str, bodies: Sequence[KernelBody]) -> list[str]:
    """The function of several kernels: what blocks of the same one do stands there once."""
    assert len({b.team.block for b in bodies}) == 1
    assert not any(b.team.device for b in bodies)
    parameters = [f"{kind} {own}_{n}" for n, b in enumerate(bodies) for kind, own in b.parameters]
    lines, first, number = [], 0, 0
    for body, equal in groupby(bodies):
        count, grid = len([*equal]), body.team.grid(body.kernel.tasks)
        own = f"(block - {first})" if first else "block"
        which = own if grid == 1 else f"{own} / {grid}"
        own = "0" if grid == 1 else f"({own} % {grid})" if count > 1 else own
        inner = [*_addresses(body, number, count, which), *body.lines(own)]
        number, first = number + count, first + grid * count
        lines += [f"    if (block < {first}) {{", *(f"    {x}" for x in inner), "        return;",
                  "    }"]
    block = ["    const int block = blockIdx.x;"]
    return [*_head(name, bodies[0].team.block, parameters), *block, *lines, "}"]


def _addresses(body: KernelBody, first: int, count: int, which: str) -> list[str]:
    """Where the arguments are of one of several launches of a kernel, by its number."""
    if count == 1:
        return [f"    {kind} {own} = {own}_{first};" for kind, own in body.parameters]
    lines = [f"    {kind} {own};" for kind, own in body.parameters]
    lines.append(f"    switch ({which}) {{")
    for n in range(count):
        label = f"case {n}" if n < count - 1 else "default"
        set_all = " ".join(f"{own} = {own}_{first + n};" for _, own in body.parameters)
        lines.append(f"    {label}: {set_all} break;")
    return [*lines, "    }"]
