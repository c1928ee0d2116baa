"""Defines the codecs of saved programs: plain values, paths, guards, recipes and blocks."""

from __future__ import annotations

import builtins
import types
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

from ...capture.cfg.ir import (
    BackEdge,
    Branch,
    Exit,
    IfMerge,
    LoopBackward,
    LoopHeader,
    SizeDefinition,
    Yield,
)
from ...capture.cfg.trace_exit import TraceExit
from ...capture.control_flow.data_dependent_sizes import DataDependentSize
from ...capture.control_flow.loop_elements import LoopEntry, LoopRepeat
from ...capture.control_flow.loop_gradients import IterationVjp, LoopBackwardEvent
from ...capture.control_flow.merges import Merge
from ...capture.graph.graph import Graph, Node, Nodes, Params, topological
from ...capture.guards.guards import Guard
from ...capture.heap import mutations, object_recipes
from ...capture.heap.access_path import Key, Path, steps
from ...capture.scalars.scalar_expr import ScalarConstant, ScalarExpr
from ...capture.segments.segment import Inputs, Segment
from ...capture.sizes.size_condition import SizeCondition
from ...capture.sizes.symbolic_dim import Dim
from ...capture.trace.dynamic_inputs import DynamicInputs
from ...capture.trace.output_spec import OutputTensor, TraceOutputs
from ...capture.trace.side_effects import SideEffect
from ...codegen.cache.json_codec import DATA, Codec, Decoder, Encoder, Unsaved, filled, record
from ...codegen.cache.program_entry import SIZES
from ...eager.core.op import OPS
from ...eager.core.tape import Entry
from ...eager.core.tape import Leaf as TapeLeaf
from ...eager.core.tensor import Tensor
from ...eager.nn.base.parameter import Buffer, Parameter
from ...eager.ops.random.generator import default_generator

TYPES: dict[str, type] = {cls.__qualname__: cls for cls in (
    Tensor, Parameter, Buffer, Counter, OrderedDict, defaultdict, deque, type(None), type(...),
    *[v for v in vars(builtins).values() if isinstance(v, type) and not issubclass(
        v, BaseException)])} | {"tape.Leaf": TapeLeaf}
"""The classes that a file can name, by name."""

_NAMES = {cls: name for name, cls in TYPES.items()}


# ---- plain values
def _write_type(x: type, to: Encoder) -> list[Any]:
    if x not in _NAMES:
        raise Unsaved(f"the class {x.__qualname__}")
    return [_NAMES[x]]


_TYPE = Codec("class", _write_type, lambda parts, of: TYPES[parts[0]])
_PLAIN: dict[type, Codec] = {
    **DATA,
    type: _TYPE, type(Tensor): _TYPE, Params: Codec(
        "params", lambda x, to: [[k, to.value(v)] for k, v in x.items()],
        lambda parts, of: Params({k: of.value(v) for k, v in parts})),
    complex: Codec("complex", lambda x, to: [x.real, x.imag], lambda parts, of: complex(*parts)),
    bytes: Codec("bytes", lambda x, to: [x.hex()], lambda parts, of: bytes.fromhex(parts[0])),
    bytearray: Codec("bytearray", lambda x, to: [x.hex()],
                     lambda parts, of: bytearray.fromhex(parts[0])),
    type(...): Codec("ellipsis", lambda x, to: [], lambda parts, of: ...),
    slice: Codec("slice", lambda x, to: list(map(to.value, (x.start, x.stop, x.step))),
                 lambda parts, of: slice(*map(of.value, parts))),
    range: Codec("range", lambda x, to: [x.start, x.stop, x.step],
                 lambda parts, of: range(*parts)),
    types.MappingProxyType: Codec("mapping", lambda x, to: [to.value(dict(x))],
                                  lambda parts, of: of.value(parts[0])),
}


# ---- paths, numbers, sizes
def _write_path(path: Path, to: Encoder) -> list[Any]:
    """The root of a path, and its steps."""
    root, *rest = steps(to.about.translated(path))
    return [root.kind, [[step.kind, to.value(_step_key(step)), step.name] for step in rest]]


def _step_key(step: Path) -> Any:
    return step.key.value if step.kind == "item" else step.key


def _read_path(parts: list[Any], of: Decoder) -> Path:
    root, rest = parts
    path = Path(root, id(default_generator) if root == "object" else None)
    for kind, key, name in rest:
        value = of.value(key)
        if kind == "attr" and not str(value).isidentifier():
            raise ValueError(f"{value!r} cannot be the name of an attribute")
        path = Path(kind, Key(value) if kind == "item" else value, path, name)
    return path


def _write_formula(x: ScalarExpr, to: Encoder) -> list[Any]:
    for part in x.parts[:-1]:  # operands come first, so that `value` does not recurse deeply
        to.value(part)
    return [x.op, *map(to.value, x.args)]


_VALUES: dict[type, Codec] = {
    Path: Codec("path", _write_path, _read_path, lambda path: path),
    ScalarExpr: Codec("formula", _write_formula, lambda parts, of: ScalarExpr(
        parts[0], tuple(map(of.value, parts[1:]))), id),
    ScalarConstant: Codec("constant", lambda x, to: [to.value(x.value)],
                          lambda parts, of: ScalarConstant(of.value(parts[0]))),
    **SIZES,
    Dim: Codec("dim", lambda x, to: [to.value(x.expr)],
               lambda parts, of: of.about.names.sizes.make(of.value(parts[0]))),
    **{cls: record(cls) for cls in (SizeCondition, DynamicInputs)},
}


# ---- nodes: the tree refers to nodes by name, a graph contains them
def _write_node(x: Node, to: Encoder) -> list[Any]:
    if x not in to.about.names.data_dependent:
        return ["input", [], to.value(Params({"name": x.params.get("name", x.op)})),
                to.value(x.type)]
    return [x.op, [to.value(i) for i in x.inputs], to.value(x.params), to.value(x.type)]


def _read_node(parts: list[Any], of: Decoder) -> Node:
    op, inputs, params, kind = parts
    return Node(op, tuple(map(of.value, inputs)), of.value(params), of.value(kind))


def _write_graph(x: Graph, to: Encoder) -> list[Any]:
    nodes = topological((*x.inputs, *x.outputs))
    number = {n: i for i, n in enumerate(nodes)}
    rows = [[n.op, [number[i] for i in n.inputs], to.value(Params(n.params)), to.value(n.type),
             n.site] for n in nodes]
    ends = [[number[n] for n in of] for of in (x.inputs, x.outputs)]
    return [rows, *ends, to.value(dict(x.donated)), sorted(x.persistent)]


def _read_graph(parts: list[Any], of: Decoder) -> Graph:
    rows, inputs, outputs, donated, persistent = parts
    table, nodes = Nodes(), list[Node]()
    for op, below, params, kind, site in rows:
        nodes.append(table.make(op, [nodes[i] for i in below], of.value(params), of.value(kind),
                                site))
    return Graph(tuple([nodes[i] for i in inputs]), tuple([nodes[i] for i in outputs]),
                 of.value(donated), frozenset(persistent))


# ---- guards, results and side effects
def _write_guard(x: Guard, to: Encoder) -> list[Any]:
    try:
        return [to.value(x.path), x.condition, to.value(x.constants), x.message, x.category]
    except Unsaved as error:
        raise Unsaved(f"{x.message}, and {error.message} cannot be rebuilt without its source",
                      "pass the function tensors, numbers, strings, None, and tuples, lists and "
                      "dicts of these") from None


def _write_entry(x: Entry, to: Encoder) -> list[Any]:
    if x.arrays is not None:
        raise Unsaved("a tensor that was computed outside of the function")
    return [x.op.name]


def _read_entry(parts: list[Any], of: Decoder) -> Entry:
    entry = Entry(OPS[parts[0]], {}, (), (), None)
    entry.arrays = None  # type: ignore[assignment]
    return entry


def _write_object_at_path(x: object_recipes.ObjectAtPath, to: Encoder) -> list[Any]:
    to.about.check_returned(x.path)
    return [to.value(x.path)]


def _write_input_or(x: object_recipes.InputOr, to: Encoder) -> list[Any]:
    for path in x.inputs:
        to.about.check_returned(path)
    return [to.value(x.recipe), to.value(x.number), to.value(x.inputs)]


_TRACES: dict[type, Codec] = {
    Guard: Codec("guard", _write_guard, lambda parts, of: Guard(*map(of.value, parts))),
    Entry: Codec("given up", _write_entry, _read_entry, id),
    **{cls: record(cls) for cls in (
        SideEffect, TraceOutputs, OutputTensor, Inputs, LoopEntry, LoopRepeat, Merge,
        DataDependentSize, LoopBackwardEvent, IterationVjp, mutations.SetArray,
        mutations.SetGradient, mutations.SetEdge, mutations.MakeLeaf, mutations.SetItem,
        mutations.DeleteItem, mutations.SetAttribute, mutations.DeleteAttribute, mutations.SetCell,
        mutations.Extend, mutations.AddAll, mutations.ReplaceAll,
        object_recipes.SameObject, object_recipes.PassedTensor, object_recipes.WithGradient,
        object_recipes.GradEdgeOf, object_recipes.NumberOf, object_recipes.BuiltContainer,
        object_recipes.View)},
    object_recipes.InputOr: Codec(
        "InputOr", _write_input_or,
        lambda parts, of: object_recipes.InputOr(*map(of.value, parts))),
    object_recipes.ObjectAtPath: Codec(
        "At", _write_object_at_path,
        lambda parts, of: object_recipes.ObjectAtPath(of.value(parts[0]))),
    object_recipes.RebuiltObject: Codec("Made", record(object_recipes.RebuiltObject).write,
                                        record(object_recipes.RebuiltObject).read, id),
    Graph: Codec("graph", _write_graph, _read_graph),
    Node: Codec("node", _write_node, _read_node, id),
}


# ---- the tree
def _write_trace_exit(x: TraceExit, to: Encoder) -> list[Any]:
    if x.backward is not None:
        raise Unsaved("its results have gradients",
                      "call it under fw.no_grad(), or return x.detach()")
    outputs = TraceOutputs(x.outputs, x.formulas, x.tensors, {})
    parts = (to.about.live(x.exit_guards), x.effects, x.result, outputs, x.segment)
    return [to.value(part) for part in parts]


def _fill_trace_exit(target: TraceExit, parts: list[Any], of: Decoder) -> None:
    guards, effects, result, outputs, segment = map(of.value, parts)
    TraceExit.__init__(target, guards, effects, result, outputs)

    def finish() -> None:
        target.set_guards(guards, of.about.source())
        target.set_segment(segment, of.about.source())

    of.later.append(finish)


def _write_segment(x: Segment, to: Encoder) -> list[Any]:
    names = to.about.names
    numbers = [names.numbers[n] for n in x.inputs.numbers]
    parts = (x.outputs, x.inputs, x.paths, numbers, x.compile())
    return [to.value(part) for part in parts]


def _fill_segment(target: Segment, parts: list[Any], of: Decoder) -> None:
    outputs, inputs, paths, numbers, code = map(of.value, parts)
    names = of.about.names
    names.paths.update(zip(inputs.tensors, paths, strict=True))
    names.numbers.update(zip(inputs.numbers, numbers, strict=True))
    Segment.__init__(target, names, of.about.fn, outputs, inputs, Graph((), ()), _no_backend)
    target.program = code


def _no_backend(graph: Graph) -> Any:
    raise AssertionError("a saved segment has code")


def _write_exit_block(x: Exit, to: Encoder) -> list[Any]:
    kept = [trace_exit for trace_exit in x.exits if to.about.keeps(trace_exit)]
    return [to.value(kept), to.value(x.segments)]


def _fill_exit_block(target: Exit, parts: list[Any], of: Decoder) -> None:
    target.exits, target.segments = map(of.value, parts)


def _new(cls: type) -> Any:
    return lambda parts, of: object.__new__(cls)


_TREE: dict[type, Codec] = {
    TraceExit: Codec("exit", _write_trace_exit, _new(TraceExit), id, _fill_trace_exit),
    Segment: Codec("segment", _write_segment, _new(Segment), id, _fill_segment),
    Exit: Codec("ends", _write_exit_block, _new(Exit), id, _fill_exit_block),
    Branch: filled(Branch, ("subject", "kind", "site", "outcomes", "segments")),
    SizeDefinition: filled(SizeDefinition, ("element", "site", "body", "segments")),
    LoopHeader: filled(LoopHeader, ("element", "site", "body", "segments")),
    BackEdge: filled(BackEdge, ("element", "site", "target", "vjps", "segments")),
    IfMerge: filled(IfMerge, ("site", "body", "merge", "continuation", "segments"), element=None),
    Yield: filled(Yield, ("element", "site", "target", "segments")),
    LoopBackward: filled(LoopBackward, ("element", "site", "body", "segments")),
}

KINDS: dict[Any, Codec] = {**_PLAIN, **_VALUES, **_TRACES, **_TREE}
