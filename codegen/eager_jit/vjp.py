"""Compiles the vjp of one op on large arrays to one native program, however many ops its rule has.

The rule is traced once on nodes; the values that it reads of the gradient, the result and the
inputs are the inputs of a graph. If the rule is elementwise, code for a block of elements serves
any size. Otherwise there is code for one shape, as long as the rule only combines elements in place
and along axes. All other rules run op by op.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.call_key import call_key
from ...capture.graph.graph import Graph, Node, Nodes, param_key, topological
from ...capture.graph.graph_builder import GraphBuilder, as_tensor, building
from ...capture.passes.decompose import decompose
from ...capture.runtime.specialization_cache import Specializations
from ...eager.arrays.dtypes import is_small
from ...eager.arrays.shapes import TensorType
from ...eager.autograd.engine import sum_to
from ...eager.core import dispatch
from ...eager.core.op import OPS, Op
from ...eager.core.tape import Entry, no_grad
from ...eager.errors import FusewireError
from ...eager.fork_safety import held_while_forking
from ...eager.settings import settings
from ..program.native_call import ProgramCall
from .op_call import Call, OpCall, Run, is_broadcast, program_for, run_of_graph
from .op_compiler import block_of, compile_block

_READ_THROUGH_VIEWS = ("reshape", "broadcast_to", "expand_dims",
                       "squeeze")  # views that computing reads through
_MISSING = object()

Values = Sequence[Any]  # the gradient, the result and the inputs: arrays and numbers


class VjpRule(NamedTuple):
    """A traced rule: its graph, the values that it reads, and the output of each gradient. A
    gradient that is one of the values itself counts from -1 down; None if there is none."""

    graph: Graph
    reads: tuple[int, ...]
    outputs: tuple[int | None, ...]


class VjpPlan(NamedTuple):
    """A compiled rule, and the output of each gradient."""

    run: Call
    outputs: tuple[int | None, ...]


_LOCK = held_while_forking(threading.RLock())
_PLANS: Specializations[VjpPlan | None] = Specializations("eager vjps")
_ELEMENTS: Specializations[Any] = Specializations("elementwise vjp programs", _LOCK)
_SHAPED: Specializations[Any] = Specializations("vjp programs by shape", _LOCK)


def run(entry: Entry, needs: tuple[bool, ...], g: Any) -> list[Any] | None:
    """The gradients of an entry's inputs, None where not needed; None if the rule's ops are as
    good."""
    values = (g, entry.out, *entry.arrays)
    op, params = entry.op, entry.params
    if not settings.compile or op.kind in ("contract", "scatter_rows", "opaque", "view"):
        return None
    try:
        key = call_key((op, needs), values, params, _value_key)
    except TypeError:
        return None
    plan = _PLANS.find(key, _MISSING)
    if plan is _MISSING:
        plan = _make_plan(op, params, needs, values, key)
    return None if plan is None else _run_plan(plan, values)


def _value_key(x: Any) -> tuple[Any, ...]:
    """The key of a value. Raises TypeError for what stands for an array."""
    if type(x) is np.ndarray:
        return x.shape, x.dtype, not x.flags.c_contiguous and is_broadcast(x)
    if isinstance(x, (bool, int, float, complex)):
        return param_key(x)
    raise TypeError(type(x))


def _run_plan(plan: VjpPlan, values: Values) -> list[Any] | None:
    gradients = plan.run(values)
    if gradients is None:
        return None
    return [None if i is None else gradients[i] if i >= 0 else values[-1 - i] for i in plan.outputs]


# ---- how a rule can run
def _make_plan(op: Op, params: dict[str, Any], needs: tuple[bool, ...], values: Values, key: Any
               ) -> VjpPlan | None:
    """The plan for the rule of an op on values of these types; None if it is not compiled now."""
    broadcast = tuple([isinstance(x, np.ndarray) and is_broadcast(x) for x in values])
    types = [TensorType(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in values]
    rule = None
    if OPS.get(op.name) is op and not any(isinstance(t, TensorType) and is_small(t.dtype)
                                          for t in types):
        rule = _traced(op, params, needs, types, broadcast)
    work = 0 if rule is None else _passed_elements(rule, types)
    if rule is None or work < dispatch.LARGE:
        return _PLANS.add(key, None)
    compiled = _compile_by_block(op, params, needs, types, broadcast, work) \
        or _compile_by_shape(rule, key, work)
    if compiled is None:
        return None if key not in _SHAPED else _PLANS.add(key, None)
    run, rule = compiled
    spread = [i for i in rule.reads if broadcast[i]]
    call = OpCall(run, rule.reads, spread, max_copied_elements=0)
    return _PLANS.add(key, VjpPlan(call.run, rule.outputs))


def _traced(op: Op, params: dict[str, Any], needs: tuple[bool, ...], types: Sequence[Any],
            broadcast: tuple[bool, ...]) -> VjpRule | None:
    """The rule as a graph with composites decomposed; None if it does more than compute."""
    nodes = Nodes()
    inputs: dict[Node, int] = {}
    operands = []
    for i, t in enumerate(types):
        if isinstance(t, TensorType):
            node = nodes.input(f"x{i}", TensorType((), t.dtype) if broadcast[i] else t)
            inputs[node] = i
            t = as_tensor(nodes.apply("broadcast_to", (node,), {"shape": t.shape})
                          if broadcast[i] else node)
        operands.append(t)
    try:
        with building(GraphBuilder(nodes)), no_grad():
            gradients: Any = op.vjp(needs, *operands, **params)  # type: ignore[misc]
            gradients = [None if gx is None or not need else sum_to(gx, t.shape)._data.node
                         for gx, need, t in zip(gradients, needs, types[2:])]
    except FusewireError:
        return None
    graph = decompose(Graph(tuple(inputs), tuple([n for n in gradients if n is not None])))
    return _rule(graph, [n is not None for n in gradients], {n: inputs[n] for n in inputs})


def _rule(graph: Graph, gives: list[bool], inputs: dict[Node, int]) -> VjpRule | None:
    """The rule of a decomposed graph; its outputs are only the computed ones."""
    numbers = {n.params["name"]: i for n, i in inputs.items()}
    computed = tuple(dict.fromkeys([n for n in graph.outputs if n.op != "input"]))
    reached = topological(computed)
    if not all(map(_only_computes, reached)):
        return None
    read = tuple([n for n in graph.inputs if n in set(reached)])
    output_of: dict[Node, int] = {n: i for i, n in enumerate(computed)}
    output_of |= {n: -1 - numbers[n.params["name"]] for n in graph.outputs if n.op == "input"}
    outputs = iter(graph.outputs)
    return VjpRule(Graph(read, computed), tuple([numbers[n.params["name"]] for n in read]),
                   tuple([output_of[next(outputs)] if is_given else None for is_given in gives]))


def _only_computes(node: Node) -> bool:
    if node.kind == "view":
        return node.op in _READ_THROUGH_VIEWS
    return node.kind in ("input", "const", "pointwise", "reduce") \
        or (node.kind == "create" and not OPS[node.op].draws)


def _passed_elements(rule: VjpRule, types: Sequence[Any]) -> int:
    """The elements that NumPy passes over for a rule, each in about a nanosecond."""
    ops = [OPS[n.op] for n in topological(rule.graph.outputs)
           if n.kind in ("pointwise", "reduce") and n.type.shape]
    size = max([t.size for t in types if isinstance(t, TensorType)])
    return int(sum([op.passes for op in ops]) * size)


def _compile_by_block(op: Op, params: dict[str, Any], needs: tuple[bool, ...], types: Sequence[Any],
                      broadcast: tuple[bool, ...], work: int) -> tuple[Run, VjpRule] | None:
    """Code for a block of elements, if all values have one shape or one element."""
    shape = types[0].shape
    if op.kind != "pointwise" or not all(t.shape == shape for t in types
                                         if isinstance(t, TensorType)):
        return None
    block = block_of(types[0].size, 1)
    flat = [TensorType((block,), t.dtype) if isinstance(t, TensorType) else t for t in types]
    rule = _traced(op, params, needs, flat, broadcast)
    if rule is None:
        return None
    outputs = [TensorType(shape, n.type.dtype) for n in rule.graph.outputs]
    strides = [0 if broadcast[i] else types[i].dtype.itemsize for i in rule.reads]
    strides += [t.dtype.itemsize for t in outputs]
    key = call_key((op, needs, block, broadcast), types, params,
                   lambda t: (t.dtype,) if isinstance(t, TensorType) else param_key(t))
    program = program_for(_ELEMENTS, key, op.name, lambda: compile_block(
        rule.graph, block, strides, f"{op.name}_back"), work)
    if program is None:
        return None
    return ProgramCall(program, len(rule.reads), outputs, rows=types[0].size), rule


def _compile_by_shape(rule: VjpRule, key: Any, work: int) -> tuple[Run, VjpRule] | None:
    """Code for exactly these shapes."""
    run = program_for(_SHAPED, key, key[0][0].name, lambda: run_of_graph(rule.graph), work)
    return None if run is None else (run, rule)
