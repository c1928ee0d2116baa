"""Orders the subexpressions of a value for evaluation."""

from __future__ import annotations

from collections.abc import Callable

from .loop_ir import Const, Expr, children


def evaluation_order(root: Expr, available: Callable[[Expr], bool]) -> list[Expr]:
    """The subexpressions of `root` that are not `available` yet, operands first.

    It is iterative, because formulas can be deeper than Python's stack."""
    order: dict[Expr, None] = {}
    stack = [root]
    while stack:
        top = stack[-1]
        if top in order or available(top) or isinstance(top, Const):
            stack.pop()
            continue
        missing = [x for x in children(top) if x not in order and not available(x)
                   and not isinstance(x, Const)]
        if missing:
            stack.extend(missing)
        else:
            order[stack.pop()] = None
    return list(order)
