"""Builds index arithmetic in a normal form: sums of products of loop variables.

Equal indices become the same expression, so "reads its own element" is an identity check. The range
of every loop variable is known, so most divisions, remainders and bounds checks of reshapes,
windows and slices vanish.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from . import loop_ir
from .builder import ExprValue
from .loop_ir import BOOL, INT, Call, Const, Expr, Var
from .target_info import Machine

Range = tuple[int, int]  # lowest and highest value
_UNKNOWN = 1 << 40  # limit of a range that is not known
_RANGES: weakref.WeakKeyDictionary[Expr, Range] = weakref.WeakKeyDictionary()


class _ThreadState(threading.local):
    """The state of a thread that generates code. Several threads may do so at the same time."""

    machine = Machine()
    assumed: Mapping[Expr, Range] = {}  # ranges that hold where the mask is true
    compared: list[Index] | None = None  # set while collect_comparisons() is active


_STATE = _ThreadState()


class Index:
    """An integer that depends on loop variables: a sum of atom * factor, plus a constant."""

    __slots__ = ("_expr", "const", "terms")

    def __init__(self, terms: Mapping[Expr, int], const: int = 0) -> None:
        self.terms = {e: c for e, c in terms.items() if c}
        self.const = const
        self._expr: Expr | None = None

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

    def __floordiv__(self, divisor: int) -> Index:
        return _divide(self, divisor)[0]

    def __mod__(self, divisor: int) -> Index:
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
        low = high = self.const
        for e, c in self.terms.items():
            a, b = _RANGES.get(e, (-_UNKNOWN, _UNKNOWN))
            low += min(a * c, b * c)
            high += max(a * c, b * c)
        return low, high

    def equals(self, other: Any) -> bool:
        """True if both are the same function of the loop variables."""
        other_index = as_index(other)
        return self.const == other_index.const and self.terms == other_index.terms


def _term_key(item: tuple[Expr, int]) -> tuple[int, str, int]:
    e, c = item
    return (-_STATE.machine.upper_bound(abs(c)), e.name if isinstance(e, Var) else f"~{_text(e)}",
            id(e))


@contextlib.contextmanager
def lowering_for(machine: Machine) -> Iterator[None]:
    """A context in which the order of a sum's terms does not depend on dynamic sizes."""
    before, _STATE.machine = _STATE.machine, machine
    try:
        yield
    finally:
        _STATE.machine = before


def _text(e: Expr) -> str:
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Const):
        return str(e.value)
    if isinstance(e, Call):
        return f"{e.op}({','.join(map(_text, e.args))})"
    if isinstance(e, loop_ir.Load):
        return f"{e.buffer.name}[{_text(e.index)}]"
    return type(e).__name__


def as_index(x: Any) -> Index:
    return x if isinstance(x, Index) else Index({}, int(x))


def atom(e: Expr, bounds: Range | None = None) -> Index:
    """The index whose value is the expression `e`. `bounds`, where given, hold wherever `e` is
    used."""
    if bounds is not None:
        _RANGES[e] = bounds
    return Index({e: 1})


def variable(name: str, size: int) -> Index:
    """The index of a loop variable from 0 to size - 1. An axis of size 1 gives the constant 0."""
    if size == 1:
        return Index({}, 0)
    return atom(Var(name), (0, max(0, size - 1)))


@contextlib.contextmanager
def assume_in_bounds(index: tuple[Any, ...], sizes: tuple[int, ...]) -> Iterator[None]:
    """A context in which each index lies inside its axis, as it does wherever the value is used."""
    before = _STATE.assumed
    _STATE.assumed = {**before, **{as_index(i).expr(): (0, n - 1) for i, n in zip(index, sizes)}}
    try:
        yield
    finally:
        _STATE.assumed = before


def _is_within(x: Index, d: int) -> bool:
    """True if `x` is in [0, d), as the ranges of its variables or an assumption show."""
    low, high = x.range()
    if not (0 <= low and high < d) and _STATE.assumed:
        low, high = _STATE.assumed.get(x.expr(), (low, high))
    return 0 <= low and high < d


def _divide(x: Index, d: int) -> tuple[Index, Index]:
    """x // d and x % d. Multiples of `d` are taken out; only the remainder is divided."""
    if d in (0, 1):  # nothing is read along an axis of size 0
        return x, Index({}, 0)
    if _STATE.compared is not None:
        _STATE.compared.append(x)
    quotient = Index({e: c // d for e, c in x.terms.items() if c % d == 0}, x.const // d)
    rest = Index({e: c for e, c in x.terms.items() if c % d}, x.const % d)
    if _is_within(rest, d) or not rest.terms:
        return quotient, rest
    if _STATE.assumed and _is_within(rest - d, d):
        return quotient + 1, rest - d
    low, high = rest.range()
    if -_UNKNOWN < low < 0:  # a factor is negative, and only numbers from 0 on are divided
        quotient, rest = quotient + low // d, rest - low // d * d
        low, high = rest.range()
    common = _common_factor(rest, d)
    if common > 1:
        small = Index({e: c for e, c in rest.terms.items() if c % common}, rest.const % common)
        if _is_within(small, common):  # (common * y + small) // (common * e) = y // e
            y = Index({e: c // common for e, c in rest.terms.items() if c % common == 0},
                      rest.const // common)
            q, r = _divide(y, d // common)
            return quotient + q, r * common + small
    e = rest.expr()
    q = atom(loop_ir.call("idiv", (e, loop_ir.const(d)), INT),
             (max(low, 0) // d, max(high, 0) // d))
    r = atom(loop_ir.call("imod", (e, loop_ir.const(d)), INT), (0, d - 1))
    return quotient + q, r


def _common_factor(x: Index, d: int) -> int:
    """The largest divisor of `d` that divides some of the factors. The other terms may be the rest.
    """
    best = 1
    for c in x.terms.values():
        g = _gcd(abs(c), d)
        best = max(best, g if g < d else 1)
    return best


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


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
    always = {"ge": low >= 0, "gt": low > 0, "lt": high < 0, "le": high <= 0,
              "eq": low == high == 0}[op]
    never = {"ge": high < 0, "gt": high <= 0, "lt": low >= 0, "le": low > 0,
             "eq": high < 0 or low > 0}[op]
    if always or never:
        return always
    return ExprValue(loop_ir.call(op, (difference.expr(), loop_ir.const(0)), BOOL))


def counter(name: str, size: int) -> tuple[Var, Index]:
    """A new loop variable, and its index, which counts from 0 to size - 1."""
    var = Var(name)
    return var, atom(var, (0, max(0, size - 1)))
