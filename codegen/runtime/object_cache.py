"""Object code kept on disk: what was compiled once, on this machine, is not compiled again.

An entry's name is a digest of the module's text, which holds all of a program, the processor,
LLVM's version and how it is called: a changed function has another text. What else is spared where
a program is met again has entries of its own (`codegen/again.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping

import llvmlite
import llvmlite.binding as llvm

from ...capture.runtime.metrics import phase
from . import disk_cache, jit
from .target import Target

_STAYS: list[jit.Loaded] = []  # threads and functions of Python's refer to it until the end


def loaded(
    ir: str, exports: Iterable[str], imports: Mapping[str, int], target: Target
) -> jit.Loaded:
    """The addresses of functions of a module, for good. What it reads of this process, and every
    function that it calls, are `imports`: an address in its text would be another in the next
    process."""
    image, _ = compiled(ir, target)
    with phase("loading"):
        code = jit.load_object(image, exports, imports, target)
    _STAYS.append(code)
    return code


def compiled(ir: str, target: Target) -> tuple[bytes, bool]:
    """The object file of a module, and whether it was on disk, made before."""
    name = key(ir, target)
    with phase("loading"):
        image = disk_cache.load(name)
    if image is not None:
        return image, True
    with phase("llvm"):
        image = jit.compile_object(ir, target)
    disk_cache.save(name, image)
    return image, False


def key(ir: str, target: Target) -> str:
    """The name of the entry of a module for a processor."""
    return named(ir, target) + ".o"


def named(text: str, target: Target) -> str:
    """A name for what depends on a text, a processor, and LLVM."""
    versions = llvmlite.__version__, ".".join(map(str, llvm.llvm_version_info)), _ways()
    return disk_cache.digest(*versions, target.triple, target.cpu, target.features, text).hex()


@functools.cache
def _ways() -> str:
    """How LLVM is called, so that a change of that needs no thought for what is stored."""
    try:
        return inspect.getsource(jit)
    except OSError:  # a program without its sources
        return ""
