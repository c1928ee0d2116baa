"""Exports a function or module as an ONNX file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...capture.sizes.symbolic_dim import ShapeEnv
from ...eager.errors import ExportError
from ...eager.tracebacks import hides_inner_frames
from .model.arguments import ExportArguments, arguments, further
from .model.model import build, describe, names_of
from .model.table_limits import value_limits
from .model.trace import check_fixed, conditions_of, explored, inference, plain, results_of
from .model.training_state import states_of
from .opset import opset_of
from .verify.verify import Check, verify_model
from .writer.files import files


@dataclass(frozen=True)
class ExportReport:
    """The result of an export: the files' facts, and the largest error of the model.

    str() is one line.

    Attributes:
        path: the file of the model.
        opset, ir_version: the versions of ONNX that the model declares.
        bytes: the size of the model with its data file.
        max_error: the largest difference from the function; None if not verified.
        checked_sizes: the named sizes of each verified run; {} if no size varies.
        inputs, outputs: the names in the model.
        conditions: the conditions under which the model is valid: on sizes, and on the values of
            indices.
        notes: remarks, such as outcomes of branches that no example takes.
        runner: the runtime that ran the model; empty if not verified.
        state: of a training step, (input, output) of each tensor that it changes.
    """

    path: str
    opset: int
    ir_version: int
    bytes: int
    max_error: float | None
    checked_sizes: tuple[dict[str, int], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    runner: str = ""
    state: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes >= 1e5 else f"{self.bytes} bytes"
        error = "not verified" if self.max_error is None else \
            f"largest difference {self.max_error:.2g} ({self.runner})"
        limits = f", for {', '.join(self.conditions)}" if self.conditions else ""
        return f"{self.path}: {size}, opset {self.opset}, {error}{limits}"


@hides_inner_frames
def export(
    fn_or_module: Callable[..., Any], args: Any, path: str | os.PathLike[str], *,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None, dynamic_axes: Any = None, examples: Sequence[Any] = (),
    opset: int | None = None, target: str | None = None, metadata: Mapping[str, str] | None = None,
    training: bool = False, optimize: bool = False, verify: bool = True,
) -> ExportReport:
    """Writes an ONNX model of a function or module to `path`, and returns a report on it.

    The model is run and compared with the function on all examples and, if sizes vary, at other
    sizes; it is not written if they differ. Modules are exported in eval mode. Branches on values
    of tensors become part of the model; an outcome that no example takes is traced by forcing it.
    Data beyond 2 GB goes to a second file, `path` with `.data`.

    Args:
        fn_or_module: a function, a module, or a result of `fw.compile`.
        args: a tensor, a tuple of arguments, or a dictionary of arguments by name.
        path: the file to write; its folder must exist.
        input_names: names of the tensor arguments. Default: those of the parameters.
        output_names: names of the outputs. Default: `output`, `output_1`, ..., or the keys of a
            returned dictionary.
        dynamic_shapes: the axes that may vary, {"x": {0: "batch"}}; one name means one size.
        dynamic_axes: PyTorch's name of the same setting.
        examples: further `args`, for other outcomes of branches.
        opset: 17 to 25. Default 18, or the newest that `target` loads.
        target: the onnxruntime that has to load the model, as in "onnxruntime>=1.16".
        metadata: texts to store in the model, by key.
        training: exports a training step. Modules stay in their mode. Each tensor that the
            function changes becomes an input, with its value as default, and an output of the
            same name with `.new`. Default False.
        optimize: folds batch norms into the layers before them. Default False.
        verify: runs the model and compares it. Default True.

    Raises:
        ExportError: the function cannot be exported, or the model differs from it.
        DTypeError: `args` do not fit the parameters, or contain a NumPy array.
        ShapeError: axes with one name have different sizes in the example.

    Example:
        >>> import tempfile
        >>> import fusewire as fw
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = fw.onnx.export(fw.nn.Linear(3, 2), (fw.ones((4, 3)),),
        ...                             f"{folder}/layer.onnx")
        >>> report.inputs, report.outputs, report.opset
        (('input',), ('output',), 18)
    """
    _check_options(path, dynamic_shapes, dynamic_axes)
    opset = opset_of(opset, target)
    fn = plain(fn_or_module)
    dynamic = dynamic_axes if dynamic_shapes is None else dynamic_shapes
    call = arguments(fn, args, input_names, dynamic, output_names or ("output",))
    with contextlib.nullcontext() if training else inference(fn):
        return _export(call, examples, path, output_names, opset, metadata or {}, training,
                       optimize, verify)


def _export(call: ExportArguments, examples: Sequence[Any], path: str | os.PathLike[str],
            output_names: Sequence[str] | None, opset: int, metadata: Mapping[str, str],
            training: bool, optimize: bool, verify: bool) -> ExportReport:
    """Traces the call and the examples, builds the model, verifies it and writes it."""
    more = [further(call, args) for args in examples]
    sizes = ShapeEnv({})
    paths = explored([call, *more], sizes, training)
    check_fixed(sizes)
    names = names_of(call.fn)
    held = states_of(paths, names)
    results = results_of(paths, held, output_names, call.names)
    sizes.closed = True  # the model is valid for all sizes that the trace allows
    model = build(paths, call, results, held, opset, names, optimize)
    sizes.closed = False
    check = Check(conditions=conditions_of(sizes), notes=list(paths.forced))
    with files(model, path) as unpublished:
        if verify:
            verify_model(unpublished, [call, *more], results.names, held, check)
        conditions = *map(str, check.conditions), *value_limits(paths)
        describe(model, metadata, conditions)
        size = unpublished.publish()
    changed = {text: None for runs in paths.runs.values() for run in runs for text in run.changed}
    notes = (*check.notes, *(f"the function changes {text}; the model does not"
                             for text in changed))
    return ExportReport(
        os.fspath(path), opset, model.ir_version, size, check.error, tuple(check.sizes),
        call.names, results.names, conditions, notes,
        check.runner, tuple((h.name, h.after) for h in held))


def _check_options(path: Any, dynamic_shapes: Any, dynamic_axes: Any) -> None:
    if not Path(path).parent.is_dir():
        raise ExportError(f"export: there is no folder {Path(path).parent}", "create it first")
    if dynamic_shapes is not None and dynamic_axes is not None:
        raise ExportError("export: dynamic_shapes and dynamic_axes are two names of one setting",
                          "pass only one of them")
