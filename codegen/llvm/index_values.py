"""Emits index expressions of the loop IR: rewrites them as sums, and sums as LLVM values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..ir.loop_ir import INT, Call, Const, Expr, Load, Read, Register, Var, children
from ..ir.ranges import Range, range_of
from . import scalar
from .affine import LANE, UNKNOWN, Affine, Atom, bounds, divide, may_wrap, multiple, scaled, total
from .ir_builder import LlvmBuilder, LlvmModule, Value, constant, lane_numbers

COMPARE = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


class IndexFacts(NamedTuple):
    """The registers, variables and buffers that an expression reads, and its depth."""

    reads: frozenset[Any]
    depth: int


class Remembered(NamedTuple):
    """The value of an expression; valid while its scope is open and its operands are unchanged."""

    value: Any
    depth: int
    identity: int
    clock: int


class Lane:
    """The lane loop that is being emitted.

    `tail` is the mask of the lanes that exist, `guard` that of the enclosing `If`s; None is all
    lanes.
    """

    def __init__(self, lanes: int, outer: frozenset[Register], tail: Value | None) -> None:
        self.lanes = lanes
        self.outer = outer  # registers from outside, which are reduced over the lanes
        self.tail = tail
        self.guard: Value | None = None


class IndexValues(LlvmBuilder):
    """Binds variables to values and emits index expressions."""

    def __init__(self, module: LlvmModule) -> None:
        super().__init__(module)
        self.lane: Lane | None = None
        self.bound: dict[Var, Affine] = {}
        self.atoms: dict[str, Atom] = {}
        self.clock = 0
        self._changed: dict[Any, int] = {}
        self._sums: dict[Expr, Remembered] = {}
        self._facts: dict[Expr, IndexFacts] = {}

    # The known facts of an expression

    def changed(self, thing: Any) -> None:
        """Notes that a register, variable or buffer has a new value."""
        self.clock += 1
        self._changed[thing] = self.clock

    def facts(self, e: Expr) -> IndexFacts:
        """The facts of `e`, computed once."""
        facts = self._facts
        stack = [e]
        while stack:
            top = stack[-1]
            missing = [x for x in children(top) if x not in facts]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if top not in facts:
                facts[top] = self._derive(top)
        return facts[e]

    def _derive(self, e: Expr) -> IndexFacts:
        below = [self._facts[x] for x in children(e)]
        own: list[Any] = []
        if isinstance(e, Var):
            own = [e]
        elif isinstance(e, Read):
            own = [e.register]
        elif isinstance(e, Load):
            own = [e.buffer]
        depth = 1 + max((f.depth for f in below), default=0)
        return IndexFacts(frozenset(own).union(*(f.reads for f in below)), depth)

    def recall(self, memo: dict[Expr, Remembered], e: Expr) -> Any:
        hit = memo.get(e)
        if hit is None or hit.depth >= len(self.scopes):
            return None
        if self.scopes[hit.depth].identity != hit.identity:
            return None
        changed, clock = self._changed, hit.clock
        for thing in self._facts[e].reads:
            if changed.get(thing, 0) > clock:
                return None
        return hit.value

    def remember(self, memo: dict[Expr, Remembered], e: Expr, value: Any, depth: int) -> Any:
        memo[e] = Remembered(value, depth, self.scopes[depth].identity, self.clock)
        return value

    def value(self, e: Expr) -> Value:
        """The value of any expression here."""
        raise NotImplementedError

    # Sums

    def bind(self, var: Var, to: Affine) -> None:
        """Gives a variable its value."""
        self.bound[var] = to
        self.changed(var)

    def atom(self, value: Value, low: int, high: int, step: int = 1) -> Affine:
        """A value as a sum of one term."""
        self.atoms[value.text] = Atom(value, low, high, step)
        return Affine({value.text: 1})

    def affine(self, e: Expr) -> Affine:
        """An int64 expression as a sum."""
        if isinstance(e, Const):
            return Affine({}, int(e.value))
        if e not in self._facts:
            self.facts(e)
        hit: Affine | None = self.recall(self._sums, e)
        if hit is not None:
            return hit
        total = self._sum(e)
        depth = max((self.atoms[n].value.depth for n in total.terms), default=0)
        return self.remember(self._sums, e, total, depth)  # type: ignore[no-any-return]

    def _sum(self, e: Expr) -> Affine:
        if isinstance(e, Var):
            if e not in self.bound:
                raise ValueError(f"variable {e.name} has no value in a native kernel")
            return self.bound[e]
        if isinstance(e, Call) and is_sum(e):
            x, y = self.affine(e.args[0]), self.affine(e.args[1])
            total = _SUMS[e.op](self, x, y)
            if total is not None:
                return total
            return self._product(e.op, x, y)
        if isinstance(e, Call) and e.op == "cast" and e.args[0].dtype.kind in "biu":
            value = self.value(e.args[0])
            remainder = scalar.convert(self, value, e.args[0].dtype, INT)
            return self._opaque(remainder, *_limits(e.args[0].dtype))
        if isinstance(e, Call) and e.op in ("where", "maximum", "minimum"):
            ends = [bounds(self.affine(x), self.atoms) for x in e.args[-2:]]
            return self._opaque(self._opaque_value(e), *_limited(range_of(e.op, ends)))
        if isinstance(e, Read) and e.register.bounds is not None:
            return self._opaque(self.value(e), *e.register.bounds)
        return self._opaque(self._opaque_value(e), -UNKNOWN, UNKNOWN)

    def _opaque_value(self, e: Expr) -> Value:
        """The value of an expression that is not index arithmetic, as a term."""
        if isinstance(e, Call):
            args = [self.value(x) for x in e.args]
            return scalar.apply(self, e.op, args, [x.dtype for x in e.args], e.dtype)
        return self.value(e)

    def _opaque(self, value: Value, low: int, high: int) -> Affine:
        if value.text[0] != "%":
            if not value.lanes and value.text.lstrip("-").isdigit():
                return Affine({}, int(value.text))
            self.atoms[value.text] = Atom(value, low, high)
            return Affine({value.text: 1})
        current = self.atoms.get(value.text, Atom(value, low, high))
        self.atoms[value.text] = current._replace(  # its depth may have changed
            value=value, low=max(current.low, low), high=min(current.high, high))
        return Affine({value.text: 1})

    def _product(self, op: str, x: Affine, y: Affine) -> Affine:
        """x op y for two sums that are both not constant."""
        if op == "mul" and not (self.varies(x) and self.varies(y)):
            return self._distributed(x, y) if self.varies(x) else self._distributed(y, x)
        instruction = {"mul": "mul", "idiv": "udiv", "imod": "urem"}[op]
        ends = [bounds(a, self.atoms) for a in (x, y)]
        kind = "i64"
        if op != "mul" and ends[0][0] >= 0 and all(fits32(*end) for end in ends):
            kind = "i32"  # a division of 64 bits takes several times as long
        value = self.binary(instruction, self.sum_value(x, kind), self.sum_value(y, kind))
        return self._opaque(self.integer(value, "i64"), *_limited(range_of(op, ends)))

    def _distributed(self, x: Affine, factor: Affine) -> Affine:
        """The sum of the terms of `x`, each times a factor that is the same in all lanes."""
        by, ends, step = self.sum_value(factor), bounds(factor, self.atoms), \
            multiple(factor, self.atoms)
        result = scaled(factor, x.constant)
        for name, coefficient in x.terms.items():
            atom = self.atoms[name]
            value = lane_numbers(self.lanes(), "i64") if name == LANE else atom.value
            one = self._opaque(self.binary("mul", value, by),
                               *_limited(range_of("mul", [(atom.low, atom.high), ends])))
            for term in one.terms:
                self.atoms[term] = self.atoms[term]._replace(multiple=atom.multiple * step)
            result = total(result, one, coefficient)
        return result

    def quotient(self, a: Affine, divisor: int, remainder: bool) -> Affine:
        """floor(a / divisor), or the remainder, of a non-negative sum."""
        whole, rest, low = divide(a, divisor, self.atoms)
        if not rest.terms:  # then rest is a constant, and low fills the rest of the divisor
            whole = total(whole, Affine({}, rest.constant // divisor))
            return total(low, Affine({}, rest.constant % divisor)) if remainder else whole
        step = multiple(rest, self.atoms)
        greatest = max(bounds(rest, self.atoms)[1], 0)
        n = self._narrow_value(rest)
        op = "urem" if remainder else "udiv"
        value = self.binary(op, n, divisor)
        if value.type != "i64":
            value = self.integer(value, "i64")
        if remainder:
            step = math.gcd(step, divisor)
            top = min(greatest, divisor - step) if step else divisor - 1
            self.atom(value, 0, top, max(step, 1))
            return total(Affine({value.text: 1}), low)
        self.atom(value, 0, greatest // divisor)
        return total(whole, Affine({value.text: 1}))

    def _narrow_value(self, a: Affine) -> Value:
        """A sum in 32 bits if it is a vector and known to fit, as wide arithmetic is slow there."""
        low, high = bounds(a, self.atoms)
        if self.varies(a) and fits32(low, high):
            return self.sum_value(a, "i32")
        return self.sum_value(a)

    def varies(self, a: Affine) -> bool:
        return any(name == LANE or self.atoms[name].value.lanes for name in a.terms)

    def _compare_sums(self, op: str, x: Affine, y: Affine) -> Value:
        """x op y, decided by bounds if they suffice, else with the varying terms on the left.

        Sums that may wrap are compared as they are: x < x + 1 is false for the largest x."""
        if may_wrap(x, self.atoms) or may_wrap(y, self.atoms):
            return self.compare(COMPARE[op], self.sum_value(x), self.sum_value(y))
        d = total(x, y, -1)
        low, high = bounds(d, self.atoms)
        decided = _decide(op, low, high)
        if decided is not None:
            return constant(decided, "i1")
        if max(-low, high) >= UNKNOWN // 2 or not self.varies(d):
            return self.compare(COMPARE[op], self.sum_value(x), self.sum_value(y))
        left = Affine({n: c for n, c in d.terms.items() if n == LANE or self.atoms[n].value.lanes})
        right = scaled(total(d, left, -1), -1)
        ends = bounds(left, self.atoms) + bounds(right, self.atoms)
        kind = "i32" if fits32(min(ends), max(ends)) else "i64"
        narrow = self.integer(self.sum_value(right), kind)
        return self.compare(COMPARE[op], self.sum_value(left, kind), narrow)

    def sum_value(self, a: Affine, kind: str = "i64") -> Value:
        """The value of a sum: its parts added from the outermost to the innermost."""
        uniform, varying = self.parts(a)
        value = self.uniform_sum(uniform)
        if not varying:
            return self.integer(value, kind) if kind != "i64" else value
        low, high = bounds(a, self.atoms)
        if kind == "i64" and fits32(low, high):
            ends = bounds(uniform, self.atoms)
            if fits32(*ends):
                return self.integer(self.sum_value(a, "i32"), "i64")
        result = self.varying_sum(varying, kind)
        if value.text == "0":
            return result
        return self.binary("add", result, self.integer(value, kind))

    def parts(self, a: Affine) -> tuple[Affine, dict[str, int]]:
        """The part of a sum that is the same in all lanes, and the varying terms."""
        same: dict[str, int] = {}
        other: dict[str, int] = {}
        for name, coefficient in a.terms.items():
            varies = name == LANE or self.atoms[name].value.lanes
            (other if varies else same)[name] = coefficient
        return Affine(same, a.constant), other

    def uniform_sum(self, a: Affine) -> Value:
        if not a.terms:
            return constant(a.constant, "i64")
        terms = sorted(a.terms.items(), key=lambda t: (self.atoms[t[0]].value.depth, t[0]))
        value: Value | None = None
        for name, coefficient in terms:
            term = self._times(self.atoms[name].value, coefficient)
            value = term if value is None else self.binary("add", value, term)
        assert value is not None
        return self.binary("add", value, a.constant) if a.constant else value

    def _times(self, x: Value, coefficient: int) -> Value:
        return x if coefficient == 1 else self.binary("mul", x, coefficient)

    def varying_sum(self, terms: dict[str, int], kind: str) -> Value:
        value: Value | None = None
        for name, coefficient in sorted(terms.items()):
            if name == LANE:
                lanes = self.lanes()
                one = lane_numbers(lanes, kind)
                term = self._times(one, coefficient)
            else:
                term = self._times(self.integer(self.atoms[name].value, kind), coefficient)
            value = term if value is None else self.binary("add", value, term)
        assert value is not None
        return value

    def lanes(self) -> int:
        assert self.lane is not None
        return self.lane.lanes


def fits32(low: int, high: int) -> bool:
    """True if all values of the range fit into 32 bits."""
    return low >= -(1 << 31) and high < 1 << 31


def is_sum(e: Expr) -> bool:
    """True if `e` is index arithmetic."""
    if not isinstance(e, Call) or e.dtype != INT or e.op not in _SUMS:
        return False
    return all(x.dtype == INT for x in e.args)


def _limited(ends: Range | None) -> Range:
    """A range within that of 64 bits."""
    low, high = ends or (-UNKNOWN, UNKNOWN)
    return (low, high) if low >= -UNKNOWN and high <= UNKNOWN else (-UNKNOWN, UNKNOWN)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    if dtype.itemsize == 8:
        return -UNKNOWN, UNKNOWN
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _decide(op: str, low: int, high: int) -> bool | None:
    """True or False if d op 0 is decided by low <= d <= high, else None."""
    if op in ("gt", "le"):
        answer = _decide("lt", -high, -low)
        return answer if op == "gt" or answer is None else not answer
    if op == "ge":
        answer = _decide("lt", low, high)
        return None if answer is None else not answer
    if op == "lt":
        return True if high < 0 else False if low >= 0 else None
    differs = True if low > 0 or high < 0 else False if low == high == 0 else None
    return differs if op == "ne" or differs is None else not differs


def _multiply(k: IndexValues, x: Affine, y: Affine) -> Affine | None:
    if not x.terms:
        return scaled(y, x.constant)
    return None if y.terms else scaled(x, y.constant)


def _divided(k: IndexValues, x: Affine, y: Affine, remainder: bool) -> Affine | None:
    if y.terms or y.constant <= 0:
        return None
    return k.quotient(x, y.constant, remainder)


_SUMS: dict[str, Callable[[IndexValues, Affine, Affine], Affine | None]] = {
    "add": lambda k, x, y: total(x, y),
    "sub": lambda k, x, y: total(x, y, -1),
    "mul": _multiply,
    "idiv": lambda k, x, y: _divided(k, x, y, False),
    "imod": lambda k, x, y: _divided(k, x, y, True),
}
