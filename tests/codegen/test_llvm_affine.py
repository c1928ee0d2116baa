"""Sums stand for index expressions: division is exact whatever is known of their parts."""

import numpy as np
import pytest

from fusewire.codegen.llvm.affine import UNKNOWN, Affine, Atom, bounds, divide, multiple, total
from fusewire.codegen.llvm.ir_builder import Value


def value(a, numbers):
    """The sum for given values of its atoms."""
    return a.constant + sum(c * numbers[n] for n, c in a.terms.items())


def random_case(rng):
    """A sum, what is known of its atoms, and values that agree with that."""
    atoms, numbers, terms = {}, {}, {}
    for name in "abc"[: rng.integers(1, 4)]:
        step = int(rng.choice([1, 1, 4, 8]))
        low = int(rng.integers(-2, 3)) * step
        high = low + int(rng.integers(0, 6)) * step
        numbers[name] = int(rng.integers(low // step, high // step + 1)) * step
        known = rng.random() < 0.8
        atoms[name] = Atom(
            Value(name, "i64"), low if known else -UNKNOWN, high if known else UNKNOWN, step
        )
        terms[name] = int(rng.choice([1, 2, 3, 4, 8, 16, 32, -1, -8]))
    return Affine(terms, int(rng.integers(-20, 60))), atoms, numbers


def test_division_of_random_sums():
    rng = np.random.default_rng(0)
    proved = 0
    for _ in range(6000):
        a, atoms, numbers = random_case(rng)
        divisor = int(rng.choice([1, 2, 3, 4, 8, 12, 16, 32]))
        n = value(a, numbers)
        if n < 0:
            continue  # an index is not negative where it is used
        whole, rest, low = divide(a, divisor, atoms)
        r = value(rest, numbers)
        assert r >= 0
        assert value(whole, numbers) + r // divisor == n // divisor, (a, atoms, divisor)
        assert r % divisor + value(low, numbers) == n % divisor, (a, atoms, divisor)
        proved += not rest.terms
    assert proved > 1200


def test_bounds_and_multiples_hold_for_all_values():
    rng = np.random.default_rng(1)
    for _ in range(2000):
        a, atoms, numbers = random_case(rng)
        low, high = bounds(a, atoms)
        n, step = value(a, numbers), multiple(a, atoms)
        assert low <= n <= high
        assert n == 0 if step == 0 else n % step == 0


@pytest.mark.parametrize("divisor, uniform", [(16, True), (32, True), (24, False)])
def test_lanes_within_a_row_divide_alike(divisor, uniform):
    """j is a multiple of 16, and 16 lanes are added: a row of 16 or 32 is never left."""
    atoms = {
        "j": Atom(Value("j", "i64"), 0, 304, 16),
        "lane": Atom(Value("lane", "i64", 16), 0, 15),
    }
    division = divide(Affine({"j": 1, "lane": 1}), divisor, atoms)
    assert ("lane" in division.low.terms) == uniform


def test_terms_that_cancel_vanish():
    a, b = Affine({"i": 2, "j": 1}, 3), Affine({"i": 1, "j": 1}, 1)
    assert total(a, b, -2) == Affine({"j": -1}, 1)
