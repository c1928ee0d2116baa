"""CUDA C++ -> machine code of a GPU, by NVIDIA's compiler as a library.

NVRTC needs no GPU and no driver. What it makes is a cubin: code for one architecture, rather than
PTX, which an older driver than the compiler's refuses. The same source gives the same bytes. Every
thread may compile: each call has a program of its own.
Source: https://docs.nvidia.com/cuda/nvrtc/
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....eager.errors import CodegenError

VERSIONS = (13, 12)  # of CUDA, newest first
_FILE = "kernels.cu"  # what the compiler calls the source

FLAGS = (
    "--std=c++17",
    "--fmad=false",  # a * b + c is rounded twice, as on the CPU: where once is meant stands fma()
    "--ftz=false", "--prec-div=true", "--prec-sqrt=true",  # IEEE 754, subnormal numbers as well
    "--ptxas-options=-v",  # the log tells what each kernel takes
)


@dataclass(frozen=True)
class Resources:
    """What a kernel takes: registers of a thread, and bytes. `stack` is memory of each thread's
    own, `shared` what its block has from the start, without what a launch adds.

    A function that is called rather than inlined has an entry too, its registers are 0.
    """

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


@dataclass(frozen=True)
class CompiledModule:
    """Machine code, what the compiler said, and what each kernel takes, by name."""

    cubin: bytes
    log: str
    resources: Mapping[str, Resources]


def compile(
    source: str, arch: str = "sm_90", options: Sequence[str] = (), newest: int | None = None
) -> CompiledModule:
    """The machine code of a source for an architecture, by the newest NVRTC that is here, or the
    newest of those up to a version of CUDA: code by a later one than the driver's is not for it.
    CodegenError with the compiler's messages where it has errors, or where there is no NVRTC."""
    return library(newest).compile(source, arch, options)


@functools.cache
def library(newest: int | None = None) -> Library:
    """The newest NVRTC that is here, or that is not newer than a version of CUDA, loaded."""
    return Library(find(newest))


@functools.cache
def find(newest: int | None = None) -> str:
    """The newest NVRTC that is here, or that is not newer than a version of CUDA: a path, or a name
    that the system's loader knows. CodegenError, which tells what to install, where there is none.
    """
    wanted = [version for version in VERSIONS if newest is None or version <= newest]
    for version in wanted:
        for path in _places(version):
            if path.is_file():
                return str(path)
        if _loads(_name(version)):
            return _name(version)
    packages = [f"pip install {_PACKAGES[version]}" for version in wanted]
    raise CodegenError(
        f"there is no NVRTC for CUDA {newest or VERSIONS[0]}, the compiler of kernels: not among "
        "Python's packages, not in CUDA_PATH or CUDA_HOME, and the system's loader finds none",
        " or ".join(packages) or f"it takes a driver for CUDA {VERSIONS[-1]}, or a later one")


def identity(newest: int | None = None) -> str:
    """A text that is another for another NVRTC. It is not loaded for that where it is a file."""
    place = find(newest)
    if not os.path.isabs(place):
        return f"{place} {library(newest).version}"
    about = os.stat(place)
    return f"{os.path.basename(place)} {about.st_size} {about.st_mtime_ns}"


_PACKAGES = {12: "nvidia-cuda-nvrtc-cu12", 13: "nvidia-cuda-nvrtc"}
_FOLDERS = {  # of these packages, inside of `nvidia`
    12: ("cuda_nvrtc/lib", "cuda_nvrtc/bin"),
    13: ("cu13/lib", "cu13/bin/x86_64"),
}
_TOOLKIT = ("lib64", "lib", "bin", "bin/x64")  # folders of an installed CUDA


def _name(version: int) -> str:
    """The library's file name, which tells the version alone."""
    return f"nvrtc64_{version}0_0.dll" if sys.platform == "win32" else f"libnvrtc.so.{version}"


def _places(version: int) -> Iterator[Path]:
    """Where the library of a version may lie, what counts first coming first."""
    spec = importlib.util.find_spec("nvidia")
    for packages in (spec.submodule_search_locations or ()) if spec is not None else ():
        for folder in _FOLDERS[version]:
            yield Path(packages, folder, _name(version))
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        if os.environ.get(variable):
            for folder in _TOOLKIT:
                yield Path(os.environ[variable], folder, _name(version)).absolute()


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


class Library:
    """An NVRTC: its version, such as (12, 6), and the architectures that it makes code for."""

    def __init__(self, place: str) -> None:
        self.place = place
        try:
            if os.path.isabs(place):
                _load_companions(Path(place))
            self._calls = ctypes.CDLL(place)
        except OSError as error:
            raise CodegenError(f"NVRTC is at {place}, and cannot be loaded: {error}",
                               "reinstall it") from None
        self._calls.nvrtcGetErrorString.restype = ctypes.c_char_p
        self.version = self._version()
        self.archs = tuple(f"sm_{number}" for number in self._numbers())

    def _version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("Version", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def _numbers(self) -> list[int]:
        count = ctypes.c_int()
        self._call("GetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._call("GetSupportedArchs", found)
        return list(found)

    def compile(self, source: str, arch: str, options: Sequence[str] = ()) -> CompiledModule:
        """The machine code of a source; CodegenError with the messages where it is not valid."""
        program = ctypes.c_void_p()
        self._call("CreateProgram", ctypes.byref(program), source.encode(), _FILE.encode(), 0, None,
                   None)
        try:
            return self._compiled(program, source, arch, options)
        finally:
            self._call("DestroyProgram", ctypes.byref(program))

    def _compiled(
        self, program: ctypes.c_void_p, source: str, arch: str, options: Sequence[str]
    ) -> CompiledModule:
        words = [word.encode() for word in (f"--gpu-architecture={arch}", *FLAGS, *options)]
        status = self._calls.nvrtcCompileProgram(
            program, len(words), (ctypes.c_char_p * len(words))(*words))
        log = self._bytes("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
        if status:
            raise CodegenError(self._message(status, arch, log, source), self._advice(arch))
        return CompiledModule(self._bytes("CUBIN", program), log, resources(log))

    def _message(self, status: int, arch: str, log: str, source: str) -> str:
        """What the compiler says, with the lines of the source around each place that it names."""
        return f"NVRTC {self.version[0]}.{self.version[1]} makes no code for {arch}: " \
               f"{self._reason(status)}\n{log.strip()}{_excerpts(source, log)}"

    def _advice(self, arch: str) -> str:
        return "" if arch.rstrip("af") in self.archs else f"it knows {', '.join(self.archs)}"

    def _bytes(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"Get{what}Size", program, ctypes.byref(size))
        found = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", program, found)
        return found.raw

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._calls, f"nvrtc{name}")(*arguments)
        if status:
            raise CodegenError(f"nvrtc{name} of {self.place} says {self._reason(status)}")

    def _reason(self, status: int) -> str:
        text: bytes = self._calls.nvrtcGetErrorString(status)
        return text.decode()


def _load_companions(place: Path) -> None:
    """Loads what NVRTC opens by name alone, which the wheels' libraries do not find themselves."""
    for path in sorted(place.parent.glob("*nvrtc-builtins*")):
        if ".alt." not in path.name:  # of another build, which lies beside it
            ctypes.CDLL(str(path))


def _excerpts(source: str, log: str) -> str:
    """The first lines that errors name, each with those around it."""
    lines = source.splitlines()
    found = dict.fromkeys(int(n) for n in re.findall(rf"^{_FILE}\((\d+)\): error", log, re.M))
    return "".join("\n" + "\n".join(
        f"{'>' if number == line else ' '}{number:5} | {lines[number - 1]}"
        for number in range(max(1, line - 2), min(len(lines), line + 2) + 1))
        for line in list(found)[:3])


_FUNCTION = re.compile(
    r"Function properties for (?P<name>\S+)\n"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads\n"
    r"(?:.*Used (?P<registers>\d+) registers(?:.*?(?P<shared>\d+) bytes smem)?)?")


def resources(log: str) -> dict[str, Resources]:
    """What each function takes, by name, as the assembler says in a program's log."""
    return {found["name"]: Resources(
        *(int(found[part] or 0) for part in ("registers", "stack", "stores", "loads", "shared")))
        for found in _FUNCTION.finditer(log)}
