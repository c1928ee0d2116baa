"""Finds neighbouring axes that can be one loop: a kernel always steps through them as one."""

from __future__ import annotations

from collections.abc import Iterable

from .affine_index import Index
from .loop_ir import INT, Call, Const, Expr, Load, SizeValue, Var, call, children
from .sizes import Size


def number_of(e: Expr) -> Size | None:
    """The value of an expression that is a number or a size; None for others."""
    return int(e.value) if isinstance(e, Const) else e.size if isinstance(e, SizeValue) else None


def linear_form(e: Expr) -> tuple[dict[Expr, Size], Size]:
    """The index as (factor of each atom, constant). An atom is neither a sum nor a product."""
    number = number_of(e)
    if number is not None:
        return {}, number
    if isinstance(e, Call) and e.op == "add":
        left, right = (linear_form(a) for a in e.args)
        terms = dict(left[0])
        for a, c in right[0].items():
            terms[a] = terms.get(a, 0) + c
        return terms, left[1] + right[1]
    if isinstance(e, Call) and e.op == "mul" and (factor := number_of(e.args[1])) is not None:
        terms, constant = linear_form(e.args[0])
        return {a: c * factor for a, c in terms.items()}, constant * factor
    return {e: 1}, 0


def recombine_divmod(index: Index) -> Index:
    """The index with each quotient and remainder by the same divisor combined again."""
    for e, c in index.terms.items():
        if not isinstance(e, Call) or e.op != "imod":
            continue
        divisor, quotient = number_of(e.args[1]), call("idiv", e.args, INT)
        if divisor is not None and index.terms.get(quotient) == c * divisor:
            rest = {x: f for x, f in index.terms.items() if x not in (e, quotient)}
            return recombine_divmod(Index(rest, index.const) + Index(*linear_form(e.args[0])) * c)
    return index


def linear_forms(roots: Iterable[Expr]) -> list[dict[Expr, Size]]:
    """The linear form of every index in these expressions."""
    forms: list[dict[Expr, Size]] = []
    seen: set[Expr] = set()
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e.dtype == INT and not isinstance(e, (Const, SizeValue, Load)):
            terms, _ = linear_form(e)
            if list(terms) != [e] or isinstance(e, Var):
                forms.append(terms)
                stack.extend(a for a in terms if not isinstance(a, Var))
                continue
        stack.extend(children(e))
    return forms


def merge_axes(
    domain: tuple[Size, ...], variables: tuple[Index, ...], forms: list[dict[Expr, Size]]
) -> list[list[int]]:
    """The axes of `domain` in runs. Each run can be a single loop."""
    atoms = [next(iter(v.terms), None) for v in variables]
    runs: list[list[int]] = []
    outer: Expr | None = None  # the variable of the last axis so far that is longer than 1
    for axis, inner in enumerate(atoms):
        if runs and (outer is None or inner is None
                     or all(_steps_as_one(outer, inner, domain[axis], f) for f in forms)):
            runs[-1].append(axis)
        else:
            runs.append([axis])
        outer = outer if inner is None else inner
    return runs


def _steps_as_one(outer: Expr, inner: Expr, size: Size, form: dict[Expr, Size]) -> bool:
    return form.get(outer, 0) == form.get(inner, 0) * size
