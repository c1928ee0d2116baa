"""Represents index arithmetic as sums: 3*i + j + 5 is {i: 3, j: 1} and 5, with the bounds of i and
j.

A sum shows how an index moves along the lanes: not at all, by one, or otherwise. Its parts are
computed in front of the loops that they do not depend on, and its bounds prove most divisions away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from .ir_builder import Value

LANE = "lane"  # the number of the lane, 0, 1, 2 ... across a vector
UNKNOWN = 1 << 63


class Atom(NamedTuple):
    """A term of a sum: a value with low <= value <= high, which is a multiple of `multiple`."""

    value: Value
    low: int = -UNKNOWN
    high: int = UNKNOWN
    multiple: int = 1


class Affine(NamedTuple):
    """The sum of coefficient * atom over `terms`, and a constant."""

    terms: dict[str, int]
    constant: int = 0


def total(a: Affine, b: Affine, factor: int = 1) -> Affine:
    """a + factor * b."""
    terms = dict(a.terms)
    for name, coefficient in b.terms.items():
        terms[name] = terms.get(name, 0) + factor * coefficient
        if not terms[name]:
            del terms[name]
    return Affine(terms, a.constant + factor * b.constant)


def scaled(a: Affine, factor: int) -> Affine:
    """factor * a."""
    return total(Affine({}), a, factor)


def bounds(a: Affine, atoms: Mapping[str, Atom]) -> tuple[int, int]:
    """The least and the greatest value that the sum can have."""
    low = high = a.constant
    for name, coefficient in a.terms.items():
        atom = atoms[name]
        ends = (coefficient * atom.low, coefficient * atom.high)
        low, high = low + min(ends), high + max(ends)
    return low, high


def may_wrap(a: Affine, atoms: Mapping[str, Atom]) -> bool:
    """True if the sum may not fit into 64 bits, as sums of a user's numbers."""
    low, high = bounds(a, atoms)
    return low < -UNKNOWN or high > UNKNOWN


def multiple(a: Affine, atoms: Mapping[str, Atom]) -> int:
    """A number that divides the sum; 0 for the sum 0."""
    steps = (coefficient * atoms[name].multiple for name, coefficient in a.terms.items())
    return math.gcd(a.constant, *steps)


class Division(NamedTuple):
    """a = divisor * whole + rest + low, where `low` never fills a step of `rest`.

    So a // divisor is whole + rest // divisor, and a % divisor is rest % divisor + low.
    """

    whole: Affine
    rest: Affine
    low: Affine


def divide(a: Affine, divisor: int, atoms: Mapping[str, Atom]) -> Division:
    """Splits a sum that is not negative, as far as its bounds allow; nor is `rest` negative."""
    whole = {n: c // divisor for n, c in a.terms.items() if c % divisor == 0}
    others = Affine({n: c for n, c in a.terms.items() if c % divisor}, a.constant)
    least = bounds(others, atoms)[0]
    if least < -UNKNOWN // 2:  # nothing to know how much may be taken away
        whole, others, least = {}, a, 0
    quotient = Affine(whole, least // divisor)
    constant = a.constant - least // divisor * divisor
    terms = sorted(others.terms.items(), key=lambda t: abs(t[1]) * atoms[t[0]].multiple)
    for remainder_terms in range(len(terms), -1, -1):
        rest = Affine(dict(terms[remainder_terms:]), 0)
        step = math.gcd(divisor, multiple(rest, atoms))
        low = Affine(dict(terms[:remainder_terms]), constant % step)
        least, greatest = bounds(low, atoms)
        if least >= 0 and greatest < step:
            return Division(quotient, Affine(rest.terms, constant - constant % step), low)
    raise AssertionError("a constant alone always fits")
