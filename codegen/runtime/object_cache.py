"""Caches object code on disk, so that code is compiled once per machine.

The name of an entry is a digest of the module's text, the processor, LLVM's version and the way it
is called. `cache/program_cache.py` saves the lowering as well.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping

import llvmlite
import llvmlite.binding as llvm

from ...capture.runtime.metrics import phase
from . import disk_cache, jit
from .compile_lock import compiling
from .target import Target

_NEVER_FREED: list[jit.LoadedCode] = []  # threads and Python functions refer to it until the end


def loaded(
    ir: str, exports: Iterable[str], imports: Mapping[str, int], target: Target
) -> jit.LoadedCode:
    """Loads a module for good; returns the addresses of its functions. Addresses of this process,
    including all functions that it calls, must be `imports`: in the text they would change the
    entry's name with each process."""
    image, _ = compiled(ir, target)
    with phase("loading"):
        code = jit.load_object(image, exports, imports, target)
    _NEVER_FREED.append(code)
    return code


def compiled(ir: str, target: Target) -> tuple[bytes, bool]:
    """The object file of a module, and whether it came from disk."""
    name = key(ir, target)
    with phase("loading"):
        image = disk_cache.load(name)
    if image is not None:
        return image, True
    with compiling(name):
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
    """A digest of a text, a processor, and the LLVM version."""
    versions = llvmlite.__version__, ".".join(map(str, llvm.llvm_version_info)), _jit_source()
    return disk_cache.digest(*versions, target.triple, target.cpu, target.features, text).hex()


@functools.cache
def _jit_source() -> str:
    """The source of the JIT, as part of the digest: a change of it invalidates all entries."""
    try:
        return inspect.getsource(jit)
    except OSError:  # a program without its sources
        return ""
