"""Resolves the names of processors that libraries can be built for."""

from __future__ import annotations

import llvmlite.binding as llvm

from ...codegen.runtime.target import Target, elsewhere, named, without_amx
from ...eager.errors import ExportError

_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64")
_ARMS = ("aarch64", "arm64")
_HELP = 'target="native", "x86-64-v3", "aarch64", or a triple such as "aarch64-linux-gnu", with ' \
        'cpu="cortex-a72"'


_SYSTEMS = ("linux", "darwin", "macos", "bsd", "none")


def target_of(target: str, cpu: str = "") -> Target:
    """The target of a name: "native", a level of x86-64, "aarch64", or an LLVM triple.

    `cpu`: LLVM's name of a processor. Except for "native", only the operating system is taken from
    this machine. ExportError for other names and for systems without POSIX functions.
    """
    resolved = _target_of(target, cpu)
    if not any(system in resolved.triple for system in _SYSTEMS):
        raise ExportError(f"aot.build: no libraries are built for the system of {resolved.triple}: "
                          "they allocate memory with POSIX functions", _HELP)
    return resolved


def _target_of(target: str, cpu: str) -> Target:
    if target == "native":
        # without its matrix unit, which a process has to ask the system for
        return elsewhere(llvm.get_process_triple(), cpu) if cpu else without_amx(named(""))
    if target in _LEVELS:
        return elsewhere(_triple("x86_64"), cpu or target)
    if target in _ARMS:
        return elsewhere(_triple("aarch64"), cpu or "generic")
    if target.split("-")[0] not in ("x86_64", "amd64", *_ARMS) or target.count("-") < 2:
        raise ExportError(f"aot.build: no code is generated for {target!r}", _HELP)
    return elsewhere(target, cpu or ("x86-64" if target.startswith(("x86", "amd")) else "generic"))


def _triple(processor: str) -> str:
    """The triple of a processor and the system of this machine."""
    return "-".join([processor, *llvm.get_process_triple().split("-")[1:]])
