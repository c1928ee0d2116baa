"""Estimates the work per element of expressions and of nodes, from the costs of scalar operations.

The unit is one addition of the dtype in which an operation computes: a "simple operation".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...capture.graph.graph import Node, param_key, params_key
from ...eager.core.op import OPS
from . import loop_ir
from .affine_index import variable
from .builder import BUILDER, ExprValue
from .loop_ir import Call, Const, Expr, Load, Register
from .scalar_ops import scalar_cost


def expression_cost(expressions: Iterable[Expr], on_gpu: bool) -> float:
    """The approximate number of simple operations and loads of expressions.

    A shared subexpression counts once. Integer arithmetic computes indices and is free.
    """
    seen: set[Expr] = set()
    stack = list(expressions)
    total = 0.0
    while stack:
        e = stack.pop()
        if e in seen or isinstance(e, Const):
            continue
        seen.add(e)
        stack.extend(loop_ir.children(e))
        if isinstance(e, Load):
            total += 1
        elif isinstance(e, Call) and e.dtype.kind != "i":
            total += scalar_cost(e.op, e.args[-1].dtype, on_gpu)
    return total


def node_cost(node: Node, on_gpu: bool) -> float:
    """The approximate number of simple operations of one element of a node, at least 1.

    The operands count as known values. An element of a reduction counts as one combination.
    """
    if node.kind not in _FORMULAS:
        return 1
    operands = tuple([(n.type.dtype, *_literal(n)) for n in node.inputs])
    return _formula_cost(node.op, node.kind, operands, _Params(node), len(node.type.shape), on_gpu)


class _Params:
    """The params of a node, hashable by their key."""

    def __init__(self, node: Node) -> None:
        self.values, self.key = node.params, params_key(node.params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Params) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _literal(node: Node) -> tuple[Any, ...]:
    """The value of a scalar constant, which formulas fold; empty for other nodes."""
    is_literal = node.op == "const" and not node.type.shape
    return (param_key(node.params["value"]), node.params["value"]) if is_literal else ()


@functools.lru_cache(maxsize=4096)
def _formula_cost(op: str, kind: str, operands: tuple[Any, ...], params: _Params, rank: int,
                  on_gpu: bool) -> float:
    value = _FORMULAS[kind](op, [_operand(*o) for o in operands], params.values, rank)
    return max(1.0, expression_cost([value.expr], on_gpu)) if isinstance(value, ExprValue) else 1.0


def _operand(dtype: np.dtype[Any], *literal: Any) -> ExprValue:
    if literal:
        return BUILDER.const(literal[1], dtype)
    return ExprValue(loop_ir.read(Register("operand", dtype)))


def _pointwise(op: str, operands: list[ExprValue], params: Any, rank: int) -> Any:
    return OPS[op].meaning(BUILDER, *operands, **params)


def _create(op: str, operands: list[ExprValue], params: Any, rank: int) -> Any:
    index = tuple(variable(f"i{axis}", 1 << 20) for axis in range(rank))
    readers = [lambda *index, x=x: x for x in operands]
    return OPS[op].meaning(BUILDER, index, *readers, **params)


_FORMULAS = {"pointwise": _pointwise, "create": _create}
