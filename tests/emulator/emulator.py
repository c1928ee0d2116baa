"""CUDA C executed on the CPU: each thread of a block in turn, each access to memory checked.

    module = Module(source)
    module.launch("softmax", grid=(8,), block=(256,), arguments=[x, y, np.int32(256)])

A kernel that reads or writes where it may not, races, or waits for threads that do not come is a
`KernelFault` that names the line. Values alone do not show such faults: threads that take turns
seldom trip over a missing barrier.

What it knows of CUDA C: see `device.h` and what that includes. Source may say `#ifdef FW_EMULATOR`.
What it does not model: memory fences between blocks (one that waits for another's flag is reported
as a race), multiplications and additions that a compiler contracts, and how well the fast functions
of a device approximate. What it does not see: steps outside of a thread's own arrays that go by a
pointer, global memory that is read before anybody wrote it, and kernels that never end.
"""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from emulator.build import Kernel, kernels_of, library, run_time
from emulator.placing import Memory, overlapping, placed

AVAILABLE = sys.platform == "linux" and shutil.which("g++") is not None
SHARED_BYTES = 227 * 1024              # of one block
BLOCK_LIMITS = (1024, 1024, 64)
GRID_LIMITS = (2**31 - 1, 65535, 65535)
KINDS = {"b": 3, "u": 3, "i": 2, "f": 4}  # as in device_calls.h
POINTER, LINE = 1, 1 << 31


RECORD = np.dtype([("address", "u8"), ("place", "u4"), ("thread", "u4"), ("size", "u2"),
                   ("access", "u2"), ("shared", "u2"), ("unused", "u2")])  # as in trace.cpp


class KernelFault(RuntimeError):
    """What a kernel does wrong, and the line of its source where it does."""

    def __init__(self, kernel: str, lines: Sequence[int], what: str, source: str) -> None:
        self.kernel, self.line, self.what = kernel, lines[0], what
        texts = ["", *source.splitlines()]
        shown = "".join(f"\n    {line}: {texts[line].strip()}" for line in lines)
        super().__init__(f"{kernel}, {_called(lines)}: {what}{shown}")


class Module:
    """The kernels of a source. `mode` "check" looks at every access to memory; "fast" looks at
    barriers and shuffles alone, and a kernel that goes astray there ends the process."""

    def __init__(self, source: str, mode: str = "check") -> None:
        self.source, self.checked = source, mode == "check"
        self.kernels = kernels_of(source)
        self._run_time = _run_time()
        self._path = library(source, mode)
        self._library = ctypes.PyDLL(str(self._path))
        self._library.emulator_image.restype = ctypes.c_void_p

    def launch(self, name: str, grid: Sequence[int], block: Sequence[int],
               arguments: Sequence[Any], shared: int = 0, order: int = 0,
               traced: int = -1) -> None:
        """Runs a kernel. `arguments`: contiguous arrays (those that are read-only may not be
        written), None for a null pointer, and NumPy scalars; `shared` bytes of dynamic shared
        memory; threads and blocks take turns forwards (0), backwards (1), or as a seed says;
        `traced`: the number of the block whose accesses `accesses` tells.

        What it did wrong is a KernelFault, after which arrays hold what they held before.
        """
        kernel = self.kernels[name]
        sizes = [(*size, 1, 1)[:3] for size in (grid, block)]
        self._check_sizes(kernel, sizes, shared)
        self._check_arguments(kernel, arguments)
        image = [self._library.emulator_image(end) for end in (0, 1)]
        self._run_time.emulator_begin(int(self.checked), *map(ctypes.c_void_p, image))
        self._run_time.emulator_trace_block(ctypes.c_int64(traced))
        memory = placed(kernel.parameters, arguments, apart=self.checked)
        for part in memory:
            self._run_time.emulator_argument(*part.described())
        if self._run(name, memory, arguments, sizes, shared, order) \
                or self._broken_promise(kernel, memory):
            raise self._fault(name)
        for part in memory:
            part.give_back()

    def accesses(self) -> Any:
        """The accesses of the traced block of the last launch, as an array of `RECORD`s in which
        places are lines."""
        found = ctypes.c_void_p()
        count = self._run_time.emulator_trace(ctypes.byref(found))
        records = np.zeros(count, RECORD)
        ctypes.memmove(records.ctypes.data, found, records.nbytes)
        places, which = np.unique(records["place"], return_inverse=True)
        lines = [self._lines(int(place))[0] for place in places]
        records["place"] = np.array(lines, np.uint32)[which]
        return records

    def _run(self, name: str, memory: Sequence[Memory], arguments: Sequence[Any],
             sizes: Sequence[Sequence[int]], shared: int, order: int) -> int:
        cells = [_cell(memory, argument) for argument in arguments]
        table = (ctypes.c_void_p * max(1, len(cells)))(*map(ctypes.addressof, cells))
        grid, block = ((ctypes.c_uint * 3)(*size) for size in sizes)
        kernel = ctypes.cast(self._library[f"emulator_call_{name}"], ctypes.c_void_p)
        return int(self._run_time.emulator_launch(
            kernel, table, grid, block, ctypes.c_size_t(shared), int(self.checked), order))

    # ---- what is wrong before it begins --------------------------------------------------------

    def _check_sizes(self, kernel: Kernel, sizes: Sequence[Sequence[int]], shared: int) -> None:
        grid, block = sizes
        threads = block[0] * block[1] * block[2]
        if any(not 1 <= n <= most for n, most in zip(block, BLOCK_LIMITS)) \
                or threads > kernel.bound:
            what = f"a block of {tuple(block)} threads: at most {kernel.bound} are allowed"
        elif any(not 1 <= n <= most for n, most in zip(grid, GRID_LIMITS)):
            what = f"a grid of {tuple(grid)} blocks: at most {GRID_LIMITS} are allowed"
        elif not 0 <= shared <= SHARED_BYTES:
            what = f"{shared} bytes of shared memory: at most {SHARED_BYTES} are allowed"
        else:
            return
        raise KernelFault(kernel.name, [kernel.line], what, self.source)

    def _check_arguments(self, kernel: Kernel, arguments: Sequence[Any]) -> None:
        found = (ctypes.c_int * 1024)()
        count = self._library[f"emulator_types_{kernel.name}"](found)
        if count != len(arguments):
            raise TypeError(
                f"{kernel.name} takes {count} arguments, and {len(arguments)} are given")
        for name, wanted, argument in zip(kernel.parameters, found, arguments):
            given = _code(argument)
            if given != wanted:
                raise TypeError(f"{kernel.name}: {name} is not {argument!r:.80}: {_words(wanted)} "
                                f"is wanted, and {_words(given)} is given")

    # ---- what went wrong ------------------------------------------------------------------------

    def _broken_promise(self, kernel: Kernel, memory: Sequence[Memory]) -> bool:
        """Whether what is read and said to be nobody else's was written as another argument: the
        compiler may read it later than that, or from a cache."""
        declared = kernel.parameters
        return self.checked and any(
            self._run_time.emulator_restricted(name.encode(), ctypes.c_void_p(begin),
                                               ctypes.c_void_p(end))
            for name, other, begin, end in overlapping(memory)
            if "__restrict__" in declared[name] and "const" not in declared[other])

    def _fault(self, name: str) -> KernelFault:
        lines = self._lines(self._run_time.emulator_fault_place())
        text = self._run_time.emulator_fault_message().decode()
        what = re.sub(r"<(\d+)>", lambda match: _called(self._lines(int(match[1]))), text)
        return KernelFault(name, lines if lines[0] else [self.kernels[name].line], what,
                           self.source)

    def _lines(self, place: int) -> list[int]:
        """The line of a place, which is given as one, or as the address of an instruction: then
        those that functions in between were called at follow."""
        return [place - LINE] if place >= LINE else _lines(self._path, place)


def _lines(path: Path, address: int) -> list[int]:
    command = ["addr2line", "--inlines", "-e", str(path), hex(address)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(line) for line in re.findall(r"\bkernel\.cpp:(\d+)", done.stdout)] or [0]


def _called(lines: Sequence[int]) -> str:
    """A line in words, and from where functions were called down to it."""
    return " called at ".join(f"line {line}" for line in lines)


@functools.cache
def _run_time() -> ctypes.PyDLL:
    """PyDLL: it holds the interpreter's lock, as it has one launch at a time."""
    loaded = ctypes.PyDLL(str(run_time()), mode=ctypes.RTLD_GLOBAL)
    loaded.emulator_fault_message.restype = ctypes.c_char_p
    loaded.emulator_fault_place.restype = ctypes.c_uint32
    loaded.emulator_trace.restype = ctypes.c_size_t
    return loaded


def _cell(memory: Sequence[Memory], argument: Any) -> Any:
    """The argument's value where a pointer can point to it."""
    if argument is None or isinstance(argument, np.ndarray):
        parts = [part for part in memory if argument is not None and part.holds(argument)]
        return ctypes.c_void_p(parts[0].address_of(argument) if parts else None)
    return ctypes.create_string_buffer(np.asarray(argument).tobytes(), 16)


def _code(argument: Any) -> int:
    if argument is None or isinstance(argument, np.ndarray):
        return 16 * ctypes.sizeof(ctypes.c_void_p) + POINTER
    if not isinstance(argument, np.generic):
        return 0
    return 16 * argument.dtype.itemsize + KINDS.get(argument.dtype.kind, 0)


def _words(code: int) -> str:
    names = {1: "a pointer", 2: "a signed integer", 3: "an unsigned integer", 4: "a float"}
    size, kind = divmod(code, 16)
    return f"{names.get(kind, 'something else')} of {size} bytes" if size else "no NumPy scalar"
