"""The way back of one op on large arrays as one native program, however many ops its rule has.

The rule runs once, on nodes; what it needs of the gradient, the result and the inputs are the
inputs of a graph. Where these are the same elements of all of them, code for a block of elements
does for any size; else there is code for one shape, as long as the rule only combines elements in
place and along axes. Everything else goes op by op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Graph, Node, Nodes, param_key, topological
from ...capture.graph.graph_builder import GraphBuilder, as_tensor, building
from ...capture.passes.decompose import decompose
from ...eager.arrays.dtypes import is_small
from ...eager.arrays.shapes import TensorType
from ...eager.autograd.engine import sum_to
from ...eager.core import dispatch
from ...eager.core.op import OPS, Op
from ...eager.core.tape import Entry, no_grad
from ...eager.errors import FusewireError
from ...eager.settings import settings
from ..compile import compile_native
from ..program.executable import Executable
from ..program.native_call import ProgramCall
from .cache import SpecializationCache
from .row_blocks import block_of, built, is_spread

_MOVED = ("reshape", "broadcast_to", "expand_dims", "squeeze")  # views that computing reads through
_KNOWN_MOST = 1 << 12

Values = Sequence[Any]  # the gradient, the result and the inputs: arrays and numbers
Run = Callable[[list[Any]], list[Any] | None]


class VjpRule(NamedTuple):
    """A rule on nodes: its graph, the values that are its inputs, and for each gradient the output
    that it is; a value itself as what is not computed counts from -1 down; or None."""

    graph: Graph
    read: tuple[int, ...]
    gives: tuple[int | None, ...]


class VjpPlan(NamedTuple):
    """A rule that can run: which values it reads, which of these stand everywhere."""

    run: Run
    read: tuple[int, ...]
    spread: tuple[bool, ...]
    gives: tuple[int | None, ...]


_WAYS: dict[Any, VjpPlan | None] = {}
_ELEMENTS, _SHAPED = SpecializationCache(), SpecializationCache(8)


def run(entry: Entry, needs: tuple[bool, ...], g: Any) -> list[Any] | None:
    """The gradients by an entry's inputs, None where not needed; None where it is better left to
    the ops of its rule."""
    values = (g, entry.out, *entry.arrays)
    op, params = entry.op, entry.params
    if not settings.compile or op.kind in ("contract", "put", "opaque", "view"):
        return None
    key = _key(op, params, needs, values)
    if key is None:
        return None
    try:
        way = _WAYS[key]
    except KeyError:
        way = _way(op, params, needs, values, key)
    return None if way is None else _ran(way, values)


def _key(op: Op, params: dict[str, Any], needs: tuple[bool, ...], values: Values) -> Any:
    parts: list[Any] = [op, needs]
    for x in values:
        if type(x) is np.ndarray:
            parts += x.shape, x.dtype, is_spread(x)
        elif isinstance(x, (bool, int, float, complex)):
            parts.append(param_key(x))
        else:  # what stands for an array
            return None
    for name, value in params.items():
        parts += name, param_key(value)
    return tuple(parts)


def _ran(way: VjpPlan, values: Values) -> list[Any] | None:
    given = []
    for i, spread in zip(way.read, way.spread):
        x = values[i]
        if spread:
            x = x[(0,) * x.ndim + (...,)]  # an array without axes
        elif not (x.flags.c_contiguous and x.flags.aligned):
            return None
        given.append(x)
    found = way.run(given)
    if found is None:
        return None
    return [None if i is None else found[i] if i >= 0 else values[-1 - i] for i in way.gives]


# ---- how a rule can run
def _way(op: Op, params: dict[str, Any], needs: tuple[bool, ...], values: Values, key: Any
         ) -> VjpPlan | None:
    """How the rule of an op runs on values of these types, from now on; None: not at once."""
    spread = tuple([isinstance(x, np.ndarray) and is_spread(x) for x in values])
    types = [TensorType(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in values]
    rule = None
    if OPS.get(op.name) is op and not any(isinstance(t, TensorType) and is_small(t.dtype)
                                          for t in types):
        rule = _traced(op, params, needs, types, spread)
    if rule is None or not _pays(rule, types):
        return _remembered(key, None)
    made = _by_element(op, params, needs, types, spread) or _by_shape(rule, key)
    if made is None:
        return None if key not in _SHAPED.made else _remembered(key, None)
    run, rule = made
    return _remembered(key, VjpPlan(run, rule.read, tuple([spread[i] for i in rule.read]),
                                    rule.gives))


def _remembered(key: Any, way: VjpPlan | None) -> VjpPlan | None:
    if len(_WAYS) >= _KNOWN_MOST:
        _WAYS.clear()
    _WAYS[key] = way
    return way


def _traced(op: Op, params: dict[str, Any], needs: tuple[bool, ...], types: Sequence[Any],
            spread: tuple[bool, ...]) -> VjpRule | None:
    """The rule on nodes, composites opened; None where it does more than compute."""
    nodes = Nodes()
    inputs: dict[Node, int] = {}
    operands = []
    for i, t in enumerate(types):
        if isinstance(t, TensorType):
            node = nodes.input(f"x{i}", TensorType((), t.dtype) if spread[i] else t)
            inputs[node] = i
            t = as_tensor(nodes.apply("broadcast_to", (node,), {"shape": t.shape})
                          if spread[i] else node)
        operands.append(t)
    try:
        with building(GraphBuilder(nodes)), no_grad():
            found: Any = op.vjp(needs, *operands, **params)  # type: ignore[misc]
            found = [None if gx is None or not need else sum_to(gx, t.shape)._data.node
                     for gx, need, t in zip(found, needs, types[2:])]
    except FusewireError:
        return None
    graph = decompose(Graph(tuple(inputs), tuple([n for n in found if n is not None])))
    return _rule(graph, [n is not None for n in found], {n: inputs[n] for n in inputs})


def _rule(graph: Graph, gives: list[bool], inputs: dict[Node, int]) -> VjpRule | None:
    """The rule of an opened graph; its outputs are only what it computes."""
    numbers = {n.params["name"]: i for n, i in inputs.items()}
    computed = tuple(dict.fromkeys([n for n in graph.outputs if n.op != "input"]))
    reached = topological(computed)
    if not all(map(_only_computes, reached)):
        return None
    read = tuple([n for n in graph.inputs if n in set(reached)])
    places: dict[Node, int] = {n: i for i, n in enumerate(computed)}
    places |= {n: -1 - numbers[n.params["name"]] for n in graph.outputs if n.op == "input"}
    outputs = iter(graph.outputs)
    return VjpRule(Graph(read, computed), tuple([numbers[n.params["name"]] for n in read]),
                   tuple([places[next(outputs)] if given else None for given in gives]))


def _only_computes(node: Node) -> bool:
    if node.kind == "view":
        return node.op in _MOVED
    return node.kind in ("input", "const", "pointwise", "reduce") \
        or (node.kind == "create" and not OPS[node.op].draws)


def _pays(rule: VjpRule, types: Sequence[Any]) -> bool:
    """Whether the rule passes over so many elements as a large op does."""
    ops = [OPS[n.op] for n in topological(rule.graph.outputs)
           if n.kind in ("pointwise", "reduce") and n.type.shape]
    size = max([t.size for t in types if isinstance(t, TensorType)])
    return bool(sum([op.passes for op in ops]) * size >= dispatch.LARGE)


def _by_element(op: Op, params: dict[str, Any], needs: tuple[bool, ...], types: Sequence[Any],
                spread: tuple[bool, ...]) -> tuple[Run, VjpRule] | None:
    """Code for a block of elements, where all values have one shape or one element."""
    shape = types[0].shape
    if op.kind != "pointwise" or not all(t.shape == shape for t in types
                                         if isinstance(t, TensorType)):
        return None
    block = block_of(types[0].size, 1)
    flat = [TensorType((block,), t.dtype) if isinstance(t, TensorType) else t for t in types]
    rule = _traced(op, params, needs, flat, spread)
    if rule is None:
        return None
    outputs = [TensorType(shape, n.type.dtype) for n in rule.graph.outputs]
    strides = [0 if spread[i] else types[i].dtype.itemsize for i in rule.read]
    strides += [t.dtype.itemsize for t in outputs]
    key = (op, needs, block, spread, *[t.dtype if isinstance(t, TensorType) else param_key(t)
                                       for t in types],
           *[(k, param_key(v)) for k, v in params.items()])
    program = _ELEMENTS.get(key, op.name, lambda: built(rule.graph, block, strides,
                                                        f"{op.name}_back"))
    if program is None:
        return None
    return ProgramCall(program, len(rule.read), outputs, rows=types[0].size), rule


def _by_shape(rule: VjpRule, key: Any) -> tuple[Run, VjpRule] | None:
    """Code for these shapes only."""
    program = _SHAPED.get(key, key[0].name, lambda: _whole(rule.graph))
    return None if program is None else (program, rule)


def _whole(graph: Graph) -> Executable | None:
    try:
        return compile_native(graph)
    except FusewireError:
        return None


dispatch.large_back = run
