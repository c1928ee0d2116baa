"""Writes If, Loop and Scan as Python control flow, and Constant nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .....eager.errors import ImportModelError
from ..runtime.tensors import dense
from . import attributes

if TYPE_CHECKING:
    from .source import Method, Scope

NodeWriter = Callable[["Method", Any, "list[str]", "dict[str, Any]", "Scope"], None]
NODE_WRITERS: dict[tuple[str, str], NodeWriter] = {}


def node_writer(name: str) -> Callable[[NodeWriter], NodeWriter]:
    """A decorator that registers a function which writes the lines of an operator."""
    def enter(function: NodeWriter) -> NodeWriter:
        NODE_WRITERS["", name] = function
        return function

    return enter


def _graph(node: Any, protos: Mapping[str, Any], name: str) -> Any:
    attribute = protos.get(name)
    if attribute is None or not attribute.HasField("g"):
        raise ImportModelError(f"{node.op_type} has no graph {name!r}")
    return attribute.g


def _need(node: Any, what: str, count: int, least: int, most: int | None = None) -> None:
    if count < least or (most is not None and count > most):
        expected = f"at least {least}" if most is None else \
            f"{least}" if most == least else f"{least} to {most}"
        raise ImportModelError(f"{node.op_type} has {count} {what}; expected {expected}")


def _named(method: Method, node: Any, scope: Scope) -> list[str]:
    """Assigns identifiers to a node's outputs, and returns them."""
    own = [method.fresh(name or "unused") for name in node.output]
    scope.sources |= {name: text for name, text in zip(node.output, own) if name}
    return own


def _together(method: Method, names: Sequence[str], values: Sequence[str]) -> None:
    """A line that assigns all names at once."""
    pairs = [(n, v) for n, v in zip(names, values) if n != v]
    if pairs:
        method.line(f"{', '.join(n for n, _ in pairs)} = {', '.join(v for _, v in pairs)}")


@node_writer("Constant")
def _constant(method: Method, node: Any, inputs: list[str], protos: dict[str, Any], scope: Scope
              ) -> None:
    _need(node, "attributes", len(protos), 1, 1)
    _need(node, "outputs", len(node.output), 1, 1)
    (name, proto), = protos.items()
    if name == "sparse_value":
        array = dense(proto.sparse_tensor, method.owner.meter)
    else:
        array = attributes.value("value", proto)
        kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
                 "value_ints": np.int64, "value_string": object, "value_strings": object}
        if not isinstance(array, np.ndarray):
            array = np.array(array, kinds.get(name))
    method.constant(node.output[0], array, scope)


@node_writer("If")
def _if(method: Method, node: Any, inputs: list[str], protos: dict[str, Any], scope: Scope) -> None:
    _need(node, "inputs", len(inputs), 1, 1)
    own = [method.fresh(name or "unused") for name in node.output]
    for head, name in ((f"if {inputs[0]}:", "then_branch"), ("else:", "else_branch")):
        graph = _graph(node, protos, name)
        _need(node, f"outputs of its {name}", len(graph.output), len(own), len(own))
        with method.block(head):
            _together(method, own, method.body(graph, scope, []))
    scope.sources |= {name: text for name, text in zip(node.output, own) if name}


@node_writer("Loop")
def _loop(method: Method, node: Any, inputs: list[str], protos: dict[str, Any], scope: Scope
          ) -> None:
    graph = _graph(node, protos, "body")
    most, condition, *initial = [*inputs, *["None"] * (2 - len(inputs))]
    initial += ["None"] * (len(graph.input) - 2 - len(initial))
    scans = len(graph.output) - 1 - len(initial)
    _need(node, "carried values", len(initial), len(graph.input) - 2, len(graph.input) - 2)
    _need(node, "outputs", len(node.output), 0, len(initial) + scans)
    _need(node, "scanned outputs", scans, 0)
    counted = most != "None" or _reads(graph, graph.input[0].name)
    iteration, carried = method.fresh("iteration"), [method.fresh(v.name) for v in graph.input[2:]]
    lists = [method.fresh(v.name + "_all") for v in graph.output[1 + len(initial):]]
    endless = condition in ("None", "True") and _returns_condition(graph)
    going = "" if endless else method.fresh("going")
    limit = "" if most == "None" else method.fresh("limit")
    first = [iteration] if counted else []
    _together(method, [*first, *carried, *lists], [*["0"] * counted, *initial, *["[]"] * scans])
    if limit:
        method.line(f"{limit} = op.number({most})")
    if going:
        method.line(f"{going} = {'True' if condition == 'None' else condition}")
    conditions = [f"{iteration} < {limit}"] * bool(limit) + [going] * bool(going)
    with method.block(f"while {' and '.join(conditions) or 'True'}:"):
        method.line(f"op.iteration({len(lists) or ''})")
        more, *rest = method.body(graph, scope, [iteration, going or "True", *carried])
        for name, value in zip(lists, rest[len(carried):]):
            method.line(f"{name}.append({value})")
        names = [*carried, *([going] if going else [])]
        _together(method, names, [*rest[:len(carried)], *([more] if going else [])])
        if counted:
            method.line(f"{iteration} = {iteration} + 1")
    _scanned(method, node, scope, carried, lists, graph.output[1 + len(initial):], [0] * scans)


def _reads(graph: Any, name: str) -> bool:
    """True if a graph, or one of its subgraphs, reads a value."""
    inner = (a.g for n in graph.node for a in n.attribute if a.HasField("g"))
    return any(name in n.input for n in graph.node) or any(v.name == name for v in graph.output) \
        or any(_reads(g, name) for g in inner)


def _returns_condition(graph: Any) -> bool:
    """True if a loop body returns its input condition."""
    if not graph.output or len(graph.input) < 2:
        return False
    names = {graph.input[1].name}
    for node in graph.node:
        if node.op_type == "Identity" and node.input and node.input[0] in names:
            names.update(node.output)
    return graph.output[0].name in names


def _scanned(method: Method, node: Any, scope: Scope, carried: list[str], lists: list[str],
             outputs: Sequence[Any], axes: Sequence[int]) -> None:
    """Writes lines that assign a loop's outputs: the last carried values and the scanned ones."""
    own = _named(method, node, scope)
    _together(method, own, carried)
    for name, scanned, v, axis in zip(own[len(carried):], lists, outputs, axes):
        kind = v.type.tensor_type
        shape = tuple(d.dim_value for d in kind.shape.dim)
        method.line(f"{name} = op.stacked({scanned}, {axis}, {kind.elem_type}, {shape})")


@node_writer("Scan")
def _scan(method: Method, node: Any, inputs: list[str], protos: dict[str, Any], scope: Scope
          ) -> None:
    if method.version("") < 9:
        _scan_of_batches(method, node, inputs, protos, scope)
        return
    graph = _graph(node, protos, "body")
    count = protos["num_scan_inputs"].i if "num_scan_inputs" in protos else 0
    _need(node, "scanned inputs", count, 1, len(inputs))
    states, scanned = inputs[:len(inputs) - count], inputs[len(inputs) - count:]
    scans = len(graph.output) - len(states)
    _need(node, "scanned outputs", scans, 0)
    _need(node, "inputs", len(inputs), len(graph.input), len(graph.input))

    def numbers(name: str, n: int) -> list[int]:
        values = list(protos[name].ints) if name in protos else [0] * n
        _need(node, f"elements of {name}", len(values), n, n)
        return values

    axes, back = numbers("scan_input_axes", count), numbers("scan_input_directions", count)
    out_axes, out_back = numbers("scan_output_axes", scans), numbers("scan_output_directions",
                                                                     scans)
    carried = [method.fresh(v.name) for v in graph.input[:len(states)]]
    lists = [method.fresh(v.name + "_all") for v in graph.output[len(states):]]
    _together(method, [*carried, *lists], [*states, *["[]"] * scans])
    parts = [method.fresh(v.name) for v in graph.input[len(states):]]
    slices = ", ".join(f"op.slices({x}, {axis}, {bool(b)})"
                       for x, axis, b in zip(scanned, axes, back))
    with method.block(f"for {', '.join(parts)}{',' if count == 1 else ''} in zip({slices}):"):
        outputs = method.body(graph, scope, [*carried, *parts])
        for name, value in zip(lists, outputs[len(states):]):
            method.line(f"{name}.append({value})")
        _together(method, carried, outputs[:len(states)])
    for name, backward in zip(lists, out_back):
        if backward:
            method.line(f"{name}.reverse()")
    _scanned(method, node, scope, carried, lists, graph.output[len(states):], out_axes)


def _scan_of_batches(method: Method, node: Any, inputs: list[str], protos: dict[str, Any],
                     scope: Scope) -> None:
    """Scan of version 8, which scans each example of a batch by itself."""
    graph = _graph(node, protos, "body")
    count = protos["num_scan_inputs"].i if "num_scan_inputs" in protos else 0
    lengths, *values = inputs
    _need(node, "scanned inputs", count, 1, len(values))
    if lengths != "None" or any(b for b in protos["directions"].ints) if "directions" in protos \
            else lengths != "None":
        raise ImportModelError("Scan of version 8 with lengths or directions is not supported")
    states, scanned = values[:len(values) - count], values[len(values) - count:]
    scans = len(graph.output) - len(states)
    _need(node, "scanned outputs", scans, 0)
    batch = [method.fresh(v.name + "_of_batch") for v in graph.output]
    example = method.fresh("example")
    _together(method, batch, ["[]"] * len(batch))
    with method.block(f"for {example} in range(op.length({scanned[0]})):"):
        carried = [method.fresh(v.name) for v in graph.input[:len(states)]]
        lists = [method.fresh(v.name + "_all") for v in graph.output[len(states):]]
        _together(method, [*carried, *lists],
                  [*(f"{s}[{example}]" for s in states), *["[]"] * scans])
        parts = [method.fresh(v.name) for v in graph.input[len(states):]]
        slices = ", ".join(f"op.slices({x}[{example}], 0, False)" for x in scanned)
        with method.block(f"for {', '.join(parts)}{',' if count == 1 else ''} in zip({slices}):"):
            outputs = method.body(graph, scope, [*carried, *parts])
            for name, value in zip(lists, outputs[len(states):]):
                method.line(f"{name}.append({value})")
            _together(method, carried, outputs[:len(states)])
        for name, value in zip(batch, [*carried, *(f"op.stacked({x}, 0, 1, ())" for x in lists)]):
            method.line(f"{name}.append({value})")
    own = _named(method, node, scope)
    for name, examples in zip(own, batch):
        method.line(f"{name} = op.stacked({examples}, 0, 1, ())")
