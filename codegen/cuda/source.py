"""Kernels of the loop IR as one module of CUDA C, and how each of them is launched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..loops import Buffer, Kernel
from .emit import Writer
from .prelude import PRELUDE
from .reduce import Reducing
from .team import WARP, Team, team_of
from .types import stored

_RESIDENT = 512  # threads of large blocks that a processor has at least: 128 registers for each
_ALIGN = 256  # bytes: where a task's scratch in device memory begins


@dataclass(frozen=True)
class Function:
    """A kernel as a function of a module: launched with the addresses of the kernel's arguments,
    then of as many bytes as `scratch` says, where that is not 0. `shared` bytes of shared memory
    are added by a launch."""

    name: str
    kernel: Kernel
    grid: int
    block: int
    scratch: int
    shared: int = 0


@dataclass(frozen=True)
class Module:
    """A module of CUDA C and its functions."""

    source: str
    functions: tuple[Function, ...]


def module_of(kernels: Iterable[tuple[str, Kernel, frozenset[Buffer]]]) -> Module:
    """The module of these kernels, each with its name, and the buffers that begin at a multiple of
    16 bytes in all of its launches."""
    helpers: dict[str, str] = {}
    texts, functions = [], []
    for name, kernel, aligned in kernels:
        team = team_of(kernel)
        texts.append(_text(name, kernel, team, aligned, helpers))
        functions.append(Function(name, kernel, team.grid(kernel.tasks), team.block,
                                  _scratch_size(team) * team.grid(kernel.tasks) * team.teams))
    source = "\n".join([PRELUDE.strip(), *helpers.values(), *texts])
    return Module(source + "\n", tuple(functions))


def _text(name: str, kernel: Kernel, team: Team, aligned: frozenset[Buffer],
          helpers: dict[str, str]) -> str:
    reducing = Reducing(team.threads, helpers)
    writer = Writer(kernel, team, reducing, aligned.union(team.shared, team.device))
    head = _head(name, kernel, team, writer)
    writer.variables[kernel.task] = "task"
    writer.ranges.bind(kernel.task, (0, 0), (kernel.tasks, kernel.tasks))
    body = writer.body()
    sums = ["    __shared__ __align__(16) unsigned char sums[256];"] if reducing.used else []
    return "\n".join([*head, *sums, *body, "}"])


def _head(name: str, kernel: Kernel, team: Team, writer: Writer) -> list[str]:
    """The signature, the number of the thread's task, and where its scratch lies."""
    taken: set[str] = {"lane", "task", "scratch", "sums"}
    parameters = []
    for b in kernel.arguments:
        writer.pointers[b] = _name(b, taken)
        reads_only = b not in kernel.outputs
        kind = f"const {stored(b.dtype)}* __restrict__" if reads_only else f"{stored(b.dtype)}*"
        parameters.append(f"{kind} {writer.pointers[b]}")
    parameters += ["unsigned char* scratch"] if team.device else []
    lines = [f'extern "C" __global__ void __launch_bounds__({_bounds(team.block)})',
             f"{name}({', '.join(parameters)}) {{", *_numbers(kernel, team)]
    for b, own in team.own.items():
        writer.pointers[b] = _name(b, taken)
        lines.append(f"    {stored(b.dtype)} {writer.pointers[b]}[{own.size}];")
    return [*lines, *_shared(team, writer, taken), *_device(team, writer, taken)]


def _bounds(block: int) -> str:
    """Threads of a block, and how many a processor has to have room for: left open, the compiler
    aims at more of them than is good, and has threads keep values in memory for it."""
    return f"{block}, {1 if block <= 4 * WARP else max(1, _RESIDENT // block)}"


def _numbers(kernel: Kernel, team: Team) -> list[str]:
    """Which task a thread works on, and which of its team it is."""
    threads, teams = team.threads, team.teams
    lane = "0" if threads == 1 else "threadIdx.x" + ("" if teams == 1 else f" % {threads}")
    task = "blockIdx.x"
    if teams > 1:
        task += f" * {teams} + threadIdx.x" + ("" if threads == 1 else f" / {threads}")
    lines = [f"    const int lane = {lane};", f"    const int task = {task};"]
    whole = kernel.tasks % teams == 0
    return lines if whole else [*lines, f"    if (task >= {kernel.tasks}) return;"]


def _shared(team: Team, writer: Writer, taken: set[str]) -> list[str]:
    lines = []
    for b in team.shared:
        name = writer.pointers[b] = _name(b, taken)
        size = -(-b.size * b.dtype.itemsize // 16) * 16 // b.dtype.itemsize  # of each team
        of_team = "" if team.teams == 1 else f" + threadIdx.x / {team.threads} * {size}"
        kind = stored(b.dtype)
        lines += [f"    __shared__ __align__(16) {kind} all_{name}[{size * team.teams}];",
                  f"    {kind}* const {name} = all_{name}{of_team};"]
    return lines


def _device(team: Team, writer: Writer, taken: set[str]) -> list[str]:
    lines, at = [], 0
    for b in team.device:
        name = writer.pointers[b] = _name(b, taken)
        kind = stored(b.dtype)
        lines.append(f"    {kind}* const {name} = "
                     f"({kind}*)(scratch + (long long)task * {_scratch_size(team)} + {at});")
        at += _padded(b)
    return lines


def _scratch_size(team: Team) -> int:
    """Bytes of device memory for each task."""
    return sum(map(_padded, team.device))


def _padded(b: Buffer) -> int:
    return -(-b.size * b.dtype.itemsize // _ALIGN) * _ALIGN


def _name(b: Buffer, taken: set[str]) -> str:
    """The name of a buffer, as C has names, and once in a function."""
    plain = "".join(c if c.isalnum() else "_" for c in b.name) or "b"
    name = plain if plain[0].isalpha() else f"b{plain}"
    while name in taken or name in _WORDS:
        name += "_"
    taken.add(name)
    return name


_WORDS = set(
    "int float double char short long bool const void for if else while do return unsigned signed "
    "struct class template this new delete default switch case union enum auto register static "
    "extern inline operator private public namespace using typename try catch throw true false and "
    "or not xor min max asm half goto break continue".split())
