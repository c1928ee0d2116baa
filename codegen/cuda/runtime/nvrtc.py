"""Compiles CUDA C++ to machine code with NVRTC, NVIDIA's compiler as a library.

NVRTC needs no GPU and no driver. The result is a cubin (code for one architecture) rather than
PTX, because a driver older than the compiler rejects its PTX. Compilation is deterministic. It
is thread-safe, since each call has a program of its own.

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
_SOURCE_NAME = "kernels.cu"  # the source's name in messages

FLAGS = (
    "--std=c++17",
    "--fmad=false",  # a * b + c rounds twice, as on the CPU; fma() rounds once
    "--ftz=false", "--prec-div=true", "--prec-sqrt=true",  # IEEE 754, subnormal numbers as well
    "--ptxas-options=-v",  # logs the resources of each kernel
)


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel: registers of a thread, and bytes.

    `stack` is the local memory of each thread, `shared` the static shared memory of a block. A
    function that is called rather than inlined has an entry, too, with 0 registers."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


@dataclass(frozen=True)
class CompiledModule:
    """Machine code, the compiler's log, and the resources of each kernel by name."""

    cubin: bytes
    log: str
    resources: Mapping[str, Resources]


def compile(
    source: str, arch: str = "sm_90", options: Sequence[str] = (), newest: int | None = None
) -> CompiledModule:
    """The machine code of a source for an architecture, by the newest NVRTC up to CUDA version
    `newest` (a driver cannot run code of a newer CUDA). Raises CodegenError with the compiler's
    messages if the source is invalid, or if there is no NVRTC."""
    return library(newest).compile(source, arch, options)


@functools.cache
def library(newest: int | None = None) -> NvrtcLibrary:
    """The newest installed NVRTC up to CUDA version `newest`, loaded."""
    return NvrtcLibrary(find(newest))


@functools.cache
def find(newest: int | None = None) -> str:
    """The path of the newest NVRTC up to CUDA version `newest`, or a name that the system's loader
    knows. Raises CodegenError, with what to install, if there is none."""
    versions = [version for version in VERSIONS if newest is None or version <= newest]
    for version in versions:
        for path in _candidate_paths(version):
            if path.is_file():
                return str(path)
        if _can_load(_name(version)):
            return _name(version)
    packages = [f"pip install {_PACKAGES[version]}" for version in versions]
    raise CodegenError(
        f"no NVRTC for CUDA {newest or VERSIONS[0]}, the compiler of GPU kernels, was found: not "
        "among Python's packages, not in CUDA_PATH or CUDA_HOME, not by the system's loader",
        " or ".join(packages) or f"install a driver for CUDA {VERSIONS[-1]} or later")


def identity(newest: int | None = None) -> str:
    """A text that identifies the installed NVRTC; a library with a path is not loaded for it."""
    path = find(newest)
    if not os.path.isabs(path):
        return f"{path} {library(newest).version}"
    status = os.stat(path)
    return f"{os.path.basename(path)} {status.st_size} {status.st_mtime_ns}"


_PACKAGES = {12: "nvidia-cuda-nvrtc-cu12", 13: "nvidia-cuda-nvrtc"}
_FOLDERS = {  # of these packages, inside `nvidia`
    12: ("cuda_nvrtc/lib", "cuda_nvrtc/bin"),
    13: ("cu13/lib", "cu13/bin/x86_64"),
}
_TOOLKIT = ("lib64", "lib", "bin", "bin/x64")  # folders of an installed CUDA


def _name(version: int) -> str:
    """The library's file name; it contains only the version."""
    return f"nvrtc64_{version}0_0.dll" if sys.platform == "win32" else f"libnvrtc.so.{version}"


def _candidate_paths(version: int) -> Iterator[Path]:
    """Yields the paths where the library of a version may be, in order of precedence."""
    spec = importlib.util.find_spec("nvidia")
    for packages in (spec.submodule_search_locations or ()) if spec is not None else ():
        for folder in _FOLDERS[version]:
            yield Path(packages, folder, _name(version))
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        if os.environ.get(variable):
            for folder in _TOOLKIT:
                yield Path(os.environ[variable], folder, _name(version)).absolute()


def _can_load(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


class NvrtcLibrary:
    """A loaded NVRTC: its version, such as (12, 6), and the architectures that it supports."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            if os.path.isabs(path):
                _load_companions(Path(path))
            self._calls = ctypes.CDLL(path)
        except OSError as error:
            raise CodegenError(f"NVRTC at {path} cannot be loaded: {error}",
                               "reinstall it") from None
        self._calls.nvrtcGetErrorString.restype = ctypes.c_char_p
        self.version = self._version()
        self.archs = tuple(f"sm_{number}" for number in self._supported_archs())

    def _version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("Version", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def _supported_archs(self) -> list[int]:
        count = ctypes.c_int()
        self._call("GetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._call("GetSupportedArchs", numbers)
        return list(numbers)

    def compile(self, source: str, arch: str, options: Sequence[str] = ()) -> CompiledModule:
        """The machine code of a source. Raises CodegenError with the compiler's messages if it is
        invalid."""
        program = ctypes.c_void_p()
        self._call("CreateProgram", ctypes.byref(program), source.encode(), _SOURCE_NAME.encode(),
                   0, None, None)
        try:
            return self._compile_program(program, source, arch, options)
        finally:
            self._call("DestroyProgram", ctypes.byref(program))

    def _compile_program(
        self, program: ctypes.c_void_p, source: str, arch: str, options: Sequence[str]
    ) -> CompiledModule:
        options_bytes = [option.encode() for option in (f"--gpu-architecture={arch}", *FLAGS,
                                                        *options)]
        status = self._calls.nvrtcCompileProgram(
            program, len(options_bytes), (ctypes.c_char_p * len(options_bytes))(*options_bytes))
        log = self._bytes("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
        if status:
            raise CodegenError(self._message(status, arch, log, source), self._advice(arch))
        return CompiledModule(self._bytes("CUBIN", program), log, resources(log))

    def _message(self, status: int, arch: str, log: str, source: str) -> str:
        """The compiler's messages, with the source lines around each location that they name."""
        return f"NVRTC {self.version[0]}.{self.version[1]} cannot compile for {arch}: " \
               f"{self._reason(status)}\n{log.strip()}{_excerpts(source, log)}"

    def _advice(self, arch: str) -> str:
        return "" if arch.rstrip("af") in self.archs else f"it supports {', '.join(self.archs)}"

    def _bytes(self, kind: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"Get{kind}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"Get{kind}", program, buffer)
        return buffer.raw

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._calls, f"nvrtc{name}")(*arguments)
        if status:
            raise CodegenError(f"nvrtc{name} of {self.path} failed: {self._reason(status)}")

    def _reason(self, status: int) -> str:
        text: bytes = self._calls.nvrtcGetErrorString(status)
        return text.decode()


def _load_companions(library: Path) -> None:
    """Loads the libraries that NVRTC opens by name alone: those of the wheels would not be
    found."""
    for path in sorted(library.parent.glob("*nvrtc-builtins*")):
        if ".alt." not in path.name:  # a library of another build
            ctypes.CDLL(str(path))


def _excerpts(source: str, log: str) -> str:
    """The source around the first error locations."""
    lines = source.splitlines()
    error_lines = dict.fromkeys(int(n) for n in re.findall(rf"^{_SOURCE_NAME}\((\d+)\): error", log,
                                                           re.M))
    return "".join("\n"
                   + "\n".join(f"{'>' if number == line else ' '}{number:5} | {lines[number - 1]}"
                               for number in range(max(1, line - 2), min(len(lines), line + 2) + 1))
                   for line in list(error_lines)[:3])


_RESOURCE_USAGE = re.compile(
    r"Function properties for (?P<name>\S+)\n"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads\n"
    r"(?:.*Used (?P<registers>\d+) registers(?:.*?(?P<shared>\d+) bytes smem)?)?")


def resources(log: str) -> dict[str, Resources]:
    """The resources of each function by name, parsed from the assembler's messages in a log."""
    return {match["name"]: Resources(
        *(int(match[part] or 0) for part in ("registers", "stack", "stores", "loads", "shared")))
        for match in _RESOURCE_USAGE.finditer(log)}
