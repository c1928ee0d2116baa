"""A recorded run as a model, and a model as a file."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...capture.dims import Condition, Dim
from ...capture.graph import Graph, Node
from ...capture.passes.decompose import decompose
from ...capture.passes.simplify import simplify
from ...capture.pipeline import run as run_passes
from ...capture.symbolic import SymbolicRun, dotted
from ...eager.errors import ExportError
from ...eager.nn.module import Module
from ...eager.op import OPS
from .arguments import Arguments
from .constants import Named
from .convert import Converter, row_of
from .write import Value, Writer

LIMIT = 2 ** 31 - 1  # bytes of one protobuf message


class Output(NamedTuple):
    """A tensor that the function returns."""

    name: str
    node: Node


def names_of(fn: Callable[..., Any]) -> dict[int, str]:
    """The names of a module's tensors, by the identity of their values."""
    module = fn if isinstance(fn, Module) else getattr(fn, "__self__", None)
    if not isinstance(module, Module):
        return {}
    found: dict[int, str] = {}
    for name, tensor in (*module.named_parameters(remove_duplicate=False),
                         *module.named_buffers(remove_duplicate=False)):
        found.setdefault(id(tensor._data), name)
    return found


def build(run: SymbolicRun, call: Arguments, outputs: Sequence[Output], opset: int,
           names: Mapping[int, str]) -> Any:
    """The model of a run, as onnx has it."""
    graph = Graph((*run.inputs, *run.outside), tuple(o.node for o in outputs))
    graph = _prepared(graph)
    count = len(run.inputs)
    constants = {node: Named(names.get(id(outside.array)) or dotted(outside.path), outside.array)
                 for node, outside in zip(graph.inputs[count:], run.outside.values())}
    writer = Writer(opset)
    for name in (*call.names, *(o.name for o in outputs)):
        writer.unique(name)
    values = Converter(Graph(graph.inputs[:count], graph.outputs), constants, writer).run()
    _name_outputs(writer, values, [o.name for o in outputs])
    return _assembled(writer, graph.inputs[:count], zip(outputs, graph.outputs))


def _prepared(graph: Graph) -> Graph:
    """The graph with composites opened that have no operator, and simplified."""
    whole = [name for name, op in OPS.items()
             if op.kind == "composite" and (row_of(op) or "onnx" in op.why)]

    def open_composites(g: Graph) -> Graph:
        return decompose(g, whole)

    return run_passes(graph, [open_composites, simplify])


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
        for places in (node.input, node.output):
            for i, old in enumerate(places):
                places[i] = renamed.get(old, old)


def _assembled(writer: Writer, inputs: Sequence[Node], outputs: Any) -> Any:
    from onnx import helper

    def info(name: str, node: Node) -> Any:
        shape = [str(n) if type(n) is Dim else int(n) for n in node.type.shape]
        kind = helper.np_dtype_to_tensor_dtype(node.type.dtype)
        return helper.make_tensor_value_info(name, kind, shape)

    read = {name for node in writer.nodes for name in node.input}
    graph = helper.make_graph(
        writer.nodes, "main", [info(n.params["name"], n) for n in inputs],
        [info(o.name, node) for o, node in outputs],
        [constant for constant in writer.initializers if constant.name in read])
    opset = helper.make_opsetid("", writer.opset)
    model = helper.make_model(
        graph, opset_imports=[opset], producer_name="fusewire", producer_version=_version(),
        ir_version=max(8, helper.find_min_ir_version_for([opset])))
    return model


def add_conditions(model: Any, conditions: Sequence[Condition]) -> None:
    """Writes down in the model for which sizes it holds."""
    from onnx import helper

    if conditions:
        helper.set_model_props(model, {"valid for": ", ".join(map(str, conditions))})


@functools.cache
def _version() -> str:
    from importlib import metadata  # takes as long as all of this package

    try:
        return metadata.version("fusewire")
    except metadata.PackageNotFoundError:
        return ""


def serialised(model: Any) -> bytes:
    total = sum(len(t.raw_data) for t in model.graph.initializer)
    if total > LIMIT - 2 ** 20:
        raise ExportError(f"the model holds {total / 2 ** 30:.1f} GiB of parameters, and one file "
                          "cannot be larger than 2 GiB",
                          "export it in parts, or in a smaller dtype: model.to(fw.float16)")
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def save(data: bytes, path: str | os.PathLike[str]) -> None:
    """Writes the file in one step: a reader finds the old one or the new one, never half of it."""
    target = Path(path)
    fresh = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        fresh.write_bytes(data)
        os.replace(fresh, target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
