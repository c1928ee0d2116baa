"""Source of kernels as a library for this processor, made by g++ and kept in a folder by content.

Measured with g++ 12: a module of one small kernel with the prelude of generated code takes 55 ms,
of which starting g++ and linking is 25, and the headers and the prelude 15. Each further kernel
takes 2 ms, one of twenty lines 7; with -O1 instead of -O0 it takes 18, and they run as fast, since
looking at accesses is what takes the time. So kernels are best compiled many to a module.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
COMMON = ("-std=gnu++17", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-exceptions",
          "-fno-rtti", "-Werror=frame-larger-than=131072")
MODES = {
    "fast": ("-O1",),
    # Every access calls the run time. Nothing is optimised: each stays as it was written.
    "check": ("-O0", "-g1", "-fsanitize=thread,bounds,integer-divide-by-zero",
              "-fsanitize=signed-integer-overflow,shift-exponent",
              "--param=tsan-distinguish-volatile=1", "--param=tsan-instrument-func-entry-exit=0"),
}
DAYS_KEPT = 7

_SHARED = re.compile(r"""
    (?P<extern>extern\s+)? __shared__ \s+
    (?: (?:__align__|alignas) \s*\(\s* (?P<align>\d+) \s*\)\s* )?
    (?P<type>[A-Za-z_][\w\s]*?) \s+ (?P<name>\w+) \s*
    (?P<sizes>(?:\[[^\]]*\]\s*)*) ;""", re.VERBOSE)
_KERNEL = re.compile(r"""
    extern \s+ "C" \s+ __global__ \s+ (?:void\s+)?
    (?: __launch_bounds__ \s*\(\s* (?P<bound>\w+) [^)]*\)\s* )? (?:void\s+)?
    (?P<name>\w+) \s* \( (?P<parameters>[^)]*) \)""", re.VERBOSE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class BuildError(RuntimeError):
    """g++ is not there, or does not accept the source."""


@dataclass(frozen=True)
class Kernel:
    """A kernel as its source declares it."""

    name: str
    line: int
    parameters: dict[str, str]  # names, and their declarations
    bound: int                  # most threads of a block


def kernels_of(source: str) -> dict[str, Kernel]:
    """The kernels of a source, by name."""
    return {match["name"]: _kernel(source, match) for match in _KERNEL.finditer(source)}


def _kernel(source: str, match: re.Match[str]) -> Kernel:
    line = source.count("\n", 0, match.start("name")) + 1
    text = _COMMENT.sub(" ", match["parameters"])
    declared = [part.strip() for part in text.split(",") if part.strip()]
    parameters = {re.findall(r"\w+", part)[-1]: part for part in declared}
    bound = match["bound"] or ""
    return Kernel(match["name"], line, parameters, int(bound) if bound.isdigit() else 1024)


def library(source: str, mode: str) -> Path:
    """The library of a source's kernels, compiled where it is not there yet."""
    text = "\n".join(['#include "device.h"', '#line 1 "kernel.cpp"', _with_shared_arrays(source),
                      '#line 1 "calls"', '#include "device_calls.h"',
                      *(f"EMULATOR_KERNEL({name})" for name in kernels_of(source)),
                      "EMULATOR_IMAGE", ""])
    key = _hash(text, mode, *COMMON, _own_sources())
    return _kept(f"{mode}-{key}.so", lambda folder, made: _compile(text, mode, folder, made))


def run_time() -> Path:
    """The library that all of them need."""
    sources = sorted(HERE.glob("*.cpp"))
    return _kept(f"run-time-{_hash(*COMMON, _own_sources())}.so", lambda folder, made: _run(
        [compiler(), *COMMON, "-O2", "-shared", *map(str, sources), "-o", str(made), "-lm"]))


def compiler() -> str:
    """Where g++ is. BuildError where there is none."""
    found = shutil.which("g++")
    if found is None:
        raise BuildError("the emulator compiles kernels with g++, and there is none on PATH: "
                         "install it (on Debian and Ubuntu: apt-get install g++)")
    return found


def _with_shared_arrays(source: str) -> str:
    """Shared arrays become references to what the run time gives, each by its number, so that it
    knows where they begin and end."""
    numbers = iter(range(source.count("__shared__")))
    text = _SHARED.sub(lambda match: _shared_array(match, next(numbers)), source)
    rest = re.search("__shared__", _COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text))
    if rest:
        line = text.count("\n", 0, text.index("__shared__")) + 1
        raise BuildError(f"line {line}: a shared array has to be declared alone, as in "
                         "`__shared__ float tile[16][17];`")
    return text


def _shared_array(match: re.Match[str], number: int) -> str:
    kind, name, align = match["type"], match["name"], match["align"]
    lines = "\n" * match[0].count("\n")
    if match["extern"]:
        return (f"{kind}* const {name} = ({kind}*)emulator_dynamic_shared("
                f'"{name}", {align or f"alignof({kind})"}, sizeof({kind}));{lines}')
    return (f"typedef {kind} {name}_array{' '.join(match['sizes'].split())}; "
            f"{name}_array& {name} = *({name}_array*)emulator_shared({number}, "
            f'"{name}", sizeof({name}_array), {align or f"alignof({kind})"}, '
            f"sizeof({kind}));{lines}")


def _compile(text: str, mode: str, folder: Path, made: Path) -> None:
    """Compiles and links in two steps: linking would ask for the sanitizer's own library."""
    source, compiled = folder / "kernel.cpp", folder / "kernel.o"
    source.write_text(text, encoding="utf-8")
    _run([compiler(), *COMMON, *MODES[mode], f"-I{HERE}", "-c", str(source), "-o", str(compiled)])
    _run([compiler(), "-shared", "-nostdlib", str(compiled), "-o", str(made)])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stderr}")


# ---- the folder --------------------------------------------------------------------------------


def _kept(name: str, make: Callable[[Path, Path], None]) -> Path:
    """A file of the folder, made in a place of its own: several processes may want it at once."""
    place = _folder() / name
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=_folder()) as made:
            make(Path(made), Path(made) / name)
            os.replace(Path(made) / name, place)
    return place


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"fusewire-emulator-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():  # libraries from there are run
        raise BuildError(f"{folder} belongs to another user: remove it")
    before = time.time() - DAYS_KEPT * 24 * 3600
    for old in folder.glob("*.so"):
        if old.stat().st_mtime < before:
            old.unlink(missing_ok=True)
    return folder


@functools.cache
def _own_sources() -> str:
    files = sorted([*HERE.glob("*.h"), *HERE.glob("*.cpp"), HERE / "build.py"])
    return _hash(*(file.read_text(encoding="utf-8") for file in files), compiler_version())


@functools.cache
def compiler_version() -> str:
    """What g++ calls itself."""
    return subprocess.run([compiler(), "--version"], capture_output=True, text=True,
                          check=True).stdout


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]
