"""Cubins kept in memory and on disk: a source is compiled once for an architecture."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...runtime import disk_cache
from . import nvrtc
from .nvrtc import CompiledModule

_KEPT = 256  # sources whose code stays in memory


def compiled(
    source: str, arch: str, options: Sequence[str] = (), newest: int | None = None
) -> CompiledModule:
    """The machine code of a source, made before or now. See `nvrtc.compile`."""
    return _compiled(source, arch, tuple(options), newest)


@functools.lru_cache(_KEPT)
def _compiled(source: str, arch: str, options: tuple[str, ...],
              newest: int | None) -> CompiledModule:
    name = key(source, arch, options, newest)
    entry = disk_cache.load(name)
    if entry is not None:
        return _opened(entry)
    made = nvrtc.compile(source, arch, options, newest)
    disk_cache.save(name, _entry(made))
    return made


def key(source: str, arch: str, options: tuple[str, ...], newest: int | None) -> str:
    """The name of an entry: a digest of all that the code depends on."""
    parts = nvrtc.identity(newest), arch, *nvrtc.FLAGS, *options, source
    return disk_cache.digest(*parts).hex() + ".cubin"


def _entry(made: CompiledModule) -> bytes:
    """The log, which tells what kernels take as well, and the machine code after it."""
    return made.log.encode() + b"\0" + made.cubin


def _opened(entry: bytes) -> CompiledModule:
    log, _, cubin = entry.partition(b"\0")
    text = log.decode()
    return CompiledModule(cubin, text, nvrtc.resources(text))
