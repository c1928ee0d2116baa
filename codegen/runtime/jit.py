"""Compiles LLVM IR text to object code and loads it.

The IR has explicit vectors and hoisted invariants, so no IR pass runs: only the code generator,
which takes a tenth of the time.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import llvmlite.binding as llvm

from ...eager.fork_safety import held_while_forking
from .memory_headroom import require
from .target import Target

_LOCK = held_while_forking(threading.RLock())
_NUMBERS = itertools.count()
_OBJECTS_PER_ENGINE = 128  # an engine frees its bookkeeping with its last object file
_DROPPED: list[Any] = []  # what nobody refers to any more, to be unloaded


def compile_object(ir: str, target: Target) -> bytes:
    """The object file of a module; RuntimeError with LLVM's message when it is not valid."""
    require(len(ir))
    with _LOCK:
        return bytes(_machine(target).emit_object(_parse(ir)))


def assembly(ir: str, target: Target) -> str:
    """The assembly text of a module, for reading."""
    require(len(ir))
    with _LOCK:
        return str(target.machine().emit_assembly(_parse(ir)))


class LoadedCode(dict[str, int]):
    """Machine code in memory, for as long as this object is referred to: the address of each
    exported function by its name."""

    def __init__(self, library: Any, exports: Iterable[str]) -> None:
        super().__init__({name: library[name] for name in exports})
        # It is unloaded later: garbage may be collected anywhere, also while LLVM runs.
        weakref.finalize(self, _DROPPED.append, library).atexit = False


def load_object(
    image: bytes, exports: Iterable[str], imports: Mapping[str, int], target: Target
) -> LoadedCode:
    """Loads an object file. The caller must keep the result while it calls its functions."""
    require(len(image))
    with _LOCK:
        _DROPPED.clear()
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name in exports:
            builder.export_symbol(name)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        number = next(_NUMBERS)
        return LoadedCode(builder.link(_engine(target, number // _OBJECTS_PER_ENGINE),
                                       f"fusewire{number}"),
                          exports)


@functools.cache
def _machine(target: Target) -> Any:
    """The target machine of LLVM, cached: a new one costs as much as a small program."""
    return target.machine()


def _parse(ir: str) -> Any:
    module = llvm.parse_assembly(ir)
    module.verify()
    return module


@functools.lru_cache(1)
def _engine(target: Target, number: int) -> Any:
    """The engine that loads object files. It lives as long as one of them."""
    return llvm.create_lljit_compiler(target.machine())


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The C libraries in which mathematical functions may live."""
    if sys.platform == "win32":
        return (ctypes.CDLL("ucrtbase"),)
    names = (None, "libm.so.6", "libm.so", "libSystem.dylib")
    libraries = []
    for name in names:
        try:
            libraries.append(ctypes.CDLL(name))
        except OSError:
            continue
    return tuple(libraries)


@functools.cache
def c_function(name: str) -> int:
    """The address of a function of the C library; 0 when there is none."""
    for library in _libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0
