"""A function and its example arguments as a recording for all sizes: what every export begins with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ....capture.graph.graph import Node
from ....capture.program.cfg import Exit
from ....capture.replay.compiled_function import Compiled
from ....capture.replay.path_enumeration import Example, Explored, explore
from ....capture.sizes.symbolic_dim import Dim, ShapeEnv, SizeCondition
from ....capture.trace.export_tracer import modules_of, walk
from ....eager.core.tape import no_grad
from ....eager.core.tensor import Tensor
from ....eager.errors import CaptureError, ExportError
from .arguments import Arguments, leaves, resized
from .model import Results
from .training_state import Held, after


def plain(fn: Any) -> Callable[..., Any]:
    """The function itself where it is compiled."""
    if not callable(fn):
        raise ExportError(f"export: takes a function or a module, not {type(fn).__name__}",
                          "export(model, (x,), path)")
    return fn.original if isinstance(fn, Compiled) else fn  # type: ignore[no-any-return]


@contextlib.contextmanager
def inference(fn: Callable[..., Any]) -> Iterator[None]:
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


def _recorded_sizes(example: Mapping[str, int]) -> dict[str, int]:
    """Sizes to record with: those of the example, but for 1, which broadcasts like no other."""
    free = (p for p in (3, 5, 7, 11, 13, 17, 19, 23, 29, 31) if p not in example.values())
    return {name: next(free, 37) if size == 1 else size for name, size in example.items()}


def explored(calls: Sequence[Arguments], sizes: ShapeEnv, training: bool, meeting: bool = True
             ) -> Explored:
    """All ways of a function. ExportError for one that cannot be found."""
    examples = [_example(call, sizes) for call in calls]
    try:
        return explore(calls[0].fn, examples, sizes, training, meeting)
    except CaptureError as error:
        made = _error_at(error.line, error.message, error.help)
        made.layers = error.layers
        raise made from error
    except Exception as error:
        try:
            check_fixed(sizes)  # often it is a size that is no int which made it fail
        except ExportError as ours:
            raise ours from error
        raise


def _example(call: Arguments, sizes: ShapeEnv) -> Example:
    sizes.begin(_recorded_sizes(call.sizes()))
    arrays = [resized(a, axes, sizes.values) for a, axes in zip(call.arrays, call.axes)]
    given = call.given(sizes, arrays)
    args, kwargs = call.call([g.tensor for g in given])
    return Example(args, kwargs, given, sizes.values)


def check_fixed(sizes: ShapeEnv) -> None:
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


def conditions_of(sizes: ShapeEnv) -> list[SizeCondition]:
    """What the run asked of sizes, without what follows from the rest."""
    kept: list[SizeCondition] = []
    for c in sizes.conditions.values():
        if not any(c.follows_from(other) for other in kept):
            kept = [*(k for k in kept if not k.follows_from(c)), c]
    return kept


def results_of(ways: Explored, held: list[Held], wanted: Sequence[str] | None,
             taken: Sequence[str]) -> Results:
    """What the function returns: `output`, `output_1`, ..., or named by a dictionary's keys; and
    what it changes."""
    names: tuple[str, ...] | None = None
    nodes: dict[Exit, tuple[Node, ...]] = {}
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


def _add(nodes: dict[Exit, tuple[Node, ...]], end: Exit, found: tuple[Node, ...]) -> None:
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
