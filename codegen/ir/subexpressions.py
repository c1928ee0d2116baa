"""The subexpressions of a value in the order of their evaluation."""

from __future__ import annotations

from collections.abc import Callable

from .loop_ir import Const, Expr, children


def unwritten(root: Expr, known: Callable[[Expr], bool]) -> list[Expr]:
    """What has to be written for a value, operands first; formulas outgrow Python's stack."""
    order: dict[Expr, None] = {}
    stack = [root]
    while stack:
        top = stack[-1]
        if top in order or known(top) or isinstance(top, Const):
            stack.pop()
            continue
        missing = [x for x in children(top) if x not in order and not known(x)
                   and not isinstance(x, Const)]
        if missing:
            stack.extend(missing)
        else:
            order[stack.pop()] = None
    return list(order)
