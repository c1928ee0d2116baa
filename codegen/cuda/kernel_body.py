"""Writes the code that a block runs for a kernel: its task, its memory, and its statements."""

from __future__ import annotations

from ..gpu.thread_mapping import ThreadMapping
from ..ir.loop_ir import Kernel, KernelBuffer
from .emit import CudaEmitter
from .reduce import Reducer
from .types import memory_type

_SCRATCH_ALIGNMENT = 256  # bytes, of a task's scratch in device memory


class KernelBody:
    """The code of one kernel within a function.

    `parameters` are the C types and names of the kernel's arguments. `helpers` collects the
    functions that it calls, by name. `aligned` arguments begin at a multiple of 16 bytes."""

    def __init__(self, kernel: Kernel, mapping: ThreadMapping, aligned: frozenset[KernelBuffer],
                 helpers: dict[str, str]) -> None:
        self.kernel, self.mapping = kernel, mapping
        self._reducer = Reducer(mapping.group_threads, helpers)
        self._writer = CudaEmitter(kernel, mapping, self._reducer,
                                   aligned.union(mapping.shared, mapping.device))
        self._used_names = {"lane", "task", "scratch", "sums", "block"}
        self.parameters = [self._parameter(b) for b in kernel.arguments]
        self._memory = [*self._thread_local(), *self._shared(), *self._device()]
        self._writer.variables[kernel.task] = "task"
        self._writer.ranges.bind(kernel.task, (0, 0), (kernel.tasks, kernel.tasks))
        self._statements = self._writer.body()

    def lines(self, block: str) -> list[str]:
        """The lines that a block runs; `block` is the text of its number."""
        sums = ["    __shared__ __align__(16) unsigned char sums[256];"] \
            if self._reducer.needs_shared_memory else []
        return [*self._task_and_lane(block), *self._memory, *sums, *self._statements]

    def _parameter(self, b: KernelBuffer) -> tuple[str, str]:
        reads_only = b not in self.kernel.outputs
        element = memory_type(b.dtype)
        kind = f"const {element}* __restrict__" if reads_only else f"{element}*"
        return kind, self._named(b)

    def _named(self, b: KernelBuffer) -> str:
        name = self._writer.pointers[b] = _unique_c_name(b, self._used_names)
        return name

    def _task_and_lane(self, block: str) -> list[str]:
        """The lines that compute a thread's task and its lane within the thread group."""
        threads, groups = self.mapping.group_threads, self.mapping.groups_per_block
        tasks = self.kernel.tasks
        lane = "0" if threads == 1 else "threadIdx.x" + ("" if groups == 1 else f" % {threads}")
        task = block
        if groups > 1:
            task += f" * {groups} + threadIdx.x" + ("" if threads == 1 else f" / {threads}")
        lines = [f"    const int lane = {lane};", f"    const int task = {task};"]
        return lines if tasks % groups == 0 else [*lines, f"    if (task >= {tasks}) return;"]

    # ---- scratch
    def _thread_local(self) -> list[str]:
        return [f"    {memory_type(b.dtype)} {self._named(b)}[{local.size}];"
                for b, local in self.mapping.thread_local.items()]

    def _shared(self) -> list[str]:
        groups, threads, lines = self.mapping.groups_per_block, self.mapping.group_threads, []
        for b in self.mapping.shared:
            name, kind = self._named(b), memory_type(b.dtype)
            size = -(-b.size * b.dtype.itemsize // 16) * 16 // b.dtype.itemsize  # of each group
            group_offset = "" if groups == 1 else f" + threadIdx.x / {threads} * {size}"
            lines += [f"    __shared__ __align__(16) {kind} all_{name}[{size * groups}];",
                      f"    {kind}* const {name} = all_{name}{group_offset};"]
        return lines

    def _device(self) -> list[str]:
        lines, at = [], 0
        for b in self.mapping.device:
            name, kind = self._named(b), memory_type(b.dtype)
            first = f"(long long)task * {scratch_size(self.mapping)} + {at}"
            lines.append(f"    {kind}* const {name} = ({kind}*)(scratch + {first});")
            at += _padded(b)
        return lines


def scratch_size(mapping: ThreadMapping) -> int:
    """Bytes of device memory for each task."""
    return sum(map(_padded, mapping.device))


def _padded(b: KernelBuffer) -> int:
    return -(-b.size * b.dtype.itemsize // _SCRATCH_ALIGNMENT) * _SCRATCH_ALIGNMENT


def _unique_c_name(b: KernelBuffer, used_names: set[str]) -> str:
    """A valid C name for a buffer, unique within the function."""
    plain = "".join(c if c.isalnum() else "_" for c in b.name) or "b"
    name = plain if plain[0].isalpha() else f"b{plain}"
    while name in used_names or name in _RESERVED_WORDS:
        name += "_"
    used_names.add(name)
    return name


_RESERVED_WORDS = set(
    "int float double char short long bool const void for if else while do return unsigned signed "
    "struct class template this new delete default switch case union enum auto register static "
    "extern inline operator private public namespace using typename try catch throw true false and "
    "or not xor min max asm half goto break continue".split())
