"""Caches cubins in memory and on disk: a source is compiled once for each architecture."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ....capture.runtime.specialization_cache import Specializations
from ....eager.fork_safety import held_while_forking
from ...runtime import disk_cache
from . import nvrtc
from .nvrtc import CompiledModule

_MODULES: Specializations[CompiledModule] = Specializations(
    "CUDA modules", held_while_forking(threading.RLock()))


def compile_cached(
    source: str, arch: str, options: Sequence[str] = (), newest: int | None = None
) -> CompiledModule:
    """The machine code of a source, compiled or from the cache. See `nvrtc.compile`."""
    call = source, arch, tuple(options), newest
    return _MODULES.get(call, lambda: _load_or_compile(*call))


def _load_or_compile(source: str, arch: str, options: tuple[str, ...],
                     newest: int | None) -> CompiledModule:
    entry_name = key(source, arch, options, newest)
    entry = disk_cache.load(entry_name)
    if entry is not None:
        return _decode(entry)
    module = nvrtc.compile(source, arch, options, newest)
    disk_cache.save(entry_name, _encode(module))
    return module


def key(source: str, arch: str, options: tuple[str, ...], newest: int | None) -> str:
    """The name of a cache entry: a digest of everything that the code depends on."""
    parts = nvrtc.identity(newest), arch, *nvrtc.FLAGS, *options, source
    return disk_cache.digest(*parts).hex() + ".cubin"


def _encode(module: CompiledModule) -> bytes:
    """A cache entry: the log, which contains the resources of each kernel, then the machine
    code."""
    return module.log.encode() + b"\0" + module.cubin


def _decode(entry: bytes) -> CompiledModule:
    log, _, cubin = entry.partition(b"\0")
    text = log.decode()
    return CompiledModule(cubin, text, nvrtc.resources(text))
