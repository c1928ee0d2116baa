"""What the blocks of a kernel do, as CUDA C: which task is theirs, where memory is, statements."""

from __future__ import annotations

from ..gpu.thread_mapping import ThreadMapping
from ..ir.loop_ir import Buffer, Kernel
from .emit import CudaEmitter
from .reduce import Reducer
from .types import stored

_ALIGN = 256  # bytes: where a task's scratch in device memory begins


class KernelBody:
    """`parameters` are the types and names of the kernel's arguments; `helpers` gets the functions
    that it calls, by name; `aligned` are the arguments that begin at a multiple of 16 bytes."""

    def __init__(self, kernel: Kernel, team: ThreadMapping, aligned: frozenset[Buffer],
                 helpers: dict[str, str]) -> None:
        self.kernel, self.team = kernel, team
        self._reducing = Reducer(team.threads, helpers)
        self._writer = CudaEmitter(kernel, team, self._reducing,
                                   aligned.union(team.shared, team.device))
        self._taken = {"lane", "task", "scratch", "sums", "block"}
        self.parameters = [self._parameter(b) for b in kernel.arguments]
        self._memory = [*self._own(), *self._shared(), *self._device()]
        self._writer.variables[kernel.task] = "task"
        self._writer.ranges.bind(kernel.task, (0, 0), (kernel.tasks, kernel.tasks))
        self._statements = self._writer.body()

    def lines(self, block: str) -> list[str]:
        """What the block does whose number has this text."""
        sums = ["    __shared__ __align__(16) unsigned char sums[256];"]
        return [*self._numbers(block), *self._memory, *(sums if self._reducing.used else []),
                *self._statements]

    def _parameter(self, b: Buffer) -> tuple[str, str]:
        reads_only = b not in self.kernel.outputs
        kind = f"const {stored(b.dtype)}* __restrict__" if reads_only else f"{stored(b.dtype)}*"
        return kind, self._named(b)

    def _named(self, b: Buffer) -> str:
        name = self._writer.pointers[b] = _name(b, self._taken)
        return name

    def _numbers(self, block: str) -> list[str]:
        """Which task a thread works on, and which of its team it is."""
        threads, teams, tasks = self.team.threads, self.team.teams, self.kernel.tasks
        lane = "0" if threads == 1 else "threadIdx.x" + ("" if teams == 1 else f" % {threads}")
        task = block
        if teams > 1:
            task += f" * {teams} + threadIdx.x" + ("" if threads == 1 else f" / {threads}")
        lines = [f"    const int lane = {lane};", f"    const int task = {task};"]
        return lines if tasks % teams == 0 else [*lines, f"    if (task >= {tasks}) return;"]

    # ---- scratch
    def _own(self) -> list[str]:
        return [f"    {stored(b.dtype)} {self._named(b)}[{own.size}];"
                for b, own in self.team.own.items()]

    def _shared(self) -> list[str]:
        team, lines = self.team, []
        for b in team.shared:
            name, kind = self._named(b), stored(b.dtype)
            size = -(-b.size * b.dtype.itemsize // 16) * 16 // b.dtype.itemsize  # of each team
            of_team = "" if team.teams == 1 else f" + threadIdx.x / {team.threads} * {size}"
            lines += [f"    __shared__ __align__(16) {kind} all_{name}[{size * team.teams}];",
                      f"    {kind}* const {name} = all_{name}{of_team};"]
        return lines

    def _device(self) -> list[str]:
        lines, at = [], 0
        for b in self.team.device:
            name, kind = self._named(b), stored(b.dtype)
            first = f"(long long)task * {scratch_size(self.team)} + {at}"
            lines.append(f"    {kind}* const {name} = ({kind}*)(scratch + {first});")
            at += _padded(b)
        return lines


def scratch_size(team: ThreadMapping) -> int:
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
