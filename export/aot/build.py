"""Builds a library from a function or module (`fw.aot.build`): an object file and a C header."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...capture.sizes.symbolic_dim import size_expr_of
from ...codegen.program.object_file import object_file
from ...codegen.runtime.target import Target
from ...eager.errors import ExportError
from ...eager.tracebacks import hides_inner_frames
from ..onnx.load import load
from ..onnx.model.model import version
from .header import describe_sizes, header
from .library_module import ArraySignature, Library, filled, texts_of
from .linker import link
from .recording import Recording, decision_notes
from .targets import target_of
from .trace import RecordingOptions, record
from .variants import VariantCompiler


@dataclass(frozen=True)
class Built:
    """The report of a build; str() shows it, one fact a line.

    Attributes:
        name: the library's name, the prefix of its functions.
        target: processor and LLVM triple.
        files: paths of the written files, with their sizes in bytes.
        inputs: name, dtype and shape of each input, as in "x: float32[batch, 64]".
        outputs: name, dtype and shape of each output.
        sizes: the sizes of each program, as in "for batch from 1 to 64"; empty if none is dynamic.
        weights: bytes of the block of weights.
        workspace: most bytes of workspace that a call needs.
        stack: most bytes of stack that a thread needs.
        notes: remarks, such as the lines of decisions.
    """

    name: str
    target: str
    files: dict[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: tuple[str, ...]
    weights: int
    workspace: int
    stack: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(built: Built) -> Iterator[str]:
    yield f"{built.name} for {built.target}"
    for path, size in built.files.items():
        yield f"  {path}: {_size_text(size)}"
    yield from (f"  in   {text}" for text in built.inputs)
    yield from (f"  out  {text}" for text in built.outputs)
    yield from (f"  {text}" for text in built.sizes)
    yield f"  weights {_size_text(built.weights)}, workspace {_size_text(built.workspace)}, " \
          f"stack {_size_text(built.stack)}"
    yield from (f"  {note}" for note in built.notes)


def _size_text(size: int) -> str:
    """A number of bytes for people, in powers of 1000."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB" \
        if size >= 1e3 else f"{size} bytes"


@hides_inner_frames
def build(
    fn: Callable[..., Any] | str | os.PathLike[str], args: Any, path: str | os.PathLike[str], *,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None, max_sizes: Mapping[str, int] | None = None,
    examples: Sequence[Any] = (), target: str = "native", cpu: str = "",
    weights: str = "inside", library: bool | None = None, threads: int = 4,
) -> Built:
    """Compiles a function into a library that runs without Python, and returns a report of it.

    Writes `path` with `.o` and `.h`, and with `.so` and `.weights` where asked for. See
    docs/how_to/deploy/native_library.md for the interface of the library. A library takes the paths
    that Python takes. One that draws random numbers has one more input for each generator, its
    state, which calls update.

    Args:
        fn: a function, a module, or the path of an ONNX model. It is recorded as `fw.onnx.export`
            records it, modules in eval mode.
        args: example arguments: a tensor, a tuple, or a dictionary by name.
        path: path of the files without suffix. Its last part is the prefix of C functions.
        input_names: names of the inputs. Default: the names of the parameters.
        output_names: names of the outputs. Default: "output", "output_1", ...
        dynamic_shapes: names of dynamic axes by input and axis, as in {"x": {0: "batch"}}.
        max_sizes: the maximum of each dynamic size, as in {"batch": 32}. Default: 64, or the
            largest size of the examples if that is larger.
        examples: further `args`. Their sizes get programs of their own, which may be faster.
        target: "native", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", or an LLVM triple.
        cpu: LLVM's name of a processor, such as "cortex-a72".
        weights: "inside" of the object file, or "beside" it in a file of their own.
        library: True links a shared library, False does not, None does if there is a linker.
        threads: number of threads that long work is split for.

    Raises:
        ExportError: an argument is invalid, or a library cannot compute what the function does.
            The message names the line.

    Example:
        >>> import os, tempfile
        >>> import fusewire as fw
        >>> path = os.path.join(tempfile.mkdtemp(), "double")
        >>> built = fw.aot.build(lambda x: 2 * x, (fw.ones(4),), path, library=False)
        >>> built.name, built.inputs, built.outputs
        ('double', ('x: float32[4]',), ('output: float32[4]',))
        >>> [os.path.basename(file) for file in built.files]
        ['double.o', 'double.h']
    """
    base, name = _check_arguments(path, weights, threads)
    processor = target_of(target, cpu)
    model = load(fn) if isinstance(fn, (str, os.PathLike)) else fn
    options = RecordingOptions(input_names, output_names, dynamic_shapes, max_sizes or {}, examples)
    lib, notes = _compiled(record(model, args, options), name, processor, threads,
                           weights == "inside")
    image = object_file(texts_of(lib, processor), lib.exports, processor)
    return _write(base, lib, image, processor, library, notes)


def _compiled(recording: Recording, name: str, target: Target, threads: int, embed: bool
              ) -> tuple[Library, list[str]]:
    """The library of a recording, and notes for its report."""
    compiler, notes = VariantCompiler(recording, target, threads), decision_notes(recording.root)
    variants = compiler.variants(notes)
    inputs, outputs = ([ArraySignature(n, t.dtype, tuple(map(size_expr_of, t.shape)))
                        for n, t in named] for named in (recording.named_inputs, recording.outputs))
    block = b"" if compiler.weights.empty else compiler.weights.block()
    return Library(name, inputs, len(recording.states), outputs, [*recording.ranges], variants,
                   compiler.programs, compiler.stack, block, embed), notes


def _check_arguments(path: Any, weights: str, threads: int) -> tuple[Path, str]:
    """The path, and the name of the library. ExportError for invalid arguments."""
    base = Path(path)
    if not base.parent.is_dir():
        raise ExportError(f"aot.build: there is no folder {base.parent}", "create it first")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", base.name):
        raise ExportError(f"aot.build: {base.name!r} cannot be the prefix of C functions",
                          "end the path with a name of letters, digits and underscores")
    if weights not in ("inside", "beside"):
        raise ExportError(f"aot.build: weights={weights!r} is neither \"inside\" nor \"beside\"",
                          "inside of the object file, or beside it in a file of their own")
    if threads < 1:
        raise ExportError(f"aot.build: threads={threads!r} is less than 1",
                          "pass the number of threads of the machine that runs the library")
    return base, base.name


def _write(base: Path, lib: Library, image: bytes, target: Target, library: bool | None,
           notes: list[str]) -> Built:
    """The report. Writes the files, and links the shared library."""
    stack = lib.stack_bytes + _FRAME_BYTES
    title = f"{target.cpu} ({target.triple})"
    files: dict[str, bytes] = {
        ".o": filled(image, lib.weights) if lib.weights and lib.embedded else image,
        ".h": header(lib, title, version(), stack).encode()}
    if lib.beside:
        files[".weights"] = lib.weights
    sizes = {}
    for suffix, raw in files.items():
        file = base.with_name(base.name + suffix)
        file.write_bytes(raw)
        sizes[str(file)] = len(raw)
    if library is not False:
        shared = base.with_name(f"{base.name}.so")
        reason = link(base.with_name(f"{base.name}.o"), shared, target)
        if not reason:
            sizes[str(shared)] = shared.stat().st_size
        elif library:
            raise ExportError(f"aot.build: no shared library: {reason}",
                              "install one, or pass library=False")
        else:
            notes.append(f"no shared library: {reason}")
    return Built(lib.name, title, sizes, tuple(map(str, lib.inputs)),
                 tuple(map(str, lib.outputs)), tuple(describe_sizes(lib)), len(lib.weights),
                 lib.workspace, stack, tuple(notes))


_FRAME_BYTES = 16 << 10  # most bytes of stack for the frames of nested calls
