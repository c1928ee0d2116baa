"""`export`: a function or module as an ONNX file."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...capture.compiled import Compiled
from ...capture.dims import Condition, Dim, Sizes
from ...capture.graph import Graph, Node
from ...capture.passes.decompose import decompose
from ...capture.passes.simplify import simplify
from ...capture.pipeline import run as run_passes
from ...capture.symbolic import SymbolicRun, modules_of, record_symbolic, walk
from ...eager.errors import CaptureError, ExportError, FusewireError
from ...eager.nn.module import Module
from ...eager.op import OPS
from ...eager.tape import no_grad
from ...eager.tensor import Tensor
from . import verify as checks
from .arguments import Arguments, arguments, drawn, leaves, resized
from .constants import Named
from .convert import Converter, row_of
from .write import Value, Writer

OPSETS = (17, 23)  # the first and last that the tests cover
LIMIT = 2 ** 31 - 1  # bytes of one protobuf message


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

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes >= 1e5 else f"{self.bytes} bytes"
        error = "not verified" if self.max_error is None else \
            f"largest difference {self.max_error:.2g} ({self.runner})"
        limits = f", for {', '.join(self.conditions)}" if self.conditions else ""
        return f"{self.path}: {size}, opset {self.opset}, {error}{limits}"


class Output(NamedTuple):
    """A tensor that the function returns."""

    name: str
    node: Node


@dataclass
class Check:
    """What verifying a model found."""

    error: float | None = None
    sizes: list[dict[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    runner: str = ""
    conditions: list[Condition] = field(default_factory=list)


def export(
    fn_or_module: Callable[..., Any], args: Any, path: str | os.PathLike[str], *,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None, dynamic_axes: Any = None, opset: int = 18, verify: bool = True,
) -> ExportReport:
    """A report on the ONNX file written to `path`: what the function computes for such `args`.

    args: a tensor, a tuple of arguments, or a dictionary of arguments by name. dynamic_shapes: which
    axes may vary, {"x": {0: "batch"}}; axes with one name have one size. dynamic_axes is torch's word
    for the same. The model is run and compared with the function, at other sizes too where some
    vary. Modules are exported in eval mode. ExportError names the line that stands in the way.
    """
    _check_options(opset, dynamic_shapes, dynamic_axes)
    fn = _plain(fn_or_module)
    dynamic = dynamic_axes if dynamic_shapes is None else dynamic_shapes
    call = arguments(fn, args, input_names, dynamic, output_names or ("output",))
    with _inference(fn):
        example = call.sizes()
        sizes = Sizes(_recorded_sizes(example))
        run = _record(call, sizes)
        _check_fixed(sizes)
        outputs = _outputs(run, output_names, call.names)
        model = _model(run, call, outputs, opset, _names_of(fn))
        check = Check(conditions=_conditions(sizes))
        if verify:
            _verify(model, call, [o.name for o in outputs], example, check)
    _add_conditions(model, check.conditions)
    data = _serialised(model)
    _save(data, path)
    notes = (*check.notes, *(f"{text} changed in the call, which the model does not do"
                             for text in run.changed))
    return ExportReport(
        os.fspath(path), opset, model.ir_version, len(data), check.error, tuple(check.sizes),
        call.names, tuple(o.name for o in outputs), tuple(map(str, check.conditions)), notes,
        check.runner)


def _check_options(opset: Any, dynamic_shapes: Any, dynamic_axes: Any) -> None:
    if type(opset) is not int or not OPSETS[0] <= opset <= OPSETS[1]:
        raise ExportError(f"export: opset {opset!r} is not supported",
                          f"opsets {OPSETS[0]} to {OPSETS[1]} are; 18 runs nearly everywhere")
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


def _record(call: Arguments, sizes: Sizes) -> SymbolicRun:
    arrays = [resized(a, axes, sizes.values) for a, axes in zip(call.arrays, call.axes)]
    given = call.given(sizes, arrays)
    args, kwargs = call.call([g.tensor for g in given])
    try:
        return record_symbolic(call.fn, args, kwargs, given, sizes)
    except CaptureError as error:
        raise _as_export_error(error) from error


def _as_export_error(error: FusewireError) -> ExportError:
    made = ExportError(error.message, error.help)
    made.line, made.layers = error.line, error.layers
    return made


def _check_fixed(sizes: Sizes) -> None:
    """ExportError for a size that was to vary, where the run holds for one value of it only."""
    for fixed in sizes.fixed:
        names = " and ".join(f"`{n}`" for n in sorted(fixed.expr.symbols()))
        raise _fixed(f"the size {names} was fixed to {fixed.value} by {fixed.how}", fixed.line,
                     "compute with sizes as they are (+ - * // %, and x / n with a tensor x), or "
                     "leave the axis out of dynamic_shapes")
    for c in sizes.conditions.values():
        if c.relation == "eq" and c.outcome and c.expr.remainder() is None:
            names = sorted(c.expr.symbols())
            values = ", ".join(f"{n} = {sizes.values[n]}" for n in names)
            raise _fixed(f"the run holds only where {c} (here {values})", c.line,
                         "give both sizes one name in dynamic_shapes" if len(names) > 1 else
                         f"leave `{names[0]}` out of dynamic_shapes, or write the line for all sizes")


def _fixed(message: str, line: str, help: str) -> ExportError:
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


def _outputs(run: SymbolicRun, wanted: Sequence[str] | None, taken: Sequence[str]) -> list[Output]:
    """What the function returns, by name: `output`, `output_1`, ..., or the keys of a dictionary."""
    result = run.result
    _check_result(result)
    found = leaves(result, "") if not isinstance(result, Tensor) else [("", result)]
    if not found:
        raise ExportError("the function returns no tensor", "a model has outputs: return them")
    named = isinstance(result, dict) or hasattr(result, "_fields")
    names = [name[1:] if named else "output" if i == 0 else f"output_{i}"
             for i, (name, _) in enumerate(found)] if wanted is None else list(wanted)
    if isinstance(wanted, str) or len(names) != len(found) or len({*names, *taken}) != \
            len(names) + len(taken):
        raise ExportError(f"export: output_names {wanted!r} do not name the {len(found)} outputs",
                          "give one name for each, all different, and not those of inputs "
                          f"({', '.join(taken)})")
    return [Output(name, run.node_of(tensor)) for name, (_, tensor) in zip(names, found)]


def _check_result(value: Any) -> None:
    parts = value.values() if isinstance(value, dict) else value \
        if isinstance(value, (list, tuple)) else ()
    for part in parts:
        _check_result(part)
    if value is not None and not isinstance(value, (Tensor, dict, list, tuple)):
        kind = "size" if type(value) is Dim else type(value).__name__
        raise ExportError(f"the function returns a {kind}, which is no tensor",
                          "a model returns tensors: fw.tensor(x), or leave it out")


# ---- the model
def _names_of(fn: Callable[..., Any]) -> dict[int, str]:
    """The names of a module's tensors, by the identity of their values."""
    module = fn if isinstance(fn, Module) else getattr(fn, "__self__", None)
    if not isinstance(module, Module):
        return {}
    found: dict[int, str] = {}
    for name, tensor in (*module.named_parameters(remove_duplicate=False),
                         *module.named_buffers(remove_duplicate=False)):
        found.setdefault(id(tensor.data), name)
    return found


def _model(run: SymbolicRun, call: Arguments, outputs: Sequence[Output], opset: int,
           names: Mapping[int, str]) -> Any:
    """The model of a run, as onnx has it."""
    graph = Graph((*run.inputs, *run.outside), tuple(o.node for o in outputs))
    graph = _prepared(graph)
    count = len(run.inputs)
    constants = {node: Named(_constant_name(outside, names), outside.array)
                 for node, outside in zip(graph.inputs[count:], run.outside.values())}
    writer = Writer(opset)
    for name in (*call.names, *(o.name for o in outputs)):
        writer.unique(name)
    values = Converter(Graph(graph.inputs[:count], graph.outputs), constants, writer).run()
    _name_outputs(writer, values, [o.name for o in outputs])
    return _assembled(writer, graph.inputs[:count], zip(outputs, graph.outputs))


def _prepared(graph: Graph) -> Graph:
    """The graph with composites opened that have no operator, and simplified."""
    written = [name for name, op in OPS.items() if op.kind == "composite" and row_of(op)]

    def open_composites(g: Graph) -> Graph:
        return decompose(g, written)

    return run_passes(graph, [open_composites, simplify])


def _constant_name(outside: Any, names: Mapping[int, str]) -> str:
    """The name of a tensor that the function reads: a parameter's in the module, or how it is reached."""
    found = names.get(id(outside.array))
    if found is not None or outside.path is None:
        return found or ""
    path, words = outside.path, []
    while path.parent is not None:
        word = str(getattr(path.key, "value", path.key))
        if path.kind in ("attr", "item") and not word.startswith("__") and \
                word not in ("_parameters", "_buffers", "_modules"):
            words.append(word)
        path = path.parent
    return ".".join(reversed(words))


def _name_outputs(writer: Writer, values: Sequence[Value], names: Sequence[str]) -> None:
    """Gives the outputs their names: those of nodes are renamed, anything else is copied."""
    made = {out for node in writer.nodes for out in node.output}
    renamed: dict[str, str] = {}
    for value, name in zip(values, names):
        if value.name in made and value.name not in renamed:
            renamed[value.name] = name
        else:
            writer.op("Identity", [value], value.dtype, name=name)
    for node in writer.nodes:
        for names_of_node in (node.input, node.output):
            for i, old in enumerate(names_of_node):
                names_of_node[i] = renamed.get(old, old)


def _assembled(writer: Writer, inputs: Sequence[Node], outputs: Any) -> Any:
    from onnx import helper

    def info(name: str, node: Node) -> Any:
        shape = [str(n) if type(n) is Dim else int(n) for n in node.type.shape]
        kind = helper.np_dtype_to_tensor_dtype(node.type.dtype)
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        writer.nodes, "main", [info(n.params["name"], n) for n in inputs],
        [info(o.name, node) for o, node in outputs], writer.initializers)
    opset = helper.make_opsetid("", writer.opset)
    model = helper.make_model(
        graph, opset_imports=[opset], producer_name="fusewire", producer_version=_version(),
        ir_version=max(8, helper.find_min_ir_version_for([opset])))
    return model


def _add_conditions(model: Any, conditions: Sequence[Condition]) -> None:
    """Writes down in the model for which sizes it holds."""
    from onnx import helper

    if conditions:
        helper.set_model_props(model, {"valid for": ", ".join(map(str, conditions))})


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("fusewire")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _serialised(model: Any) -> bytes:
    total = sum(len(t.raw_data) for t in model.graph.initializer)
    if total > LIMIT - 2 ** 20:
        raise ExportError(f"the model holds {total / 2 ** 30:.1f} GiB of parameters, and one file "
                          "cannot be larger than 2 GiB",
                          "export it in parts, or in a smaller dtype: model.to(fw.float16)")
    data: bytes = model.SerializeToString(deterministic=True)
    return data


# ---- checks
def _verify(model: Any, call: Arguments, outputs: Sequence[str], example: dict[str, int],
            check: Check) -> None:
    """Fills `check`: the model against the function, at the example's sizes and at others."""
    data = _serialised(model)
    checks.check(model)
    runner = checks.runner(data)
    check.runner, check.error = runner.name, 0.0
    check.notes += [runner.note] if runner.note else []

    def compare(sizes: dict[str, int], arrays: Sequence[Any]) -> None:
        wanted = _eager(call, arrays)
        where = "at " + ", ".join(f"{k} = {v}" for k, v in sizes.items()) if sizes else \
            "on the example"
        error = checks.compare(runner.run, dict(zip(call.names, arrays)),
                               list(zip(outputs, wanted)), where)
        check.error = max(check.error or 0.0, error)
        check.sizes.append(sizes)

    compare(example, call.arrays)
    if example:
        _compare_elsewhere(compare, call, example, check)


def _compare_elsewhere(compare: Any, call: Arguments, example: dict[str, int], check: Check) -> None:
    """Compares at other sizes, with all of them 1, and where a size was found not to be another."""
    rng = np.random.default_rng(0)

    def at(sizes: dict[str, int]) -> bool:
        """Whether the function takes these sizes, the model being right for them."""
        arrays = [drawn(a, axes, sizes, rng) for a, axes in zip(call.arrays, call.axes)]
        try:
            _eager(call, arrays)
        except FusewireError:
            return False
        compare(sizes, arrays)
        return True

    for sizes, _ in zip(checks.other_sizes(example, check.conditions), range(3)):
        if at(sizes):
            break
    else:
        check.notes.append("not checked at other sizes: the function takes none of those tried")
    for sizes in checks.doubtful_sizes(example, check.conditions):
        if sizes not in check.sizes:
            with contextlib.suppress(ExportError):  # it differs: so the condition is a real one
                at(sizes)
    check.conditions = [c for c in check.conditions if all(map(c.holds, check.sizes))]


def _eager(call: Arguments, arrays: Sequence[Any]) -> list[Any]:
    """What the function gives, as arrays."""
    args, kwargs = call.call([Tensor(a.view()) for a in arrays])
    result = call.fn(*args, **kwargs)
    return [t.data for _, t in leaves(result, "")]


def _save(data: bytes, path: str | os.PathLike[str]) -> None:
    """Writes the file in one step: a reader finds the old one or the new one, never half of it."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
