"""C programs that call libraries: compiled, linked and run by the tools that are here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw

DRIVER = Path(__file__).parent / "aot" / "driver.c"
STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror")


@dataclass(frozen=True)
class Tools:
    """What compiles a C program, and what its command begins with."""

    compiler: str
    runner: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """Those of them that are not here."""
        wanted = (self.compiler, *self.runner[:1])
        return ", ".join(name for name in wanted if shutil.which(name) is None)


HERE = Tools("cc")
ARM = Tools("aarch64-linux-gnu-gcc", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"))


def command(*words: Any, folder: Path) -> str:
    """What a command prints; AssertionError with what it complains about."""
    done = subprocess.run([str(w) for w in words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


def compiled(name: str, folder: Path, tools: Tools = HERE, shared: bool = False) -> Path:
    """The driver, linked with a library in a folder."""
    beside = [f'-DBESIDE="{name}.weights"'] if (folder / f"{name}.weights").exists() else []
    made = folder / ("with_so" if shared else "with_o")
    command(tools.compiler, "-std=c11", "-D_GNU_SOURCE", *STRICT, f"-DMODEL={name}",
            f'-DHEADER="{name}.h"', *beside, f"-I{folder}", DRIVER, f"./{name}.so" if shared
            else f"{name}.o", "-o", made, "-lm", "-lpthread", folder=folder)
    return made


def called(program: Path, arrays: Sequence[Any], outputs: Sequence[Any], mode: str = "-",
           sizes: Sequence[int] = (), tools: Tools = HERE) -> tuple[list[Any], int]:
    """What the driver gives for these inputs, in arrays like `outputs`; and how often it was asked
    to run tasks on threads."""
    folder = program.parent
    for i, array in enumerate(arrays):
        (folder / f"input_{i}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
    jobs = command(*tools.runner, program, mode, *sizes, folder=folder)
    found = [np.fromfile(folder / f"output_{i}.bin", a.dtype).reshape(a.shape)
             for i, a in enumerate(outputs)]
    return found, int(jobs)


def expected(fn: Any, args: Sequence[fw.Tensor]) -> list[Any]:
    """What Python gives, as arrays."""
    with fw.no_grad():
        result = fn(*args)
    return [t.numpy() for t in (result if isinstance(result, (tuple, list)) else (result,))]


def check(fn: Any, args: Sequence[fw.Tensor], folder: Path, *, mode: str = "-",
          shared: bool = False, tools: Tools = HERE, sizes: Sequence[int] = (),
          **options: Any) -> fw.aot.Built:
    """Builds a library, and calls it from C: it gives what Python gives, to 1e-5."""
    built = fw.aot.build(fn, tuple(args), folder / "model", **options)
    program = compiled("model", folder, tools, shared)
    check_call(fn, args, program, mode, tools, sizes)
    return built


def check_call(fn: Any, args: Sequence[fw.Tensor], program: Path, mode: str = "-",
               tools: Tools = HERE, sizes: Sequence[int] = ()) -> int:
    """Calls a library from C: it gives what Python gives. How often it was given threads."""
    wanted = expected(fn, args)
    found, jobs = called(program, [a.numpy() for a in args], wanted, mode, sizes, tools)
    for mine, theirs in zip(found, wanted):
        np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=1e-5, atol=1e-5)
    return jobs


def symbols(path: Path, letter: str, tool: str = "nm") -> set[str]:
    """The symbols of an object file that nm marks with a letter."""
    rows = [line.split() for line in command(tool, path, folder=path.parent).splitlines()]
    return {row[-1] for row in rows if row[-2] == letter}
