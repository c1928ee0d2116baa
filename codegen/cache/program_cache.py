"""Caches compiled programs on disk, keyed by their graphs.

An entry lies beside the object code (`runtime/disk_cache.py`) and holds the interface of a program
and the name of its object code. Its key is a digest of everything that lowering reads: the graph
with all bits of its constants, the processor, the loop settings, and the sources of fusewire and
the versions of its dependencies. So entries are never stale. A graph with a part that has no exact
text is lowered each time.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...capture.graph.graph import Graph, param_key, topological
from ...capture.runtime.metrics import count_program, phase
from ...capture.sizes.symbolic_dim import Dim
from ...eager.core.op import OPS
from ...eager.upper_layer import UPPER
from ..program.native_program import (
    NativeProgram,
    ProgramFacts,
    WrittenProgram,
    compile_written,
    facts_of,
)
from ..runtime import disk_cache, object_cache
from ..runtime.compile_lock import compiling
from ..runtime.target import Target
from . import program_entry

T = TypeVar("T")
_FOLDERS = ("eager", "capture", "codegen")
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def cached_program(graph: Graph, target: Target, how: tuple[Any, ...],
                   write: Callable[[], tuple[WrittenProgram, T]]) -> tuple[NativeProgram, T]:
    """The program of a graph and its description, from the cache or from `write`. `write` must
    depend only on the graph, the target, and `how`."""
    name = entry_name(graph, target, how)
    if not name:
        written, about = write()
        return compile_written(written, target), about
    cached = _load(name, target, write)
    if cached is not None:
        return cached
    with compiling(name):
        cached = _load(name, target, write)
        if cached is not None:
            return cached
        written, about = write()
        program = compile_written(written, target)
        _save(name, (object_cache.key(written.ir, target), facts_of(written), about))
    return program, about


def _load(name: str, target: Target, write: Callable[[], tuple[WrittenProgram, T]]
          ) -> tuple[NativeProgram, T] | None:
    """The program from disk; None if it is not there."""
    with phase("loading"):
        cached = _read(name, target, write)
    if cached is not None:
        count_program(from_disk=True)
    return cached


def _read(name: str, target: Target, write: Callable[[], tuple[WrittenProgram, T]]
          ) -> tuple[NativeProgram, T] | None:
    raw = disk_cache.load(name)
    if raw is None:
        return None
    try:
        code, facts, about = program_entry.from_bytes(raw)
    except program_entry.Damaged:
        return None
    image = disk_cache.load(code)
    if image is None:
        return None
    return NativeProgram(image, facts, target, lambda: write()[0]), about


def _save(name: str, entry: tuple[str, ProgramFacts, Any]) -> None:
    raw = program_entry.to_bytes(entry)
    if raw:
        disk_cache.save(name, raw)


# ---- names
def entry_name(graph: Graph, target: Target, how: tuple[Any, ...]) -> str:
    """The name of a graph's entry; empty if it cannot be cached."""
    sources = _source_digest() if disk_cache.folder() is not None else ""
    try:
        graph_text = "\n".join(_graph_lines(graph)) if sources else ""
    except _NotSerializable:
        return ""
    text = f"{sources}\n{target}\n{how}\n{graph_text}"
    return object_cache.named(text, target) + ".program" if graph_text else ""


class _NotSerializable(Exception):
    """Raised for a graph with a part that has no exact text."""


def _graph_lines(graph: Graph) -> Iterator[str]:
    """Lines that are equal only for equal graphs."""
    number = {n: i for i, n in enumerate(topological((*graph.inputs, *graph.outputs)))}
    for node in number:
        if OPS.get(node.op) is not UPPER.builtin_ops.get(node.op):  # no digest of its source
            raise _NotSerializable
        inputs = [number[i] for i in node.inputs]
        params = [(k, _value(v)) for k, v in sorted(node.params.items())]
        kind = _value(node.type.shape), node.type.dtype.name
        yield repr((node.op, inputs, params, kind))
    ends = [[number[n] for n in ends] for ends in (graph.inputs, graph.outputs)]
    yield repr((ends, sorted(graph.donated.items()), sorted(graph.persistent)))


def _value(x: Any) -> Any:
    """An exact representation of a parameter: unlike repr, it distinguishes 0.0 from -0.0, and nans
    by their bits."""
    if type(x) is tuple:
        return tuple(map(_value, x))
    if type(x) is Dim:
        return "size", str(x.expr), sorted((a.name, a.least) for a in x.expr.named())
    if isinstance(x, np.dtype):
        return "dtype", x.name
    if type(x) in _PLAIN:
        return param_key(x)
    raise _NotSerializable


@functools.cache
def _source_digest() -> str:
    """A digest of the sources that turn graphs into programs; empty if they cannot be read."""
    return source_digest_of(Path(__file__).resolve().parents[2])


def source_digest_of(root: Path) -> str:
    """The digest of the sources of a package in `root`."""
    files = sorted(os.path.join(folder_path, name) for folder in _FOLDERS
                   for folder_path, _, names in os.walk(root / folder)  # half the time of `rglob`
                   for name in names if name.endswith(".py"))
    hasher = hashlib.sha256()
    try:
        for file in files:
            with open(file, "rb", buffering=0) as source:
                raw = source.read()
            hasher.update(f"{file[len(str(root)):]} {len(raw)}:".encode() + raw)
    except OSError:
        return ""
    return f"{hasher.hexdigest()} {sys.version} {np.__version__}" if files else ""
