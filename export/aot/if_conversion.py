"""Decisions by values as one graph: every way is computed, and the values choose among results.

Numbers that `item()` has given become tensors again, as far as these compute what Python does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capture.graph.graph import Node, topological
from ...capture.graph.graph_builder import build
from ...capture.program.cfg import Block, Branch, Exit
from ...capture.program.segment_planner import walk
from ...capture.replay.path_enumeration import Explored
from ...capture.scalars.scalar_expr import ScalarExpr, elements
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS
from ...eager.core.tensor import Tensor
from ...eager.errors import ExportError
from ...eager.ops.elementwise.pointwise import where

_BOOL, _INT, _FLOAT = (np.dtype(name) for name in ("bool", "int64", "float64"))
_OF_KIND = {"b": _BOOL, "i": _INT, "f": _FLOAT}
_EXACT = 1 << 53  # ints up to here are floats
_ARITHMETIC: dict[str, Callable[..., Tensor]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "neg": lambda x: -x, "abs": abs,
}
_COMPARISONS: dict[str, Callable[..., Tensor]] = {
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}


def outputs_of(ways: Explored, ends: Mapping[Exit, tuple[Node, ...]]) -> tuple[Node, ...]:
    """What a function gives on all its ways. ExportError, with the line, for a loop, for results
    that differ in more than values, and for a number that tensors do not compute as Python does.
    """
    _check_indices(ways, ends)
    return _without_numbers(_chosen(ways.root, ends, ways.names), ways.names)


def in_words(ways: Explored) -> list[str]:
    """What is to be said of a function's decisions."""
    lines = [at.site for at in walk(ways.root) if isinstance(at, Branch)]
    return [f"all ways are computed, and one is chosen: {', '.join(dict.fromkeys(lines))}"] \
        if lines else []


def _chosen(at: Block, ends: Mapping[Exit, tuple[Node, ...]], names: Any) -> tuple[Node, ...]:
    """What a place gives."""
    if isinstance(at, Exit):
        return ends[at]
    if not isinstance(at, Branch) or at.kind != "bool" or len(at.outcomes) != 2:
        raise _error_at(at.site, "the values of tensors decide how often a loop is gone through, "
                                 "or what size a result has", "go through a fixed number of turns, "
                                 "or build a library of one turn and loop in C")
    asked = names.number(at.subject, TensorType((), _BOOL)) if isinstance(at.subject, ScalarExpr) \
        else build(names.nodes, _truth, (at.subject,), {}, at.site)
    both = [_chosen(at.outcomes[answer], ends, names) for answer in (True, False)]
    return tuple(_either(asked, x, y, at, names) for x, y in zip(*both))


def _either(asked: Node, x: Node, y: Node, at: Branch, names: Any) -> Node:
    if x is y:
        return x
    if x.type != y.type:
        raise _error_at(at.site, f"the function gives {x.type} on one way and {y.type} on the "
                                 "other", "give the same shape and dtype on each")
    return build(names.nodes, where, (asked, x, y), {}, at.site)


def _truth(x: Tensor) -> Tensor:
    """Whether the one element of a tensor is not 0."""
    return x.reshape(()).astype(_BOOL)


def _check_indices(ways: Explored, ends: Mapping[Exit, tuple[Node, ...]]) -> None:
    """ExportError for an index that only some ways look at: it may be out of range on the others.
    """
    used = [set(topological(nodes)) for nodes in ends.values()]
    for at in walk(ways.root):
        if isinstance(at, Branch):
            used.append(set(topological(at.operands)))
    first = set(topological(ways.root.operands))
    always = set.intersection(*used[:len(ends)]) | first
    for node in set().union(*used) - always:
        if node.op == "check_index" or (node.op in OPS and OPS[node.op].bounds is not None):
            raise _error_at(node.site, "an index is used on some ways of the function only, and a "
                                       "library computes all of them", "use it before the decision")


# ---- numbers
class _Number(NamedTuple):
    """A number of Python's as a scalar of its own dtype, and its value where it is constant."""

    node: Node
    known: Any = None


def _without_numbers(outputs: Sequence[Node], names: Any) -> tuple[Node, ...]:
    """The same, with numbers computed by nodes."""
    new: dict[Node, Node] = {}
    for node in _ordered(outputs, names):
        formula = names.numbers.get(node)
        if formula is not None:
            new[node] = _as(_value(formula, new, names), node.type.dtype, names)
        else:
            new[node] = names.nodes.with_inputs(node, [new[i] for i in node.inputs])
    return tuple([new[n] for n in outputs])


def _ordered(outputs: Sequence[Node], names: Any) -> Iterator[Node]:
    """All nodes, what numbers are made of too, each after what it needs."""
    done: set[Node] = set()
    stack = list(outputs)[::-1]
    while stack:
        node = stack[-1]
        needs = (*node.inputs, *elements([names.numbers.get(node)]))
        missing = [i for i in needs if i not in done] if node not in done else []
        stack.extend(missing)
        if not missing:
            stack.pop()
            if node not in done:
                done.add(node)
                yield node


def _value(formula: ScalarExpr, new: Mapping[Node, Node], names: Any) -> _Number:
    """The number that a formula gives."""
    made: dict[ScalarExpr, _Number] = {}
    for part in formula.parts:
        if part.op == "element":
            made[part] = _element(part.args[0], new, names)
        elif part.op == "constant":
            made[part] = _constant(part.args[0].value, names)
        else:
            made[part] = _computed(part, [made.get(a) for a in part.args], names, formula)
    return made[formula]


def _element(node: Node, new: Mapping[Node, Node], names: Any) -> _Number:
    kind = _OF_KIND.get(node.type.dtype.kind)
    if kind is None:
        raise _refused(node.site)
    return _Number(build(names.nodes, lambda x: x.reshape(()).astype(kind), (new[node],), {},
                         node.site))


def _constant(value: Any, names: Any) -> _Number:
    kind = {bool: _BOOL, int: _INT, float: _FLOAT}.get(type(value))
    if kind is None or (kind == _INT and abs(value) > _EXACT):
        raise _refused("")
    return _Number(names.nodes.const(value, kind), value)


def _computed(part: ScalarExpr, args: Sequence[_Number | None], names: Any,
              whole: ScalarExpr) -> _Number:
    """An operator on numbers. Ints have no end in Python: what computes with them is refused."""
    site = next((n.site for n in elements([whole])), "")
    fn = _COMPARISONS.get(part.op) or _ARITHMETIC.get(part.op)
    if fn is None or None in args:
        raise _refused(site)
    numbers = [a for a in args if a is not None]
    kinds = {a.node.type.dtype for a in numbers}
    if kinds != {_INT} or part.op not in _COMPARISONS:
        if any(a.node.type.dtype != _FLOAT and a.known is None for a in numbers) \
                or _FLOAT not in kinds:
            raise _refused(site)
        numbers = [_Number(_as(a, _FLOAT, names)) for a in numbers]
    return _Number(build(names.nodes, fn, tuple(a.node for a in numbers), {}, site))


def _as(number: _Number, dtype: Any, names: Any) -> Node:
    """A number as a scalar of another dtype."""
    if number.node.type.dtype == dtype:
        return number.node
    fn = _truth if dtype == _BOOL else lambda x: x.astype(dtype)
    return build(names.nodes, fn, (number.node,), {})


def _refused(site: str) -> ExportError:
    return _error_at(site, "a number of Python that follows from the values of tensors is computed "
                           "with, in a way that tensors do not follow", "compute with tensors, not "
                                                                        "with item()")


def _error_at(site: str, why: str, help: str) -> ExportError:
    error = ExportError(f"aot.build: {why}", help)
    error.line = site
    return error
