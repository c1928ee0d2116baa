"""`fw.aot.build`: a function or module as an object file and a C header."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...codegen.program.object_file import object_file
from ...codegen.runtime.target import Target
from ...eager.errors import ExportError
from ..onnx.load import load
from ..onnx.model.model import version
from .header import header, sizes_in_words
from .library_module import Library, filled, texts_of
from .linker import link
from .targets import target_of
from .trace import Wanted, record


@dataclass(frozen=True)
class Built:
    """What was built. str() tells all of it, a line each."""

    name: str
    target: str
    files: dict[str, int]  # paths, and their sizes in bytes
    inputs: tuple[str, ...]  # "x: float32[batch, 64]"
    outputs: tuple[str, ...]
    sizes: tuple[str, ...]  # those that there are programs for: "for batch from 1 to 64"
    weights: int  # bytes
    workspace: int  # bytes that a call takes at most
    stack: int  # bytes that a thread takes for what kernels keep there, at most
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(built: Built) -> Iterator[str]:
    yield f"{built.name} for {built.target}"
    for path, size in built.files.items():
        yield f"  {path}: {_amount(size)}"
    yield from (f"  in   {text}" for text in built.inputs)
    yield from (f"  out  {text}" for text in built.outputs)
    yield from (f"  {text}" for text in built.sizes)
    yield f"  weights {_amount(built.weights)}, workspace {_amount(built.workspace)}, " \
          f"stack {_amount(built.stack)}"
    yield from (f"  {note}" for note in built.notes)


def _amount(size: int) -> str:
    """Bytes as one reads them."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB" \
        if size >= 1e3 else f"{size} bytes"


def build(
    fn: Callable[..., Any] | str | os.PathLike[str], args: Any, path: str | os.PathLike[str], *,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None, max_sizes: Mapping[str, int] | None = None,
    examples: Sequence[Any] = (), target: str = "native", cpu: str = "",
    weights: str = "inside", library: bool | None = None, threads: int = 4,
) -> Built:
    """A report on the library that was built: `path` with `.o` and `.h`, which runs without Python.

    fn: a function, a module, or the path of an ONNX model; it is recorded as `fw.onnx.export` does,
    modules in eval mode. args: a tensor, a tuple of arguments, or a dictionary by name. The last
    part of `path` is what the functions of the library begin with. dynamic_shapes: the axes that
    may vary, {"x": {0: "batch"}}, up to `max_sizes`, {"batch": 64}, which are 64 unless they are
    given. examples: further `args`, for whose sizes there is code of their own. target: "native",
    "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", or a triple of LLVM's, with `cpu` for a
    processor as LLVM calls it. weights: "inside" of the object, or "beside", in `path` with
    `.weights`. library: whether a shared library is linked, `path` with `.so`; None: if a linker is
    here. threads: for how many work is split. ExportError names the line of what has no native
    code.
    """
    place, name = _checked(path, weights, threads)
    to = target_of(target, cpu)
    model = load(fn) if isinstance(fn, (str, os.PathLike)) else fn
    recorded = record(model, args, Wanted(input_names, output_names, dynamic_shapes,
                                          max_sizes or {}, examples))
    made, notes = recorded.library(name, to, threads, weights == "inside")
    image = object_file(texts_of(made, to), made.exports, to)
    return _write(place, made, image, to, library, notes)


def _checked(path: Any, weights: str, threads: int) -> tuple[Path, str]:
    """The path, and the name of the library. ExportError for arguments that make no sense."""
    place = Path(path)
    if not place.parent.is_dir():
        raise ExportError(f"aot.build: there is no folder {place.parent}", "create it first")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", place.name):
        raise ExportError(f"aot.build: {place.name!r} is no name for functions of C",
                          "end the path with letters, digits and underscores")
    if weights not in ("inside", "beside"):
        raise ExportError(f"aot.build: weights are \"inside\" or \"beside\", not {weights!r}")
    if threads < 1:
        raise ExportError(f"aot.build: work is split for at least 1 thread, not {threads}")
    return place, place.name


def _write(place: Path, made: Library, image: bytes, target: Target, library: bool | None,
           notes: list[str]) -> Built:
    """Writes the files."""
    stack = max(p.stack for p in made.programs) + _FRAMES
    title = f"{target.cpu} ({target.triple})"
    files: dict[str, bytes] = {
        ".o": filled(image, made.weights) if made.weights and made.inside else image,
        ".h": header(made, title, version(), stack).encode()}
    if made.beside:
        files[".weights"] = made.weights
    sizes = {}
    for suffix, raw in files.items():
        where = place.with_name(place.name + suffix)
        where.write_bytes(raw)
        sizes[str(where)] = len(raw)
    if library is not False:
        shared = place.with_name(f"{place.name}.so")
        why = link(place.with_name(f"{place.name}.o"), shared, target)
        if not why:
            sizes[str(shared)] = shared.stat().st_size
        elif library:
            raise ExportError(f"aot.build: no shared library: {why}",
                              "install one, or library=False")
        else:
            notes.append(f"no shared library: {why}")
    return Built(made.name, title, sizes, tuple(map(str, made.inputs)),
                 tuple(map(str, made.outputs)), tuple(sizes_in_words(made)), len(made.weights),
                 max(p.workspace for p in made.programs), stack, tuple(notes))


_FRAMES = 16 << 10  # of functions that call each other, at most
