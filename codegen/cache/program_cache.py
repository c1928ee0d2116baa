"""Programs that were made before, by any process of this machine: found by their graphs.

An entry lies beside the object code (`disk.py`) and holds all of a program that Python made,
but for what only shows it: how it is called, and the name of its object code. Its name is a digest
of everything that lowering looks at: the graph to the last bit, the processor, how loops are
chosen, and the sources of fusewire itself with the versions of what they use. So a changed source
or graph has another entry, and nothing is ever out of date. A graph with a part that cannot be
told in full is lowered each time.
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
from ...capture.runtime.metrics import phase, program_made
from ...capture.sizes.symbolic_dim import Dim
from ...eager.core.op import OPS, Op
from ..program.native_program import NativeProgram, ProgramFacts, WrittenProgram, built, facts_of
from ..runtime import disk_cache, object_cache
from ..runtime.target import Target
from . import program_entry

T = TypeVar("T")
_FOLDERS = ("eager", "capture", "codegen")
_PLAIN = (type(None), bool, int, float, complex, str, bytes)

OURS: dict[str, Op] = {}
"""The ops that are defined by our sources, which say nothing of others."""


def program_of(graph: Graph, target: Target, how: tuple[Any, ...],
               write: Callable[[], tuple[WrittenProgram, T]]) -> tuple[NativeProgram, T]:
    """The program that `write` makes of a graph, and what it says of it. That has to depend on
    nothing but the graph, the target, and `how`."""
    name = name_of(graph, target, how)
    with phase("loading"):
        found = _load(name, target, write) if name else None
    if found is not None:
        program_made(from_disk=True)
        return found
    written, about = write()
    program = built(written, target)
    if name:
        _save(name, (object_cache.key(written.ir, target), facts_of(written), about))
    return program, about


def _load(name: str, target: Target, write: Callable[[], tuple[WrittenProgram, T]]
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


def _save(name: str, said: tuple[str, ProgramFacts, Any]) -> None:
    raw = program_entry.to_bytes(said)
    if raw:
        disk_cache.save(name, raw)


# ---- names
def name_of(graph: Graph, target: Target, how: tuple[Any, ...]) -> str:
    """The name of a graph's entry; empty where there is to be none."""
    sources = _sources() if disk_cache.folder() is not None else ""
    try:
        told = "\n".join(_told(graph)) if sources else ""
    except _NotTold:
        return ""
    text = f"{sources}\n{target}\n{how}\n{told}"
    return object_cache.named(text, target) + ".program" if told else ""


class _NotTold(Exception):
    """Something about a graph has no text that tells all of it."""


def _told(graph: Graph) -> Iterator[str]:
    """Lines that are the same for equal graphs only."""
    number = {n: i for i, n in enumerate(topological((*graph.inputs, *graph.outputs)))}
    for node in number:
        if OPS.get(node.op) is not OURS.get(node.op):
            raise _NotTold
        inputs = [number[i] for i in node.inputs]
        params = [(k, _value(v)) for k, v in sorted(node.params.items())]
        kind = _value(node.type.shape), node.type.dtype.name
        yield repr((node.op, inputs, params, kind))
    ends = [[number[n] for n in ends] for ends in (graph.inputs, graph.outputs)]
    yield repr((ends, sorted(graph.donated.items()), sorted(graph.persistent)))


def _value(x: Any) -> Any:
    """What tells all of a param: other than repr, 0.0 from -0.0 and a nan by its bits."""
    if type(x) is tuple:
        return tuple(map(_value, x))
    if type(x) is Dim:
        return "size", str(x.expr), sorted((a.name, a.least) for a in x.expr.named())
    if isinstance(x, np.dtype):
        return "dtype", x.name
    if type(x) in _PLAIN:
        return param_key(x)
    raise _NotTold


@functools.cache
def _sources() -> str:
    """What turns graphs into programs, as a text; empty where it cannot be read."""
    return sources_in(Path(__file__).resolve().parents[2])


def sources_in(root: Path) -> str:
    """The same of a package that lies in `root`."""
    files = sorted(os.path.join(where, name) for folder in _FOLDERS
                   for where, _, names in os.walk(root / folder)  # half the time of `rglob`
                   for name in names if name.endswith(".py"))
    found = hashlib.sha256()
    try:
        for file in files:
            with open(file, "rb", buffering=0) as source:
                raw = source.read()
            found.update(f"{file[len(str(root)):]} {len(raw)}:".encode() + raw)
    except OSError:
        return ""
    return f"{found.hexdigest()} {sys.version} {np.__version__}" if files else ""
