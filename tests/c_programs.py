"""Compiles, links and runs C programs that call libraries, with the installed tools."""

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
    """A C compiler, and the command that runs its programs, if one is needed."""

    compiler: str
    runner: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """The names of the tools that are not installed."""
        commands = (self.compiler, *self.runner[:1])
        return ", ".join(name for name in commands if shutil.which(name) is None)


HERE = Tools("cc")
ARM = Tools("aarch64-linux-gnu-gcc", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"))


def command(*arguments: Any, folder: Path) -> str:
    """The output of a command. AssertionError with its messages if it fails."""
    result = subprocess.run([str(w) for w in arguments], cwd=folder, capture_output=True, text=True)
    line = " ".join(map(str, arguments))
    assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
    return result.stdout


def compiled(name: str, folder: Path, tools: Tools = HERE, shared: bool = False) -> Path:
    """The path of the driver, linked with a library in `folder`."""
    beside = [f'-DBESIDE="{name}.weights"'] if (folder / f"{name}.weights").exists() else []
    program = folder / ("with_so" if shared else "with_o")
    command(tools.compiler, "-std=c11", "-D_GNU_SOURCE", *STRICT, f"-DMODEL={name}",
            f'-DHEADER="{name}.h"', *beside, f"-I{folder}", DRIVER, f"./{name}.so" if shared
            else f"{name}.o", "-o", program, "-lm", "-lpthread", folder=folder)
    return program


def called(program: Path, arrays: Sequence[Any], outputs: Sequence[Any], mode: str = "-",
           sizes: Sequence[int] = (), tools: Tools = HERE) -> tuple[list[Any], int]:
    """The driver's outputs for these inputs, in arrays like `outputs`, and the number of jobs that
    it ran on threads."""
    folder = program.parent
    for i, array in enumerate(arrays):
        (folder / f"input_{i}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
    jobs = command(*tools.runner, program, mode, *sizes, folder=folder)
    results = [np.fromfile(folder / f"output_{i}.bin", a.dtype).reshape(a.shape)
               for i, a in enumerate(outputs)]
    return results, int(jobs)


def expected(fn: Any, args: Sequence[fw.Tensor]) -> list[Any]:
    """The results of the function in Python, as arrays."""
    with fw.no_grad():
        result = fn(*args)
    return [t.numpy() for t in (result if isinstance(result, (tuple, list)) else (result,))]


def check(fn: Any, args: Sequence[fw.Tensor], folder: Path, *, mode: str = "-",
          shared: bool = False, tools: Tools = HERE, sizes: Sequence[int] = (),
          **options: Any) -> fw.aot.Built:
    """The report of a library that was built and called from C. Asserts that results differ from
    Python's by at most 1e-5."""
    built = fw.aot.build(fn, tuple(args), folder / "model", **options)
    program = compiled("model", folder, tools, shared)
    check_call(fn, args, program, mode, tools, sizes)
    return built


def check_call(fn: Any, args: Sequence[fw.Tensor], program: Path, mode: str = "-",
               tools: Tools = HERE, sizes: Sequence[int] = ()) -> int:
    """The number of jobs that a library ran on threads. Asserts that its results, called from C,
    are Python's."""
    expected_results = expected(fn, args)
    results, jobs = called(program, [a.numpy() for a in args], expected_results, mode, sizes, tools)
    for result, exact in zip(results, expected_results):
        np.testing.assert_allclose(result.astype(float), exact.astype(float), rtol=1e-5, atol=1e-5)
    return jobs


def symbols(path: Path, letter: str, tool: str = "nm") -> set[str]:
    """The symbols of an object file that nm marks with a letter."""
    rows = [line.split() for line in command(tool, path, folder=path.parent).splitlines()]
    return {row[-1] for row in rows if row[-2] == letter}
