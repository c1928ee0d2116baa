"""`export`: a function or module as an ONNX file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...capture.sizes.symbolic_dim import ShapeEnv
from ...eager.errors import ExportError
from .model.arguments import arguments, further
from .model.model import build, describe, names_of
from .model.trace import check_fixed, conditions_of, explored, inference, plain, results_of
from .model.training_state import states_of
from .opset import opset_of
from .verify.verify import Check, verify_model
from .writer.files import files


@dataclass(frozen=True)
class ExportReport:
    """What was written, and how far it is from the function. str() is one line."""

    path: str
    opset: int
    ir_version: int
    bytes: int
    max_error: float | None  # the largest difference from the function; None where not verified
    checked_sizes: tuple[dict[str, int], ...]  # the sizes it was run with; {} where none vary
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    conditions: tuple[str, ...] = ()  # on sizes, beside those that any call meets
    notes: tuple[str, ...] = ()
    runner: str = ""
    state: tuple[tuple[str, str], ...] = ()  # of a training step: its inputs, and what they become

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes >= 1e5 else f"{self.bytes} bytes"
        error = "not verified" if self.max_error is None else \
            f"largest difference {self.max_error:.2g} ({self.runner})"
        limits = f", for {', '.join(self.conditions)}" if self.conditions else ""
        return f"{self.path}: {size}, opset {self.opset}, {error}{limits}"


def export(
    fn_or_module: Callable[..., Any], args: Any, path: str | os.PathLike[str], *,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None, dynamic_axes: Any = None, examples: Sequence[Any] = (),
    opset: int | None = None, target: str | None = None, metadata: Mapping[str, str] | None = None,
    training: bool = False, optimize: bool = False, verify: bool = True,
) -> ExportReport:
    """A report on the ONNX file written to `path`: what the function computes for such `args`.

    args: a tensor, a tuple of arguments, or a dictionary of arguments by name. dynamic_shapes: the
    axes that may vary, {"x": {0: "batch"}}; axes with one name have one size. dynamic_axes is
    torch's word for the same. examples: further `args`, which take other ways where the values of
    tensors decide; ways that none takes are found by forcing the decision. The model is run and
    compared with the function, on all examples, and at other sizes where some vary. Modules are
    exported in eval mode. With `training` the function may be a training step: modules stay in
    their mode, and every tensor that it changes becomes an input, with what it holds now as
    default, and an output of the same name with `.new`. opset: 18 by default; with a target such
    as "onnxruntime>=1.16" the newest that this one loads. metadata: texts to keep in the model.
    optimize: batch norms are taken into the convolutions and linear layers before them. Data beyond
    2 GB is in a second file, `path` with `.data`. ExportError names the line in the way.
    """
    _check_options(path, dynamic_shapes, dynamic_axes)
    opset = opset_of(opset, target)
    fn = plain(fn_or_module)
    dynamic = dynamic_axes if dynamic_shapes is None else dynamic_shapes
    call = arguments(fn, args, input_names, dynamic, output_names or ("output",))
    with contextlib.nullcontext() if training else inference(fn):
        more = [further(call, args) for args in examples]
        sizes = ShapeEnv({})
        ways = explored([call, *more], sizes, training)
        check_fixed(sizes)
        held = states_of(ways, names_of(fn))
        results = results_of(ways, held, output_names, call.names)
        sizes.closed = True  # what is written holds for all of them
        model = build(ways, call, results, held, opset, names_of(fn), optimize)
        sizes.closed = False
        check = Check(conditions=conditions_of(sizes), notes=list(ways.forced))
        with files(model, path) as made:
            if verify:
                verify_model(made, [call, *more], results.names, held, check)
            describe(model, metadata or {}, check.conditions)
            size = made.put()
    changed = {text: None for runs in ways.runs.values() for run in runs for text in run.changed}
    notes = (*check.notes, *(f"{text} changed in the call, which the model does not do"
                             for text in changed))
    return ExportReport(
        os.fspath(path), opset, model.ir_version, size, check.error, tuple(check.sizes),
        call.names, results.names, tuple(map(str, check.conditions)), notes,
        check.runner, tuple((h.name, h.after) for h in held))


def _check_options(path: Any, dynamic_shapes: Any, dynamic_axes: Any) -> None:
    if not Path(path).parent.is_dir():
        raise ExportError(f"export: there is no folder {Path(path).parent}", "create it first")
    if dynamic_shapes is not None and dynamic_axes is not None:
        raise ExportError("export: dynamic_shapes and dynamic_axes are two names of one setting",
                          "give one of them")
