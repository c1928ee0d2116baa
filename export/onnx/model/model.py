"""Builds the ONNX model of a traced function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....capture.cfg.ir import Exit, walk
from ....capture.graph.graph import Graph, Node
from ....capture.passes.decompose import decompose_composites
from ....capture.passes.pass_manager import run as run_passes
from ....capture.passes.simplify import simplify
from ....capture.replay.path_enumeration import Explored
from ....capture.scalars.scalar_expr import elements
from ....capture.trace.export_tracer import called, dotted, modules_of
from ....capture.trace.export_tracer import walk as find_all
from ....eager.arrays.devices import host
from ....eager.nn.base.module import Module
from ..convert.batchnorm_folding import fold_channels
from ..convert.control_flow import ControlFlowWriter, Result, described, operands_of
from ..convert.converter import Converter, is_written
from ..writer.constants import Named
from ..writer.graph_writer import OnnxValue, Writer
from .arguments import ExportArguments
from .training_state import ModelState


class Results(NamedTuple):
    """The function's results: the names of its tensors, and their nodes at each exit."""

    names: tuple[str, ...]
    nodes: Mapping[Exit, tuple[Node, ...]]


def names_of(fn: Callable[..., Any]) -> dict[int, str]:
    """The names of parameters and buffers, by the id of their array.

    If `fn` is a module or a module's method, these are the names in that module, else the names in
    all modules that the function reaches.
    """
    module = fn if isinstance(fn, Module) else getattr(fn, "__self__", None)
    names: dict[int, str] = {}
    if isinstance(module, Module):
        _add_names(names, module, "")
        return names
    state = find_all(fn)
    reached = modules_of(state)
    inner = {id(m) for top in reached for m in top.modules() if m is not top}
    tops = [m for m in reached if id(m) not in inner]
    for top in tops:
        _add_names(names, top, f"{called(state.paths[id(top)])}." if len(tops) > 1 else "")
    return names


def _add_names(names: dict[int, str], module: Module, prefix: str) -> None:
    for name, tensor in (*module.named_parameters(remove_duplicate=False),
                         *module.named_buffers(remove_duplicate=False)):
        names.setdefault(id(tensor._data), prefix + name)


def build(paths: Explored, call: ExportArguments, results: Results, held: Sequence[ModelState],
          opset: int,
          names: Mapping[int, str], optimize: bool = False) -> Any:
    """The ONNX model of a function; with `optimize`, batch norms are folded."""
    roots = _required(paths, results)
    input_nodes = [*next(iter(paths.runs.values()))[0].inputs, *(h.node for h in held)]
    others = [n for n in _inputs(paths, roots) if n not in input_nodes]
    graph = Graph((*input_nodes, *others), tuple(roots))
    outside = paths.names.outside
    ready = _prepared(graph, opset)
    if optimize:
        fixed = [m for n, m in zip(graph.inputs, ready.inputs)
                 if n in outside and n not in input_nodes]
        ready = run_passes(ready, [lambda g: fold_channels(g, fixed)])
    now = dict(zip((*graph.inputs, *graph.outputs), (*ready.inputs, *ready.outputs)))
    constants = {now[n]: Named(names.get(id(outside[n].array)) or dotted(outside[n].path),
                               host(outside[n].array)) for n in others if n in outside}
    numbers = {now[n]: paths.names.numbers[n] for n in others if n in paths.names.numbers}
    writer = Writer(opset)
    titles = [*call.names, *(h.name for h in held)]
    for name in (*titles, *results.names):
        writer.unique(name)
    inputs = {now[n]: name for n, name in zip(input_nodes, titles)}
    converter = Converter(ready, inputs, constants, writer, numbers, now)
    outputs = ControlFlowWriter(converter, results.nodes).write(paths.root)
    _name_outputs(writer, [r.value for r in outputs], results.names)
    for h in held:  # the default, for calls that do not pass the state
        writer.start(h.name, host(paths.names.outside[h.node].array))
    return _assembled(writer, inputs, zip(results.names, outputs))


def _required(paths: Explored, results: Results) -> list[Node]:
    """The nodes that any block of the tree reads."""
    nodes: dict[Node, None] = {}
    for block in walk(paths.root):
        nodes.update(dict.fromkeys(operands_of(block, results.nodes)))
        for child in block.children():
            nodes.update(dict.fromkeys(block.definitions(child)))
    for formula in paths.names.numbers.values():
        nodes.update(dict.fromkeys(elements([formula])))
    return list(nodes)


def _inputs(paths: Explored, roots: Sequence[Node]) -> list[Node]:
    """The input nodes that `roots` depend on.

    A number among them is computed from elements of tensors, so their inputs count as well.
    """
    inputs: dict[Node, None] = {}
    stack, seen = list(roots), set(roots)
    while stack:
        node = stack.pop()
        if node.op == "input":
            inputs[node] = None
        read = [*node.inputs, *elements(f for f in [paths.names.numbers.get(node)] if f)]
        stack += [n for n in read if n not in seen]
        seen.update(read)
    return list(inputs)


def _prepared(graph: Graph, opset: int) -> Graph:
    """The graph, simplified, without the composites that ONNX has no operator for."""
    def without_operator(g: Graph) -> Graph:
        return decompose_composites(g, lambda node: not is_written(node, opset))

    return run_passes(graph, [without_operator, simplify])


def _name_outputs(writer: Writer, values: Sequence[OnnxValue], names: Sequence[str]) -> None:
    """Names the outputs: outputs of nodes are renamed, other values are copied by Identity."""
    computed = {out for node in writer.nodes for out in node.output}
    renamed: dict[str, str] = {}
    for value, name in zip(values, names):
        if value.name in computed and value.name not in renamed:
            renamed[value.name] = name
        else:
            writer.op("Identity", [value], value.dtype, name=name)
    for node in _all_nodes(writer.nodes):
        for slots in (node.input, node.output):
            for i, old in enumerate(slots):
                slots[i] = renamed.get(old, old)


def _all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """The nodes, and the nodes of their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _all_nodes(attribute.g.node)


def _assembled(writer: Writer, inputs: Mapping[Node, str], outputs: Iterable[tuple[str, Result]]
               ) -> Any:
    from onnx import helper

    input_values = [Result(OnnxValue(name, n.type.dtype), n.type.shape) for n,
                    name in inputs.items()]
    read = {name for node in _all_nodes(writer.nodes) for name in node.input} | {*inputs.values()}
    graph = helper.make_graph(
        writer.nodes, "main", [described(r.value.name, r) for r in input_values],
        [described(name, r) for name, r in outputs],
        [constant for constant in writer.initializers if constant.name in read])
    opset = helper.make_opsetid("", writer.opset)
    model = helper.make_model(
        graph, opset_imports=[opset], producer_name="fusewire", producer_version=version(),
        ir_version=max(8, helper.find_min_ir_version_for([opset])))
    return model


def describe(model: Any, metadata: Mapping[str, str], conditions: Sequence[str]) -> None:
    """Stores the user's metadata in the model, and the conditions under which it is valid."""
    from onnx import helper

    limits = {"valid for": ", ".join(conditions)} if conditions else {}
    helper.set_model_props(model, {**metadata, **limits})


@functools.cache
def version() -> str:
    """The installed version of fusewire; empty if it is not installed."""
    from importlib import metadata  # its import takes as long as this whole package

    try:
        return metadata.version("fusewire")
    except metadata.PackageNotFoundError:
        return ""
