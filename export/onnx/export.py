"""`export`: a function or module as an ONNX file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...capture.compiled import Compiled
from ...capture.dims import Condition, Dim, Sizes
from ...capture.exploring import Example, Explored, explore
from ...capture.graph import Node
from ...capture.symbolic import modules_of, walk
from ...capture.tree import Ends
from ...eager.errors import CaptureError, ExportError
from ...eager.tape import no_grad
from ...eager.tensor import Tensor
from .arguments import Arguments, arguments, further, leaves, resized
from .files import files
from .model import Results, build, describe, names_of
from .states import Held, after, states_of
from .target import opset_of
from .verify import Check, verify_model


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
    fn = _plain(fn_or_module)
    dynamic = dynamic_axes if dynamic_shapes is None else dynamic_shapes
    call = arguments(fn, args, input_names, dynamic, output_names or ("output",))
    with contextlib.nullcontext() if training else _inference(fn):
        more = [further(call, args) for args in examples]
        sizes = Sizes({})
        ways = _explore([call, *more], sizes, training)
        _check_fixed(sizes)
        held = states_of(ways, names_of(fn))
        results = _results(ways, held, output_names, call.names)
        sizes.closed = True  # what is written holds for all of them
        model = build(ways, call, results, held, opset, names_of(fn), optimize)
        sizes.closed = False
        check = Check(conditions=_conditions(sizes), notes=list(ways.forced))
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


def _plain(fn: Any) -> Callable[..., Any]:
    """The function itself where it is compiled."""
    if not callable(fn):
        raise ExportError(f"export: takes a function or a module, not {type(fn).__name__}",
                          "export(model, (x,), path)")
    return fn.original if isinstance(fn, Compiled) else fn  # type: ignore[no-any-return]


@contextlib.contextmanager
def _inference(fn: Callable[..., Any]) -> Iterator[None]:
    """A context without the tape, the modules of `fn` in eval mode; they are put back after."""
    modules = [m for top in modules_of(walk(fn)) for m in top.modules()]
    before = [m.training for m in modules]
    try:
        for m in modules:
            m.training = False
        with no_grad():
            yield
    finally:
        for m, training in zip(modules, before):
            m.training = training


# ---- recording
def _recorded_sizes(example: Mapping[str, int]) -> dict[str, int]:
    """Sizes to record with: those of the example, but for 1, which broadcasts like no other."""
    free = (p for p in (3, 5, 7, 11, 13, 17, 19, 23, 29, 31) if p not in example.values())
    return {name: next(free, 37) if size == 1 else size for name, size in example.items()}


def _explore(calls: Sequence[Arguments], sizes: Sizes, training: bool) -> Explored:
    examples = [_example(call, sizes) for call in calls]
    try:
        return explore(calls[0].fn, examples, sizes, training)
    except CaptureError as error:
        made = _error_at(error.line, error.message, error.help)
        made.layers = error.layers
        raise made from error
    except Exception as error:
        try:
            _check_fixed(sizes)  # often it is a size that is no int which made it fail
        except ExportError as ours:
            raise ours from error
        raise


def _example(call: Arguments, sizes: Sizes) -> Example:
    sizes.begin(_recorded_sizes(call.sizes()))
    arrays = [resized(a, axes, sizes.values) for a, axes in zip(call.arrays, call.axes)]
    given = call.given(sizes, arrays)
    args, kwargs = call.call([g.tensor for g in given])
    return Example(args, kwargs, given, sizes.values)


def _check_fixed(sizes: Sizes) -> None:
    """ExportError for a size that was to vary, where the run holds for one value of it only."""
    for fixed in sizes.fixed:
        names = " and ".join(f"`{n}`" for n in sorted(fixed.expr.symbols()))
        raise _error_at(
            fixed.line, f"the size {names} was fixed to {fixed.value} by {fixed.how}",
            "compute with sizes as they are (+ - * // %, and x / n with a tensor x), or leave the "
            "axis out of dynamic_shapes")
    for c in sizes.conditions.values():
        if c.relation == "eq" and c.outcome and c.expr.remainder() is None:
            involved = sorted(c.expr.symbols())
            values = ", ".join(f"`{n}` = {sizes.values[n]}" for n in involved)
            raise _error_at(
                c.line, f"the function was run for {values}, and holds only where {c}",
                "give both sizes one name in dynamic_shapes" if len(involved) > 1 else
                f"leave `{involved[0]}` out of dynamic_shapes, or write the line for all sizes")


def _error_at(line: str, message: str, help: str) -> ExportError:
    error = ExportError(message, help)
    error.line = line
    return error


def _conditions(sizes: Sizes) -> list[Condition]:
    """What the run asked of sizes, without what follows from the rest."""
    kept: list[Condition] = []
    for c in sizes.conditions.values():
        if not any(c.follows_from(other) for other in kept):
            kept = [*(k for k in kept if not k.follows_from(c)), c]
    return kept


def _results(ways: Explored, held: list[Held], wanted: Sequence[str] | None,
             taken: Sequence[str]) -> Results:
    """What the function returns: `output`, `output_1`, ..., or named by a dictionary's keys; and
    what it changes."""
    names: tuple[str, ...] | None = None
    nodes: dict[Ends, tuple[Node, ...]] = {}
    for end, runs in ways.runs.items():
        for run in runs:
            found = _tensors(run.result)
            if names is not None and names != tuple(found):
                raise ExportError("the function returns other tensors on other ways: "
                                  f"{', '.join(names)} and {', '.join(found)}",
                                  "return the same number of tensors on each")
            names = tuple(found)
            _add(nodes, end, (*map(run.node_of, found.values()), *after(run, held)))
    assert names is not None
    return Results((*_named(names, wanted, taken), *(h.after for h in held)), nodes)


def _add(nodes: dict[Ends, tuple[Node, ...]], end: Ends, found: tuple[Node, ...]) -> None:
    """Notes the nodes of an end. ExportError where two runs came there with others."""
    if nodes.setdefault(end, found) != found:
        raise ExportError("the function gives something else for another example, though no "
                          "value of a tensor decided so",
                          "does it depend on more than its arguments: random numbers, time, state?")


def _tensors(result: Any) -> dict[str, Tensor]:
    """The tensors that a function returns, by name."""
    _check_result(result)
    found = leaves(result, "") if not isinstance(result, Tensor) else [("", result)]
    if not found:
        raise ExportError("the function returns no tensor", "a model has outputs: return them")
    named = isinstance(result, dict) or hasattr(result, "_fields")
    return {name[1:] if named else "output" if i == 0 else f"output_{i}": tensor
            for i, (name, tensor) in enumerate(found)}


def _named(own: tuple[str, ...], wanted: Sequence[str] | None, taken: Sequence[str]
           ) -> tuple[str, ...]:
    names = own if wanted is None else tuple(wanted)
    if isinstance(wanted, str) or len(names) != len(own) or \
            len({*names, *taken}) != len(names) + len(taken):
        raise ExportError(f"export: output_names {wanted!r} do not name the {len(own)} outputs",
                          "give one name for each, all different, and not those of inputs "
                          f"({', '.join(taken)})")
    return names


def _check_result(value: Any) -> None:
    parts = value.values() if isinstance(value, dict) else value \
        if isinstance(value, (list, tuple)) else ()
    for part in parts:
        _check_result(part)
    if value is not None and not isinstance(value, (Tensor, dict, list, tuple)):
        kind = "size" if type(value) is Dim else type(value).__name__
        raise ExportError(f"the function returns a {kind}, which is no tensor",
                          "a model returns tensors: fw.tensor(x), or leave it out")
