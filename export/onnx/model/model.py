"""A function's ways as a model, and its parts as onnx has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....capture.graph.graph import Graph, Node
from ....capture.passes.decompose import decompose_composites
from ....capture.passes.pass_manager import run as run_passes
from ....capture.passes.simplify import simplify
from ....capture.program.cfg import Exit, IfMerge, LoopHeader
from ....capture.program.segment_planner import walk
from ....capture.replay.path_enumeration import Explored
from ....capture.scalars.scalar_expr import elements
from ....capture.sizes.symbolic_dim import SizeCondition
from ....capture.trace.export_tracer import called, dotted, modules_of
from ....capture.trace.export_tracer import walk as find_all
from ....eager.arrays.devices import host
from ....eager.nn.base.module import Module
from ..convert.batchnorm_folding import fold_channels
from ..convert.control_flow import Flow, Result, described, wanted_of
from ..convert.converter import Converter, is_written
from ..writer.constants import Named
from ..writer.graph_writer import Value, Writer
from .arguments import Arguments
from .training_state import Held


class Results(NamedTuple):
    """What the function returns: the names of its tensors, and their nodes at each end."""

    names: tuple[str, ...]
    nodes: Mapping[Exit, tuple[Node, ...]]


def names_of(fn: Callable[..., Any]) -> dict[int, str]:
    """The names of tensors of modules, by the identity of their values: of the module that is
    exported, or whose method is, else of those that the function reaches."""
    module = fn if isinstance(fn, Module) else getattr(fn, "__self__", None)
    found: dict[int, str] = {}
    if isinstance(module, Module):
        _add_names(found, module, "")
        return found
    state = find_all(fn)
    reached = modules_of(state)
    inner = {id(m) for top in reached for m in top.modules() if m is not top}
    tops = [m for m in reached if id(m) not in inner]
    for top in tops:
        _add_names(found, top, f"{called(state.paths[id(top)])}." if len(tops) > 1 else "")
    return found


def _add_names(found: dict[int, str], module: Module, prefix: str) -> None:
    for name, tensor in (*module.named_parameters(remove_duplicate=False),
                         *module.named_buffers(remove_duplicate=False)):
        found.setdefault(id(tensor._data), prefix + name)


def build(ways: Explored, call: Arguments, results: Results, held: Sequence[Held], opset: int,
          names: Mapping[int, str], optimize: bool = False) -> Any:
    """The model of a function, as onnx has it; with `optimize`, its batch norms in what is before
    them."""
    wanted = _wanted(ways, results)
    given = [*next(iter(ways.runs.values()))[0].inputs, *(h.node for h in held)]
    others = [n for n in _inputs(ways, wanted) if n not in given]
    graph = Graph((*given, *others), tuple(wanted))
    outside = ways.names.outside
    ready = _prepared(graph, opset)
    if optimize:
        fixed = [m for n, m in zip(graph.inputs, ready.inputs) if n in outside and n not in given]
        ready = run_passes(ready, [lambda g: fold_channels(g, fixed)])
    now = dict(zip((*graph.inputs, *graph.outputs), (*ready.inputs, *ready.outputs)))
    constants = {now[n]: Named(names.get(id(outside[n].array)) or dotted(outside[n].path),
                               host(outside[n].array)) for n in others if n in outside}
    numbers = {now[n]: ways.names.numbers[n] for n in others if n in ways.names.numbers}
    writer = Writer(opset)
    titles = [*call.names, *(h.name for h in held)]
    for name in (*titles, *results.names):
        writer.unique(name)
    inputs = {now[n]: name for n, name in zip(given, titles)}
    converter = Converter(ready, inputs, constants, writer, numbers, now)
    made = Flow(converter, results.nodes).write(ways.root)
    _name_outputs(writer, [r.value for r in made], results.names)
    for h in held:  # what a call begins with that gives nothing else
        writer.start(h.name, host(ways.names.outside[h.node].array))
    return _assembled(writer, inputs, zip(results.names, made))


def _wanted(ways: Explored, results: Results) -> list[Node]:
    """The nodes that any place of the tree asks for."""
    found: dict[Node, None] = {}
    for at in walk(ways.root):
        found.update(dict.fromkeys(wanted_of(at, results.nodes)))
        if isinstance(at, (LoopHeader, IfMerge)):
            found.update(dict.fromkeys(at.entry.phis if isinstance(at, LoopHeader) else at.phis))
    for formula in ways.names.numbers.values():
        found.update(dict.fromkeys(elements([formula])))
    return list(found)


def _inputs(ways: Explored, wanted: Sequence[Node]) -> list[Node]:
    """What these read that no op computes, and what the numbers among that are elements of."""
    found: dict[Node, None] = {}
    stack, seen = list(wanted), set(wanted)
    while stack:
        node = stack.pop()
        if node.op == "input":
            found[node] = None
        read = [*node.inputs, *elements(f for f in [ways.names.numbers.get(node)] if f)]
        stack += [n for n in read if n not in seen]
        seen.update(read)
    return list(found)


def _prepared(graph: Graph, opset: int) -> Graph:
    """The graph with composites opened that have no operator, and simplified."""
    def without_operator(g: Graph) -> Graph:
        return decompose_composites(g, lambda node: not is_written(node, opset))

    return run_passes(graph, [without_operator, simplify])


def _name_outputs(writer: Writer, values: Sequence[Value], names: Sequence[str]) -> None:
    """Gives the outputs their names: those of nodes are renamed, anything else is copied."""
    made = {out for node in writer.nodes for out in node.output}
    renamed: dict[str, str] = {}
    for value, name in zip(values, names):
        if value.name in made and value.name not in renamed:
            renamed[value.name] = name
        else:
            writer.op("Identity", [value], value.dtype, name=name)
    for node in _all_nodes(writer.nodes):
        for places in (node.input, node.output):
            for i, old in enumerate(places):
                places[i] = renamed.get(old, old)


def _all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """These, and the nodes of the graphs inside of them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _all_nodes(attribute.g.node)


def _assembled(writer: Writer, inputs: Mapping[Node, str], outputs: Iterable[tuple[str, Result]]
               ) -> Any:
    from onnx import helper

    given = [Result(Value(name, n.type.dtype), n.type.shape) for n, name in inputs.items()]
    read = {name for node in _all_nodes(writer.nodes) for name in node.input} | {*inputs.values()}
    graph = helper.make_graph(
        writer.nodes, "main", [described(r.value.name, r) for r in given],
        [described(name, r) for name, r in outputs],
        [constant for constant in writer.initializers if constant.name in read])
    opset = helper.make_opsetid("", writer.opset)
    model = helper.make_model(
        graph, opset_imports=[opset], producer_name="fusewire", producer_version=version(),
        ir_version=max(8, helper.find_min_ir_version_for([opset])))
    return model


def describe(model: Any, metadata: Mapping[str, str], conditions: Sequence[SizeCondition]) -> None:
    """Writes down in the model what the user says of it, and for which sizes it holds."""
    from onnx import helper

    limits = {"valid for": ", ".join(map(str, conditions))} if conditions else {}
    helper.set_model_props(model, {**metadata, **limits})


@functools.cache
def version() -> str:
    """The version of fusewire that is installed; empty where none is."""
    from importlib import metadata  # takes as long as all of this package

    try:
        return metadata.version("fusewire")
    except metadata.PackageNotFoundError:
        return ""
