"""Builds index arithmetic in a normal form: sums of products of loop variables.

Factors and bounds are sizes, which may be dynamic (`sizes.py`). Equal indices become the same
expression, so "reads its own element" is an identity check. The range of every loop variable is
known, so most divisions, remainders and bounds checks of reshapes, windows and slices vanish.
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from ...capture.sizes.symbolic_dim import size_expr_of
from . import loop_ir
from .builder import ExprValue
from .loop_ir import BOOL, INT, Call, Const, Expr, SizeValue, Var
from .sizes import (
    Size,
    ceil_div,
    is_at_least,
    is_dynamic,
    largest,
    least,
    lower_bound,
    split,
    upper_bound,
)

Range = tuple[Size, Size]  # lowest and highest value
_UNKNOWN = 1 << 40  # limit of a range that is not known
_RANGES: weakref.WeakKeyDictionary[Expr, Range] = weakref.WeakKeyDictionary()


class _ThreadState(threading.local):
    """The state of a thread that generates code. Several threads may do so at the same time."""

    assumed: Mapping[Expr, Range] = {}  # ranges that hold where the mask is true
    compared: list[Index] | None = None  # set while collect_comparisons() is active


_STATE = _ThreadState()


class Index:
    """An integer that depends on loop variables: a sum of atom * factor, plus a constant."""

    __slots__ = ("_division", "_expr", "_range", "const", "terms")

    def __init__(self, terms: Mapping[Expr, Size], const: Size = 0) -> None:
        self.terms = {e: c for e, c in terms.items() if c}
        self.const = const
        self._expr: Expr | None = None
        self._range: Range | None = None
        # the last divisor, the assumptions then, and the quotient and the remainder
        self._division: tuple[Size, Any, tuple[Index, Index]] | None = None

    # ---- arithmetic
    def __add__(self, other: Any) -> Index:
        other_index = as_index(other)
        terms = dict(self.terms)
        for e, c in other_index.terms.items():
            terms[e] = terms.get(e, 0) + c
        return Index(terms, self.const + other_index.const)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Index:
        if isinstance(other, Index):
            if other.terms and self.terms:
                return atom(loop_ir.call("mul", (self.expr(), other.expr()), INT))
            return other * self.const if other.terms else self * other.const
        return Index({e: c * other for e, c in self.terms.items()}, self.const * other)

    __rmul__ = __mul__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Any) -> Index:
        return self + as_index(other) * -1

    def __rsub__(self, other: Any) -> Index:
        return as_index(other) - self

    def __floordiv__(self, divisor: Size) -> Index:
        return _divide(self, divisor)[0]

    def __mod__(self, divisor: Size) -> Index:
        return _divide(self, divisor)[1]

    # ---- bits, for random numbers
    def __and__(self, mask: int) -> ExprValue:
        return self.value() & mask

    def __rshift__(self, bits: int) -> ExprValue:
        return self.value() >> bits

    # ---- comparisons: Python bools where the ranges decide them
    def __ge__(self, other: Any) -> Any:
        return _compare("ge", self - other)

    def __gt__(self, other: Any) -> Any:
        return _compare("gt", self - other)

    def __lt__(self, other: Any) -> Any:
        return _compare("lt", self - other)

    def __le__(self, other: Any) -> Any:
        return _compare("le", self - other)

    def __eq__(self, other: Any) -> Any:
        return _compare("eq", self - other)

    __hash__ = None  # type: ignore[assignment]

    # ---- as expressions
    def expr(self) -> Expr:
        """The expression. Equal indices give the same object."""
        if self._expr is None:
            self._expr = self._build()
        return self._expr

    def _build(self) -> Expr:
        total: Expr | None = None
        for e, c in sorted(self.terms.items(), key=_term_key):
            term = e if c == 1 else loop_ir.call("mul", (e, loop_ir.const(c)), INT)
            total = term if total is None else loop_ir.call("add", (total, term), INT)
        if total is None:
            return loop_ir.const(self.const)
        if self.const == 0:
            return total
        return loop_ir.call("add", (total, loop_ir.const(self.const)), INT)

    def value(self) -> ExprValue:
        """The index as a scalar value of a formula."""
        return ExprValue(self.expr())

    def range(self) -> Range:
        """The lowest and the highest value of the index."""
        if self._range is None:
            low = high = self.const
            for e, c in self.terms.items():
                a, b = _RANGES.get(e, (-_UNKNOWN, _UNKNOWN))
                low += least(a * c, b * c)
                high += largest(a * c, b * c)
            self._range = low, high
        return self._range

    def equals(self, other: Any) -> bool:
        """True if both are the same function of the loop variables."""
        other_index = as_index(other)
        return self.const == other_index.const and self.terms == other_index.terms


def _term_key(item: tuple[Expr, Size]) -> tuple[int, str, int]:
    e, c = item
    return (-max(upper_bound(c), -lower_bound(c)),
            e.name if isinstance(e, Var) else f"~{_text(e)}", id(e))


def _text(e: Expr) -> str:
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Const):
        return str(e.value)
    if isinstance(e, SizeValue):
        return str(e.size)
    if isinstance(e, Call):
        return f"{e.op}({','.join(map(_text, e.args))})"
    if isinstance(e, loop_ir.Load):
        return f"{e.buffer.name}[{_text(e.index)}]"
    return type(e).__name__


def as_index(x: Any) -> Index:
    return x if isinstance(x, Index) else Index({}, x if is_dynamic(x) else int(x))


def atom(e: Expr, bounds: Range | None = None) -> Index:
    """The index whose value is the expression `e`. `bounds`, where given, hold wherever `e` is
    used."""
    if bounds is not None:
        _RANGES[e] = bounds
    return Index({e: 1})


def variable(name: str, size: Size) -> Index:
    """The index of a loop variable from 0 to size - 1. An axis of size 1 gives the constant 0."""
    return Index({}, 0) if size == 1 else counter(name, size)[1]


@contextlib.contextmanager
def assume_in_bounds(index: tuple[Any, ...], sizes: tuple[Size, ...]) -> Iterator[None]:
    """A context in which each index lies inside its axis, as it does wherever the value is used."""
    before = _STATE.assumed
    _STATE.assumed = {**before, **{as_index(i).expr(): (0, n - 1) for i, n in zip(index, sizes)}}
    try:
        yield
    finally:
        _STATE.assumed = before


def _is_within(x: Index, d: Size) -> bool:
    """True if `x` is in [0, d), as the ranges of its variables or an assumption show."""
    low, high = x.range()
    if not _lies_in(low, high, d) and _STATE.assumed:
        low, high = _STATE.assumed.get(x.expr(), (low, high))
    return _lies_in(low, high, d)


def _lies_in(low: Size, high: Size, d: Size) -> bool:
    return is_at_least(low, 0) and is_at_least(d, high + 1)


def _divide(x: Index, d: Size) -> tuple[Index, Index]:
    """x // d and x % d. Multiples of `d` are taken out; only the remainder is divided."""
    if d in (0, 1):  # nothing is read along an axis of size 0
        return x, Index({}, 0)
    if _STATE.compared is not None:
        _STATE.compared.append(x)
    if x._division is None or x._division[1] is not _STATE.assumed or x._division[0] != d:
        x._division = d, _STATE.assumed, _divide_anew(x, d)
    return x._division[2]


def _divide_anew(x: Index, d: Size) -> tuple[Index, Index]:
    quotient, rest = _without_multiples(x, d)
    if _is_within(rest, d):
        return quotient, rest
    if not rest.terms:
        whole = rest.const // d
        return quotient + whole, rest - d * whole
    if _STATE.assumed and _is_within(rest - d, d):
        return quotient + 1, rest - d
    low = rest.range()[0]
    if not is_at_least(low, 0) and lower_bound(low) > -_UNKNOWN:
        times = _multiples_to_positive(low, d)  # only numbers from 0 on are divided
        quotient, rest = quotient - times, rest + d * times
        if _is_within(rest, d):
            return quotient, rest
    for common in _common_factors(rest, d):
        y, small = _without_multiples(rest, common)
        if _is_within(small, common):  # (common * y + small) // (common * e) = y // e
            q, r = _divide(y, split(d, common)[0])
            return quotient + q, r * common + small
    low, high = rest.range()
    e, divisor = rest.expr(), loop_ir.const(d)
    if not is_at_least(d, 1):  # nothing is read along an axis of size 0, but code may run early
        divisor = loop_ir.call("maximum", (divisor, loop_ir.const(1)), INT)
    q = atom(loop_ir.call("idiv", (e, divisor), INT), _quotient_range(low, high, d))
    r = atom(loop_ir.call("imod", (e, divisor), INT), (0, largest(d - 1, 0)))
    return quotient + q, r


def _quotient_range(low: Size, high: Size, d: Size) -> Range:
    if is_at_least(d, 1):
        return largest(low, 0) // d, largest(high, 0) // d
    return 0, largest(high, 0)


def _without_multiples(x: Index, d: Size) -> tuple[Index, Index]:
    """(whole, rest) with x == whole * d + rest, where `whole` has the terms that `d` divides."""
    parts = {e: split(c, d) for e, c in x.terms.items()}
    whole, rest = split(x.const, d)
    return (Index({e: q for e, (q, r) in parts.items() if r == 0}, whole),
            Index({e: x.terms[e] for e, (_, r) in parts.items() if r != 0}, rest))


def _multiples_to_positive(low: Size, d: Size) -> Size:
    """How often `d` is to be added to a number that is at least `low`, so that it is not negative.
    """
    if is_at_least(low + d, 0):
        return 1
    return ceil_div(-lower_bound(low), max(1, lower_bound(d)))


def _common_factors(x: Index, d: Size) -> list[Size]:
    """Divisors of `d` that divide some of the factors, the largest first. The other terms may be
    the rest."""
    if is_dynamic(d):
        factors = dict.fromkeys(c for c in x.terms.values() if not is_at_least(0, c))
        return [c for c in factors if c not in (1, d) and split(d, c)[1] == 0]
    divisors = (math.gcd(_content(c), d) for c in x.terms.values())
    best = max((g for g in divisors if g < d), default=1)
    return [best] if best > 1 else []


def _content(size: Size) -> int:
    """The greatest number that divides a size for sure."""
    return math.gcd(*(c for _, c in size_expr_of(size).terms)) if is_dynamic(size) else abs(size)


@contextlib.contextmanager
def collect_comparisons() -> Iterator[list[Index]]:
    """A context whose list collects every difference compared and every index divided.

    The list includes those decided by the ranges, although no expression shows them: the ranges
    change when two axes become one loop."""
    before = _STATE.compared
    compared = _STATE.compared = []
    try:
        yield compared
    finally:
        _STATE.compared = before


def _compare(op: str, difference: Index) -> Any:
    if _STATE.compared is not None:
        _STATE.compared.append(difference)
    low, high = difference.range()
    positive, negative = is_at_least(low, 1), is_at_least(-1, high)
    not_negative, not_positive = is_at_least(low, 0), is_at_least(0, high)
    always = {"ge": not_negative, "gt": positive, "lt": negative, "le": not_positive,
              "eq": not_negative and not_positive}[op]
    never = {"ge": negative, "gt": not_positive, "lt": not_negative, "le": positive,
             "eq": positive or negative}[op]
    if always or never:
        return always
    return ExprValue(loop_ir.call(op, (difference.expr(), loop_ir.const(0)), BOOL))


def counter(name: str, size: Size) -> tuple[Var, Index]:
    """A new loop variable, and its index, which counts from 0 to size - 1."""
    var = Var(name)
    return var, atom(var, (0, size - 1 if is_dynamic(size) else max(0, size - 1)))
