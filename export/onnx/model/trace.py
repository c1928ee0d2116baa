"""Traces a function on its example arguments for all sizes; every export begins here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ....capture.cfg.ir import Exit
from ....capture.graph.graph import Node
from ....capture.replay.compiled_function import Compiled
from ....capture.replay.path_enumeration import Example, Explored, explore
from ....capture.sizes.size_condition import SizeCondition
from ....capture.sizes.symbolic_dim import Dim, ShapeEnv
from ....capture.trace.export_tracer import modules_of, walk
from ....eager.core.tape import no_grad
from ....eager.core.tensor import Tensor
from ....eager.errors import CaptureError, ExportError
from .arguments import ExportArguments, leaves, resized
from .model import Results
from .table_limits import size_limits
from .training_state import ModelState, after


def plain(fn: Any) -> Callable[..., Any]:
    """The original function of a compiled function, or the function itself."""
    if not callable(fn):
        raise ExportError(f"export: expected a function or a module, got {type(fn).__name__}",
                          "export(model, (x,), path)")
    return fn.original if isinstance(fn, Compiled) else fn  # type: ignore[no-any-return]


@contextlib.contextmanager
def inference(fn: Callable[..., Any]) -> Iterator[None]:
    """A context without gradients and with the modules of `fn` in eval mode; restored after it."""
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


def _recorded_sizes(example: Mapping[str, int]) -> dict[str, int]:
    """The sizes for the trace: those of the example, except 1.

    Size 1 broadcasts, so a trace with it would hold for no other size.
    """
    free = (p for p in (3, 5, 7, 11, 13, 17, 19, 23, 29, 31) if p not in example.values())
    return {name: next(free, 37) if size == 1 else size for name, size in example.items()}


def explored(calls: Sequence[ExportArguments], sizes: ShapeEnv, training: bool = False,
             draws: bool = False) -> Explored:
    """All control-flow paths of a function. Raises ExportError if one cannot be traced.

    With `training`, they may change state. With `draws`, they may draw random numbers.
    """
    examples = [_example(call, sizes) for call in calls]
    try:
        paths = explore(calls[0].fn, examples, sizes, training, draws)
        for limit in size_limits(paths):
            sizes.conditions.setdefault((limit.relation, limit.expr), limit)
        return paths
    except CaptureError as error:
        located = _error_at(error.line, error.message, error.help)
        located.layers = error.layers
        raise located.with_traceback(error.__traceback__) from None
    except Exception as error:
        try:
            check_fixed(sizes)  # a failure is often due to a symbolic size where an int is needed
        except ExportError as fixed:
            raise fixed from error
        raise


def _example(call: ExportArguments, sizes: ShapeEnv) -> Example:
    sizes.begin(_recorded_sizes(call.sizes()))
    arrays = [resized(a, axes, sizes.values) for a, axes in zip(call.arrays, call.axes)]
    inputs = call.export_inputs(sizes, arrays)
    args, kwargs = call.call([g.tensor for g in inputs])
    return Example(args, kwargs, inputs, sizes.values)


def check_fixed(sizes: ShapeEnv) -> None:
    """Raises ExportError if the trace is valid for only one value of a dynamic size."""
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
                c.line, f"the function was traced for {values}, which is valid only for {c}",
                "give both sizes one name in dynamic_shapes" if len(involved) > 1 else
                f"leave `{involved[0]}` out of dynamic_shapes, or write the line for all sizes")


def _error_at(line: str, message: str, help: str) -> ExportError:
    error = ExportError(message, help)
    error.line = line
    return error


def conditions_of(sizes: ShapeEnv) -> list[SizeCondition]:
    """The conditions on sizes, without those that follow from others."""
    independent: list[SizeCondition] = []
    for c in sizes.conditions.values():
        if not any(c.follows_from(other) for other in independent):
            independent = [*(earlier for earlier in independent if not earlier.follows_from(c)), c]
    return independent


def results_of(paths: Explored, held: list[ModelState], output_names: Sequence[str] | None,
               taken: Sequence[str]) -> Results:
    """The function's results and its changed state.

    Results are named `output`, `output_1`, ... or by the keys of a returned dictionary.
    """
    names: tuple[str, ...] | None = None
    nodes: dict[Exit, tuple[Node, ...]] = {}
    for end, runs in paths.runs.items():
        for run in runs:
            tensors = _tensors(run.result)
            if names is not None and names != tuple(tensors):
                raise ExportError("the function returns different tensors on different paths: "
                                  f"{', '.join(names)} and {', '.join(tensors)}",
                                  "return the same number of tensors on each path")
            names = tuple(tensors)
            _add(nodes, end, (*map(run.node_of, tensors.values()), *after(run, held)))
    assert names is not None
    return Results((*_named(names, output_names, taken), *(h.after for h in held)), nodes)


def _add(nodes: dict[Exit, tuple[Node, ...]], end: Exit, results: tuple[Node, ...]) -> None:
    """Adds the result nodes of an exit. Raises ExportError if two runs reached it with others."""
    if nodes.setdefault(end, results) != results:
        raise ExportError("the function computes something else for another example, but no "
                          "branch on a tensor's value explains it",
                          "does it depend on more than its arguments: random numbers, time, state?")


def _tensors(result: Any) -> dict[str, Tensor]:
    """The tensors that a function returns, by name."""
    _check_result(result)
    tensors = leaves(result, "") if not isinstance(result, Tensor) else [("", result)]
    if not tensors:
        raise ExportError("the function returns no tensor", "return the outputs of the model")
    named = isinstance(result, dict) or hasattr(result, "_fields")
    return {name[1:] if named else "output" if i == 0 else f"output_{i}": tensor
            for i, (name, tensor) in enumerate(tensors)}


def _named(own: tuple[str, ...], output_names: Sequence[str] | None, taken: Sequence[str]
           ) -> tuple[str, ...]:
    names = own if output_names is None else tuple(output_names)
    if isinstance(output_names, str) or len(names) != len(own) or \
            len({*names, *taken}) != len(names) + len(taken):
        raise ExportError(f"export: output_names {output_names!r} do not name the {len(own)} "
                          "outputs",
                          "pass one distinct name for each, other than the names of inputs "
                          f"({', '.join(taken)})")
    return names


def _check_result(value: Any) -> None:
    parts = value.values() if isinstance(value, dict) else value \
        if isinstance(value, (list, tuple)) else ()
    for part in parts:
        _check_result(part)
    if value is not None and not isinstance(value, (Tensor, dict, list, tuple)):
        kind = "size" if type(value) is Dim else type(value).__name__
        raise ExportError(f"the function returns a {kind}, which is not a tensor",
                          "return fw.tensor(x), or leave it out")
