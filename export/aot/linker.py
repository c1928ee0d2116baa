"""Links an object file into a shared library with a linker of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ...codegen.runtime.target import Target, named
from ...eager.errors import ExportError


def link(object_path: Path, shared: Path, target: Target) -> str:
    """The reason why no linker can be called, or "". Writes the shared library to `shared`."""
    commands = _commands(target)
    if not commands:
        return "no linker for the target is installed"
    result = subprocess.run([*commands[0], "-shared", "-o", str(shared), str(object_path),
                             *_LIBRARIES],
                            capture_output=True, text=True, check=False)
    if result.returncode:
        raise ExportError(f"aot.build: {commands[0][0]} could not link {object_path.name}: "
                          f"{result.stderr.strip()}",
                          "library=False leaves the object file as it is")
    return ""


_LIBRARIES = ["-lm"]


def _commands(target: Target) -> list[list[str]]:
    """The commands of the installed linkers for a target."""
    native = _machine(named("").triple) == _machine(target.triple)
    processor, linux = _machine(target.triple)
    cross = [f"{processor}-linux-gnu-{tool}" for tool in ("gcc", "ld")] if linux else []
    names = ["cc", "ld"] if native else cross
    return [[path] for path in map(shutil.which, names) if path is not None]


def _machine(triple: str) -> tuple[str, bool]:
    """The processor of a triple, and True if its system is Linux."""
    return triple.split("-")[0], "linux" in triple
