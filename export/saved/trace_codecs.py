"""The kinds of objects that recorded programs are made of."""

from __future__ import annotations

import builtins
import types
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

from ...capture.control_flow.data_dependent_sizes import DataDependentSize
from ...capture.control_flow.loop_detection import LoopEntry, LoopRepeat
from ...capture.control_flow.loop_gradients import IterationVjp, LoopBackwardEvent
from ...capture.graph.graph import Graph, Node, Nodes, Params, topological
from ...capture.guards.guards import Guard
from ...capture.heap import mutations, object_recipes
from ...capture.heap.access_path import Key, Path, steps
from ...capture.program.cfg import BackEdge, Branch, Exit, Loop, LoopBackward, SizeBinding
from ...capture.program.trace_exit import TraceExit
from ...capture.scalars.scalar_expr import Constant, ScalarExpr
from ...capture.segments.segment import Inputs, Segment
from ...capture.sizes.size_expr import Expr, Quotient, Symbol
from ...capture.sizes.symbolic_dim import Condition, Dim
from ...capture.trace.dynamic_inputs import DynamicInputs
from ...capture.trace.output_spec import TraceOutputs
from ...capture.trace.side_effects import SideEffect
from ...codegen.cache.codec import DATA, Kind, Reading, Unsaved, Writing, filled, record
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
"""The classes that a file can name."""

_NAMES = {cls: name for name, cls in TYPES.items()}


# ---- plain values
def _write_type(x: type, to: Writing) -> list[Any]:
    if x not in _NAMES:
        raise Unsaved(f"the class {x.__qualname__}")
    return [_NAMES[x]]


_TYPE = Kind("class", _write_type, lambda parts, of: TYPES[parts[0]])
_PLAIN: dict[type, Kind] = {
    **DATA,
    type: _TYPE, type(Tensor): _TYPE, Params: Kind(
        "params", lambda x, to: [[k, to.value(v)] for k, v in x.items()],
        lambda parts, of: Params({k: of.value(v) for k, v in parts})),
    complex: Kind("complex", lambda x, to: [x.real, x.imag], lambda parts, of: complex(*parts)),
    bytes: Kind("bytes", lambda x, to: [x.hex()], lambda parts, of: bytes.fromhex(parts[0])),
    bytearray: Kind("bytearray", lambda x, to: [x.hex()],
                    lambda parts, of: bytearray.fromhex(parts[0])),
    type(...): Kind("ellipsis", lambda x, to: [], lambda parts, of: ...),
    slice: Kind("slice", lambda x, to: list(map(to.value, (x.start, x.stop, x.step))),
                lambda parts, of: slice(*map(of.value, parts))),
    range: Kind("range", lambda x, to: [x.start, x.stop, x.step],
                lambda parts, of: range(*parts)),
    types.MappingProxyType: Kind("mapping", lambda x, to: [to.value(dict(x))],
                                 lambda parts, of: of.value(parts[0])),
}


# ---- paths, numbers, sizes
def _write_path(path: Path, to: Writing) -> list[Any]:
    """Its root, and the steps from there."""
    root, *rest = steps(to.about.translated(path))
    return [root.kind, [[step.kind, to.value(_key(step)), step.name] for step in rest]]


def _key(step: Path) -> Any:
    return step.key.value if step.kind == "item" else step.key


def _read_path(parts: list[Any], of: Reading) -> Path:
    root, rest = parts
    path = Path(root, id(default_generator) if root == "object" else None)
    for kind, key, name in rest:
        made = of.value(key)
        if kind == "attr" and not str(made).isidentifier():
            raise ValueError(f"{made!r} is no name of an attribute")
        path = Path(kind, Key(made) if kind == "item" else made, path, name)
    return path


def _write_formula(x: ScalarExpr, to: Writing) -> list[Any]:
    for part in x.parts[:-1]:  # each after what it needs: nothing calls itself far
        to.value(part)
    return [x.op, *map(to.value, x.args)]


_VALUES: dict[type, Kind] = {
    Path: Kind("path", _write_path, _read_path, lambda path: path),
    ScalarExpr: Kind("formula", _write_formula, lambda parts, of: ScalarExpr(
        parts[0], tuple(map(of.value, parts[1:]))), id),
    Constant: Kind("constant", lambda x, to: [to.value(x.value)],
                   lambda parts, of: Constant(of.value(parts[0]))),
    Expr: Kind("expr", lambda x, to: [to.value(x.terms)],
               lambda parts, of: Expr(dict(of.value(parts[0])))),
    Dim: Kind("dim", lambda x, to: [to.value(x.expr)],
              lambda parts, of: of.about.names.sizes.make(of.value(parts[0]))),
    **{cls: record(cls) for cls in (Symbol, Quotient, Condition, DynamicInputs)},
}


# ---- nodes: those of the tree are handles, those of a graph are whole
def _write_node(x: Node, to: Writing) -> list[Any]:
    if x not in to.about.names.data_dependent:
        return ["input", [], to.value(Params({"name": x.params.get("name", x.op)})),
                to.value(x.type)]
    return [x.op, [to.value(i) for i in x.inputs], to.value(x.params), to.value(x.type)]


def _read_node(parts: list[Any], of: Reading) -> Node:
    op, inputs, params, kind = parts
    return Node(op, tuple(map(of.value, inputs)), of.value(params), of.value(kind))


def _write_graph(x: Graph, to: Writing) -> list[Any]:
    order = topological((*x.inputs, *x.outputs))
    number = {n: i for i, n in enumerate(order)}
    rows = [[n.op, [number[i] for i in n.inputs], to.value(Params(n.params)), to.value(n.type),
             n.site] for n in order]
    ends = [[number[n] for n in of] for of in (x.inputs, x.outputs)]
    return [rows, *ends, to.value(dict(x.donated)), sorted(x.kept)]


def _read_graph(parts: list[Any], of: Reading) -> Graph:
    rows, inputs, outputs, donated, kept = parts
    made, nodes = Nodes(), list[Node]()
    for op, below, params, kind, site in rows:
        nodes.append(made.make(op, [nodes[i] for i in below], of.value(params), of.value(kind),
                               site))
    return Graph(tuple([nodes[i] for i in inputs]), tuple([nodes[i] for i in outputs]),
                 of.value(donated), frozenset(kept))


# ---- guards, results and changes
def _write_guard(x: Guard, to: Writing) -> list[Any]:
    try:
        return [to.value(x.path), x.condition, to.value(x.constants), x.message, x.category]
    except Unsaved as error:
        raise Unsaved(f"{x.message}, and {error.message} cannot be made again without its source",
                      "give the function tensors, numbers, texts, None, and tuples, lists and "
                      "dicts of these") from None


def _write_entry(x: Entry, to: Writing) -> list[Any]:
    if x.arrays is not None:
        raise Unsaved("a tensor that was computed outside of the function")
    return [x.op.name]


def _read_entry(parts: list[Any], of: Reading) -> Entry:
    made = Entry(OPS[parts[0]], {}, (), (), None)
    made.arrays = None  # type: ignore[assignment]
    return made


def _write_at(x: object_recipes.ObjectAtPath, to: Writing) -> list[Any]:
    to.about.hands_out(x.path)
    return [to.value(x.path)]


_WAYS: dict[type, Kind] = {
    Guard: Kind("guard", _write_guard, lambda parts, of: Guard(*map(of.value, parts))),
    Entry: Kind("given up", _write_entry, _read_entry, id),
    **{cls: record(cls) for cls in (
        SideEffect, TraceOutputs, Inputs, LoopEntry, LoopRepeat, DataDependentSize,
                                    LoopBackwardEvent,
                                    IterationVjp, mutations.SetArray,
        mutations.SetGradient, mutations.SetEdge, mutations.MakeLeaf, mutations.SetItem,
        mutations.DeleteItem, mutations.SetAttribute, mutations.DeleteAttribute, mutations.SetCell,
        mutations.Extend, mutations.AddAll, mutations.ReplaceAll, object_recipes.SameObject,
                                    object_recipes.PassedTensor,
        object_recipes.WithGradient, object_recipes.GradEdgeOf, object_recipes.NumberOf,
                                    object_recipes.BuiltContainer)},
    object_recipes.ObjectAtPath: Kind("At", _write_at, lambda parts,
                                      of: object_recipes.ObjectAtPath(of.value(parts[0]))),
    object_recipes.RebuiltObject: Kind("Made", record(object_recipes.RebuiltObject).write,
                                       record(object_recipes.RebuiltObject).read, id),
    Graph: Kind("graph", _write_graph, _read_graph),
    Node: Kind("node", _write_node, _read_node, id),
}


# ---- the tree
def _write_leaf(x: TraceExit, to: Writing) -> list[Any]:
    if x.way is not None:
        raise Unsaved("gradients go back from the result",
                      "record it under fw.no_grad(), or return x.detach()")
    leaving = TraceOutputs(x.outputs, x.formulas, x.tensors, {})
    parts = (to.about.live(x.own), x.effects, x.result, leaving, x.stage)
    return [to.value(part) for part in parts]


def _fill_leaf(made: TraceExit, parts: list[Any], of: Reading) -> None:
    own, effects, result, leaving, stage = map(of.value, parts)
    TraceExit.__init__(made, own, effects, result, leaving)

    def finish() -> None:
        made.depends_on(own, of.about.source())
        made.computed_by(stage, of.about.source())

    of.later.append(finish)


def _write_stage(x: Segment, to: Writing) -> list[Any]:
    names = to.about.names
    numbers = [names.numbers[n] for n in x.inputs.numbers]
    parts = (x.wanted, x.inputs, x.paths, numbers, x.compile())
    return [to.value(part) for part in parts]


def _fill_stage(made: Segment, parts: list[Any], of: Reading) -> None:
    wanted, inputs, paths, numbers, code = map(of.value, parts)
    names = of.about.names
    names.paths.update(zip(inputs.tensors, paths, strict=True))
    names.numbers.update(zip(inputs.numbers, numbers, strict=True))
    Segment.__init__(made, names, of.about.fn, wanted, inputs, Graph((), ()), _no_backend)
    made.program = code


def _no_backend(graph: Graph) -> Any:
    raise AssertionError("a saved stage has its code")


def _write_ends(x: Exit, to: Writing) -> list[Any]:
    return [to.value([leaf for leaf in x.leaves if to.about.keeps(leaf)]), to.value(x.stages)]


def _fill_ends(made: Exit, parts: list[Any], of: Reading) -> None:
    made.leaves, made.stages = map(of.value, parts)


def _new(cls: type) -> Any:
    return lambda parts, of: object.__new__(cls)


_TREE: dict[type, Kind] = {
    TraceExit: Kind("leaf", _write_leaf, _new(TraceExit), id, _fill_leaf),
    Segment: Kind("stage", _write_stage, _new(Segment), id, _fill_stage),
    Exit: Kind("ends", _write_ends, _new(Exit), id, _fill_ends),
    Branch: filled(Branch, ("subject", "kind", "site", "outcomes", "stages")),
    SizeBinding: filled(SizeBinding, ("element", "site", "body", "stages")),
    Loop: filled(Loop, ("values", "formulas", "site", "enter", "body", "stages"), turns=0),
    BackEdge: filled(BackEdge, ("values", "formulas", "site", "jump", "loop", "ways", "stages")),
    LoopBackward: filled(LoopBackward, ("element", "site", "body", "stages")),
}

KINDS: dict[Any, Kind] = {**_PLAIN, **_VALUES, **_WAYS, **_TREE}
