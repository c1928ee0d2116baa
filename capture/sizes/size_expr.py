"""Represents sizes as polynomials over named sizes, in a canonical form.

A floor division with a remainder is one more unknown of the polynomial, a `Quotient`. A remainder
is `n - d * (n // d)`. Two expressions that this algebra can prove equal are equal objects. Named
sizes are integers of at least 1, or of at least 0 if they are data-dependent. Code for any size has
upper bounds of them, too (`codegen/ir/sizes.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class SizeSymbol:
    """A size with a name, its least value, and its greatest one if that is known."""

    name: str
    least: int = 1
    most: int | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """num // den, rounded down."""

    num: SizeExpr
    den: SizeExpr

    @cached_property
    def _hash(self) -> int:
        return hash((self.num, self.den))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def bounds(self) -> tuple[int | None, int | None]:
        """The least and the greatest value; None where it is unknown."""
        den, least, most = self.den.low(), self.num.low(), self.num.high()
        if den is None or den < 1:
            return None, None
        divisor = self.den.high()  # of a number that is not negative; den is one of a negative one
        low = None if least is None else least // den if least < 0 else \
            0 if divisor is None else least // divisor
        high = None if most is None else most // den if most >= 0 else \
            -1 if divisor is None else most // divisor
        return low, high

    @cached_property
    def _text(self) -> str:
        return f"{self.num.grouped()}//{self.den.grouped()}"

    def __str__(self) -> str:
        return self._text


Atom = SizeSymbol | Quotient
Monomial = tuple[tuple[Atom, int], ...]  # atoms with their powers, ordered by their text
Terms = dict[Monomial, int]


class SizeExpr:
    """A polynomial with integer coefficients. Equal polynomials are equal, and hash alike."""

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        nonzero = [(m, c) for m, c in terms.items() if c]
        self.terms = tuple(nonzero if len(nonzero) < 2 else
                           sorted(nonzero, key=lambda term: _sort_key(term[0])))

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeExpr) and self.terms == other.terms

    def __add__(self, other: SizeExpr) -> SizeExpr:
        return SizeExpr(_sum([*self.terms, *other.terms]))

    def __pos__(self) -> SizeExpr:
        return self

    def __neg__(self) -> SizeExpr:
        return SizeExpr({m: -c for m, c in self.terms})

    def __sub__(self, other: SizeExpr) -> SizeExpr:
        return self + -other

    def __mul__(self, other: SizeExpr) -> SizeExpr:
        return SizeExpr(_sum((_times(m, n), c * d) for m, c in self.terms for n, d in other.terms))

    def __floordiv__(self, other: SizeExpr) -> SizeExpr:
        return floor_divide(self, other)

    def __mod__(self, other: SizeExpr) -> SizeExpr:
        return self - other * (self // other)

    def __pow__(self, power: int) -> SizeExpr:
        out = constant(1)
        for _ in range(power):
            out = out * self
        return out

    @property
    def number(self) -> int | None:
        """The value of a constant polynomial, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if self.terms[0][0] == () else None

    @property
    def leading(self) -> int:
        """The coefficient of the first term."""
        return self.terms[0][1] if self.terms else 0

    def reduced(self) -> SizeExpr:
        """The polynomial divided by the greatest common divisor of its coefficients."""
        shared = math.gcd(*(c for _, c in self.terms)) or 1
        return SizeExpr({m: c // shared for m, c in self.terms})

    def symbols(self) -> set[str]:
        """The names of the sizes in the polynomial."""
        return {s.name for s in self.named()}

    def named(self) -> set[SizeSymbol]:
        """The named sizes in the polynomial, including those in quotients."""
        symbols: set[SizeSymbol] = set()
        for atom in self.atoms():
            symbols |= {atom} if isinstance(atom, SizeSymbol) else \
                atom.num.named() | atom.den.named()
        return symbols

    @property
    def name(self) -> str | None:
        """The name of a polynomial that is a single named size, else None."""
        return next((s.name for s in self.named() if self == single(s)), None)

    def atoms(self) -> list[Atom]:
        """The unknowns of the polynomial: named sizes and quotients."""
        return list(dict.fromkeys(atom for m, _ in self.terms for atom, _ in m))

    def value(self, sizes: Mapping[str, int]) -> int:
        """The value for these sizes."""
        return sum(c * math.prod(_atom_value(a, sizes) ** p for a, p in m) for m, c in self.terms)

    def low(self) -> int | None:
        """A lower bound of the value; None if none is known."""
        return self._low

    @cached_property
    def _low(self) -> int | None:
        """The greatest of the bounds that three views of the polynomial give."""
        bounds = [_low_of_terms(self.terms)]
        signs = {c > 0 for m, c in self.terms if m}
        if len(signs) < 2 and all(type(a) is SizeSymbol for m, _ in self.terms for a, _ in m):
            return bounds[0]  # it grows, or falls, with each size
        bounds.append(_low_of_terms(_from_least(self).terms))
        if any(isinstance(a, Quotient) for a in self.atoms()):
            scale, below = self._without_quotients()
            low = _low_of_terms(_from_least(below).terms)
            bounds.append(None if low is None else -(-low // scale))
        return max([n for n in bounds if n is not None], default=None)

    def _without_quotients(self) -> tuple[int, SizeExpr]:
        """(s, e) with s * self >= e. Uses that n // d is between (n - d + 1) / d and n / d."""
        divisors = {a: a.den.number or 0 for a in self.atoms() if isinstance(a, Quotient)}
        scale, total = math.prod(d for d in divisors.values() if d > 0), constant(0)
        for m, c in self.terms:
            atom = m[0][0] if _is_quotient(m) else None
            d = divisors.get(atom, 0) if isinstance(atom, Quotient) else 0
            if isinstance(atom, Quotient) and d > 0:
                bound = atom.num if c < 0 else atom.num - constant(d - 1)
                total = total + bound * constant(c * (scale // d))
            else:
                total = total + SizeExpr({m: c * scale})
        return scale, total

    def high(self) -> int | None:
        """An upper bound of the value; None if none is known."""
        low = (-self).low()
        return None if low is None else -low

    def substituted(self, values: Mapping[str, SizeExpr]) -> SizeExpr:
        """The polynomial with other expressions in the place of named sizes."""
        total = constant(0)
        for m, c in self.terms:
            term = constant(c)
            for a, power in m:
                term = term * _atom_substituted(a, values) ** power
            total = total + term
        return total

    def remainder(self) -> tuple[SizeExpr, SizeExpr] | None:
        """(n, d) of a polynomial that is n % d, else None."""
        for atom in self.atoms():
            if isinstance(atom, Quotient) and self == atom.num % atom.den:
                return atom.num, atom.den
        return None

    def bound(self) -> tuple[SizeExpr, int] | None:
        """(n, m) of a polynomial n // d - c with a constant d: it is negative exactly if n < m."""
        terms = [(m, c) for m, c in self.terms if m]
        if len(terms) != 1 or terms[0][1] != 1 or not _is_quotient(terms[0][0]):
            return None
        atom = terms[0][0][0][0]
        rest = (self - single(atom)).number or 0
        divisor = atom.den.number if isinstance(atom, Quotient) else None
        if divisor is None or divisor < 1 or not isinstance(atom, Quotient):
            return None
        return atom.num, -rest * divisor

    def grouped(self) -> str:
        """The text, in brackets unless it is a single name or number."""
        atomic = (len(self.terms) == 1 and str(self).isidentifier()) or (self.number or -1) >= 0
        return str(self) if atomic else f"({self})"

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        whole = self.remainder()
        if whole is not None:
            return f"{whole[0].grouped()} % {whole[1].grouped()}"
        text = ""
        for m, c in self.terms:
            sign = " - " if c < 0 else " + "
            text += (sign if text else sign.strip().replace("+", "")) + \
                (f"({m[0][0]})" if not text and c == -1 and _is_quotient(m) else _term(m, abs(c)))
        return text or "0"

    __repr__ = __str__


def constant(n: int) -> SizeExpr:
    return SizeExpr({(): n})


def symbol(name: str, least: int = 1, most: int | None = None) -> SizeExpr:
    return single(SizeSymbol(name, least, most))


def floor_divide(a: SizeExpr, b: SizeExpr) -> SizeExpr:
    """a // b: the exact quotient of the divisible terms, plus a `Quotient` of the remainder."""
    if not b.terms:
        raise ZeroDivisionError("a size is divided by 0")
    whole, rest = divide_terms(a, b)
    if not rest.terms:
        return whole
    if rest.number is not None and b.number is not None:
        return whole + constant(rest.number // b.number)
    if _is_between(rest, b):
        return whole
    if _is_between(rest + b, b):
        return whole - constant(1)
    return whole + _quotient(rest, b)


def divide_terms(a: SizeExpr, b: SizeExpr) -> tuple[SizeExpr, SizeExpr]:
    """(whole, rest) with a == whole * b + rest, without any new quotient."""
    return _split(a, b) if len(b.terms) == 1 else _divide_exactly(a, b)


def _is_between(a: SizeExpr, b: SizeExpr) -> bool:
    """True if 0 <= a < b holds for all sizes."""
    low, apart = a.low(), (b - a).low()
    return low is not None and low >= 0 and apart is not None and apart > 0


def _quotient(a: SizeExpr, b: SizeExpr) -> SizeExpr:
    shared = math.gcd(*(c for _, c in (*a.terms, *b.terms)))
    a, b = (SizeExpr({m: c // shared for m, c in e.terms}) for e in (a, b))
    inner = [atom for atom in a.atoms() if isinstance(atom, Quotient)]
    if b.number is not None and b.number > 0 and len(inner) == 1:
        divisor, more = inner[0].den.number, (a - single(inner[0])).number
        if divisor is not None and divisor > 0 and more is not None:  # n // 2 // 2 is n // 4
            return (inner[0].num + constant(divisor * more)) // constant(divisor * b.number)
    return single(Quotient(a, b))


def single(atom: Atom) -> SizeExpr:
    """The polynomial that is just this unknown."""
    return SizeExpr({((atom, 1),): 1})


def _split(a: SizeExpr, b: SizeExpr) -> tuple[SizeExpr, SizeExpr]:
    """(whole, rest) with a == whole * b + rest, for a `b` of one term."""
    (by, scale), whole, rest = b.terms[0], {}, {}
    for m, c in a.terms:
        left = _without(m, by)
        if left is None or (by and c % scale):
            rest[m] = c
        else:
            whole[left] = c // scale
            rest[m] = c % scale
    return SizeExpr(whole), SizeExpr(rest)


def _divide_exactly(a: SizeExpr, b: SizeExpr) -> tuple[SizeExpr, SizeExpr]:
    """(a / b, 0) if a / b is a polynomial, else (0, a)."""
    whole, rest = constant(0), a
    (by, scale) = b.terms[0]
    while rest.terms:
        m, c = rest.terms[0]
        left = _without(m, by)
        if left is None or c % scale:
            return constant(0), a
        step = SizeExpr({left: c // scale})
        whole, rest = whole + step, rest - step * b
    return whole, rest


# ---- monomials
def _sum(terms: Iterable[tuple[Monomial, int]]) -> Terms:
    out: Terms = {}
    for m, c in terms:
        out[m] = out.get(m, 0) + c
    return out


@functools.lru_cache(maxsize=1 << 16)
def _times(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    powers: dict[Atom, int] = dict(m)
    for atom, power in n:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def _without(m: Monomial, by: Monomial) -> Monomial | None:
    """m / by, or None if that is not a monomial."""
    powers = dict(m)
    for atom, power in by:
        powers[atom] = powers.get(atom, 0) - power
    if any(p < 0 for p in powers.values()):
        return None
    return tuple((atom, p) for atom, p in powers.items() if p)


@functools.lru_cache(maxsize=1 << 16)
def _sort_key(m: Monomial) -> tuple[int, str]:
    return -sum(p for _, p in m), _term(m, 1)


def _term(m: Monomial, c: int) -> str:
    factors = [f"{_factor(a)}**{p}" if p > 1 else _factor(a) for a, p in m]
    if not m:
        return str(c)
    if c == 1 and _is_quotient(m):
        return str(m[0][0])
    return "*".join(([str(c)] if c != 1 else []) + factors)


def _is_quotient(m: Monomial) -> bool:
    return len(m) == 1 and m[0][1] == 1 and isinstance(m[0][0], Quotient)


def _factor(atom: Atom) -> str:
    return f"({atom})" if isinstance(atom, Quotient) else str(atom)


def _atom_value(atom: Atom, sizes: Mapping[str, int]) -> int:
    if isinstance(atom, SizeSymbol):
        return sizes[atom.name]
    return atom.num.value(sizes) // atom.den.value(sizes)


def _atom_substituted(atom: Atom, values: Mapping[str, SizeExpr]) -> SizeExpr:
    if isinstance(atom, SizeSymbol):
        return values.get(atom.name) or single(atom)
    return atom.num.substituted(values) // atom.den.substituted(values)


# ---- bounds
def _low_of_terms(terms: Iterable[tuple[Monomial, int]]) -> int | None:
    """A lower bound of a polynomial: the sum of the lower bounds of its terms."""
    total = 0
    for m, c in terms:
        bound = _monomial_bounds(m)[c < 0]
        if bound is None:
            return None
        total += c * bound
    return total


def _from_least(e: SizeExpr) -> SizeExpr:
    """The polynomial in n' for each n = n' + least: m * n - m is m' * n' + n' if both are at least
    1, and so never negative."""
    shifted = {s.name: single(SizeSymbol(s.name, 0, None if s.most is None else s.most - s.least))
               + constant(s.least) for s in e.atoms() if isinstance(s, SizeSymbol) and s.least}
    return e.substituted(shifted) if shifted and not any(
        isinstance(a, Quotient) for a in e.atoms()) else e


def _monomial_bounds(m: Monomial) -> tuple[int | None, int | None]:
    """The least and the greatest value of a monomial; None where it is unknown."""
    low: int | None = 1
    high: int | None = 1
    for atom, power in m:
        for _ in range(power):
            low, high = _product_bounds((low, high), _atom_bounds(atom))
    return low, high


def _product_bounds(a: tuple[int | None, int | None], b: tuple[int | None, int | None]
                    ) -> tuple[int | None, int | None]:
    """The bounds of the product of two numbers with these bounds."""
    if a == (1, 1):
        return b
    (low, high), (least, most) = a, b
    if low is not None and least is not None and low >= 0 and least >= 0:
        return low * least, None if high is None or most is None else high * most
    if low is None or high is None or least is None or most is None:
        return None, None
    corners = [x * y for x in (low, high) for y in (least, most)]
    return min(corners), max(corners)


def _atom_bounds(atom: Atom) -> tuple[int | None, int | None]:
    """The least and the greatest value of an atom; None where it is unknown."""
    if isinstance(atom, SizeSymbol):
        return atom.least, atom.most
    return atom.bounds
