"""The linker of this machine, which makes a shared library of an object file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ...codegen.runtime.target import Target, named
from ...eager.errors import ExportError


def link(made: Path, shared: Path, target: Target) -> str:
    """Makes a shared library of an object file; returns why there is none, or an empty text."""
    commands = _commands(target)
    if not commands:
        return "no linker for it is here: cc, or ld"
    done = subprocess.run([*commands[0], "-shared", "-o", str(shared), str(made), *_LIBRARIES],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExportError(f"aot.build: {commands[0][0]} could not link {made.name}: "
                          f"{done.stderr.strip()}", "library=False leaves the object file as it is")
    return ""


_LIBRARIES = ["-lm"]


def _commands(target: Target) -> list[list[str]]:
    """The linkers for a target that are here."""
    own = _machine(named("").triple) == _machine(target.triple)
    processor, linux = _machine(target.triple)
    wanted = ["cc", "ld"] if own else [f"{processor}-linux-gnu-{tool}" for tool in ("gcc", "ld")] \
        if linux else []
    return [[path] for path in map(shutil.which, wanted) if path is not None]


def _machine(triple: str) -> tuple[str, bool]:
    """The processor of a triple, and whether its system is Linux."""
    return triple.split("-")[0], "linux" in triple
