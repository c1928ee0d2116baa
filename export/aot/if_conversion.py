"""Converts decisions into selects: one graph computes all paths and selects among their results.

Python numbers from `item()` become tensors again where tensors compute exactly as Python does.
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
_EXACT = 1 << 53  # float64 represents all ints up to here
_ARITHMETIC: dict[str, Callable[..., Tensor]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "neg": lambda x: -x, "abs": abs,
}
_COMPARISONS: dict[str, Callable[..., Tensor]] = {
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}


def outputs_of(paths: Explored, ends: Mapping[Exit, tuple[Node, ...]]) -> tuple[Node, ...]:
    """The outputs of a function that decides by values. `ends`: the outputs of each path.

    ExportError, with the line, for a loop, for paths whose results differ in shape or dtype, and
    for a number that tensors do not compute as Python does.
    """
    _check_indices(paths, ends)
    return _without_numbers(_select(paths.root, ends, paths.names), paths.names)


def decision_notes(paths: Explored) -> list[str]:
    """A note for the report that names the lines of the decisions, if there are any."""
    lines = [block.site for block in walk(paths.root) if isinstance(block, Branch)]
    return [f"all paths are computed, and one is selected: {', '.join(dict.fromkeys(lines))}"] \
        if lines else []


def _select(block: Block, ends: Mapping[Exit, tuple[Node, ...]], names: Any) -> tuple[Node, ...]:
    """The outputs of the paths from `block` on, selected by its decisions."""
    if isinstance(block, Exit):
        return ends[block]
    if not isinstance(block, Branch) or block.kind != "bool" or len(block.outcomes) != 2:
        raise _error_at(block.site, "the values of tensors decide the number of iterations of a "
                        "loop, or the size of a result", "run a fixed number of iterations, or "
                        "build a library of one iteration and loop in C")
    condition = names.number(block.subject, TensorType((), _BOOL)) \
        if isinstance(block.subject, ScalarExpr) \
        else build(names.nodes, _truth, (block.subject,), {}, block.site)
    branches = [_select(block.outcomes[outcome], ends, names) for outcome in (True, False)]
    return tuple(_merge_values(condition, x, y, block, names) for x, y in zip(*branches))


def _merge_values(condition: Node, x: Node, y: Node, block: Branch, names: Any) -> Node:
    if x is y:
        return x
    if x.type != y.type:
        raise _error_at(block.site, f"the function returns {x.type} on one path and {y.type} on "
                        "the other", "return the same shape and dtype on both")
    return build(names.nodes, where, (condition, x, y), {}, block.site)


def _truth(x: Tensor) -> Tensor:
    """A bool scalar: True if the only element of a tensor is not 0."""
    return x.reshape(()).astype(_BOOL)


def _check_indices(paths: Explored, ends: Mapping[Exit, tuple[Node, ...]]) -> None:
    """Raises ExportError for an index that some paths do not use: it may be out of range there."""
    reads = [set(topological(nodes)) for nodes in ends.values()]
    for block in walk(paths.root):
        if isinstance(block, Branch):
            reads.append(set(topological(block.operands)))
    before_decisions = set(topological(paths.root.operands))
    always = set.intersection(*reads[:len(ends)]) | before_decisions
    for node in set().union(*reads) - always:
        if node.op == "check_index" or (node.op in OPS and OPS[node.op].bounds is not None):
            raise _error_at(node.site, "an index is used only on some paths of the function, and a "
                            "library computes all paths", "use the index before the decision")


# ---- numbers
class _Number(NamedTuple):
    """A Python number as a scalar of its own dtype, and its value if it is constant."""

    node: Node
    constant: Any = None


def _without_numbers(outputs: Sequence[Node], names: Any) -> tuple[Node, ...]:
    """The outputs, with nodes that compute the Python numbers they depend on."""
    new: dict[Node, Node] = {}
    for node in _ordered(outputs, names):
        formula = names.numbers.get(node)
        if formula is not None:
            new[node] = _as(_value(formula, new, names), node.type.dtype, names)
        else:
            new[node] = names.nodes.with_inputs(node, [new[i] for i in node.inputs])
    return tuple([new[n] for n in outputs])


def _ordered(outputs: Sequence[Node], names: Any) -> Iterator[Node]:
    """All nodes below the outputs, those of numbers included, each after its operands."""
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
    """The value of a formula as a scalar."""
    values: dict[ScalarExpr, _Number] = {}
    for step in formula.parts:
        if step.op == "element":
            values[step] = _element(step.args[0], new, names)
        elif step.op == "constant":
            values[step] = _constant(step.args[0].value, names)
        else:
            values[step] = _computed(step, [values.get(a) for a in step.args], names, formula)
    return values[formula]


def _element(node: Node, new: Mapping[Node, Node], names: Any) -> _Number:
    dtype = _OF_KIND.get(node.type.dtype.kind)
    if dtype is None:
        raise _unsupported(node.site)
    return _Number(build(names.nodes, lambda x: x.reshape(()).astype(dtype), (new[node],), {},
                         node.site))


def _constant(value: Any, names: Any) -> _Number:
    dtype = {bool: _BOOL, int: _INT, float: _FLOAT}.get(type(value))
    if dtype is None or (dtype == _INT and abs(value) > _EXACT):
        raise _unsupported("")
    return _Number(names.nodes.const(value, dtype), value)


def _computed(step: ScalarExpr, args: Sequence[_Number | None], names: Any,
              formula: ScalarExpr) -> _Number:
    """The result of an operator on numbers. Refuses arithmetic on ints: tensors overflow."""
    site = next((n.site for n in elements([formula])), "")
    fn = _COMPARISONS.get(step.op) or _ARITHMETIC.get(step.op)
    if fn is None or None in args:
        raise _unsupported(site)
    numbers = [a for a in args if a is not None]
    kinds = {a.node.type.dtype for a in numbers}
    if kinds != {_INT} or step.op not in _COMPARISONS:
        if any(a.node.type.dtype != _FLOAT and a.constant is None for a in numbers) \
                or _FLOAT not in kinds:
            raise _unsupported(site)
        numbers = [_Number(_as(a, _FLOAT, names)) for a in numbers]
    return _Number(build(names.nodes, fn, tuple(a.node for a in numbers), {}, site))


def _as(number: _Number, dtype: Any, names: Any) -> Node:
    """A number as a scalar of `dtype`."""
    if number.node.type.dtype == dtype:
        return number.node
    fn = _truth if dtype == _BOOL else lambda x: x.astype(dtype)
    return build(names.nodes, fn, (number.node,), {})


def _unsupported(site: str) -> ExportError:
    return _error_at(site, "the function computes with a Python number from the values of tensors, "
                     "by an operation that tensors do not reproduce",
                     "compute with tensors, not with item()")


def _error_at(site: str, why: str, help: str) -> ExportError:
    error = ExportError(f"aot.build: {why}", help)
    error.line = site
    return error
