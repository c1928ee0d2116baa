"""Index arithmetic with sizes that are known at run time only, compared with Python's integers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fusewire.capture.sizes.symbolic_dim import size_expr_of
from fusewire.codegen.ir.affine_index import as_index, variable
from fusewire.codegen.ir.axis_coalescing import linear_form
from fusewire.codegen.ir.builder import ExprValue
from fusewire.codegen.ir.loop_ir import Call, Const, Expr, SizeValue, Var
from fusewire.codegen.ir.scalar_ops import SCALAR
from fusewire.codegen.ir.sizes import (
    bounded_size,
    ceil_div,
    is_at_least,
    largest,
    least,
    lower_bound,
    split,
    upper_bound,
)

RANGES = {"n": (1, 5), "m": (2, 4)}
BOUNDED = {name: bounded_size(name, *ends) for name, ends in RANGES.items()}
AXES: dict[str, Any] = {  # the length of each loop, over any kind of sizes
    "a": lambda n, m: n, "b": lambda n, m: m, "c": lambda n, m: n * m, "d": lambda n, m: 3,
    "e": lambda n, m: n + 2, "f": lambda n, m: n * m + m}
LOOPS = {name: variable(name, length(**BOUNDED)) for name, length in AXES.items()}
DIVISORS: list[Any] = [
    lambda n, m: 2, lambda n, m: 7, lambda n, m: n, lambda n, m: m, lambda n, m: n * m,
    lambda n, m: 3 * m, lambda n, m: n + 1, lambda n, m: (n + 1) // 2 + 1]
SIZES = [dict(zip(RANGES, both)) for both in itertools.product(
    *(range(low, high + 1) for low, high in RANGES.values()))]


def value(e: Expr, at: dict[str, int], sizes: dict[str, int]) -> Any:
    """The number that an expression is for these variables and sizes."""
    if isinstance(e, Const):
        return e.value
    if isinstance(e, SizeValue):
        return size_expr_of(e.size).value(sizes)
    if isinstance(e, Var):
        return at[e.name]
    assert isinstance(e, Call)
    operands = [np.int64(value(x, at, sizes)) for x in e.args]
    assert e.op not in ("idiv", "imod") or (operands[0] >= 0 and operands[1] > 0)
    return SCALAR[e.op].function(*operands)


def number(size: Any, sizes: dict[str, int]) -> int:
    """The value of a size."""
    return size_expr_of(size).value(sizes)


def positions(sizes: dict[str, int], seed: int = 0) -> list[dict[str, int]]:
    """Some positions of the loops, the first and the last among them."""
    rng = np.random.default_rng(seed)
    ends = {name: length(**sizes) for name, length in AXES.items()}
    return [dict.fromkeys(ends, 0), {k: n - 1 for k, n in ends.items()},
            *[{k: int(rng.integers(n)) for k, n in ends.items()} for _ in range(6)]]


trees = st.recursive(
    st.sampled_from(list(AXES)) | st.integers(0, 9) | st.sampled_from(["n", "m"]),
    lambda inner: st.tuples(st.sampled_from("+-*/%"), inner,
                            inner | st.integers(-len(DIVISORS), -1)),
    max_leaves=7)


def built(tree: Any, leaves: dict[str, Any], sizes: Any) -> Any:
    """The value of a tree; a divisor, or a factor, is a number or a size."""
    if not isinstance(tree, tuple):
        return leaves.get(tree, sizes.get(tree, tree)) if isinstance(tree, str) else abs(tree)
    op, left, right = tree
    x = built(left, leaves, sizes)
    if op in "+-":
        y = built(right, leaves, sizes)
        return x + y if op == "+" else x - y
    by = DIVISORS[abs(right) % len(DIVISORS) if isinstance(right, int) else 2](**sizes)
    return x * by if op == "*" else x // by if op == "/" else x % by


@settings(max_examples=400, deadline=None)
@given(trees)
def test_random_indices_are_pythons_integers_at_all_sizes(tree: Any) -> None:
    index = as_index(built(tree, LOOPS, BOUNDED))
    low, high = index.range()
    terms, constant = linear_form(index.expr())
    for sizes in SIZES:
        for at in positions(sizes):
            expected = built(tree, at, sizes)
            assert value(index.expr(), at, sizes) == expected
            assert number(low, sizes) <= expected <= number(high, sizes)
            assert number(constant, sizes) + sum(
                value(e, at, sizes) * number(c, sizes) for e, c in terms.items()) == expected


@settings(max_examples=200, deadline=None)
@given(trees, trees)
def test_comparisons_are_right_at_all_sizes(left: Any, right: Any) -> None:
    x, y = (as_index(built(tree, LOOPS, BOUNDED)) for tree in (left, right))
    for op in ("__lt__", "__le__", "__ge__", "__gt__", "__eq__"):
        found = getattr(x, op)(y)
        for sizes in SIZES[::3]:
            for at in positions(sizes)[:4]:
                expected = getattr(built(left, at, sizes), op)(built(right, at, sizes))
                assert (value(found.expr, at, sizes) if isinstance(found, ExprValue)
                        else found) == expected


size_trees = st.recursive(
    st.integers(0, 9) | st.sampled_from(["n", "m"]),
    lambda inner: st.tuples(st.sampled_from("+-*/%"), inner, st.integers(-len(DIVISORS), -1)
                            | inner), max_leaves=6)


@settings(max_examples=400, deadline=None)
@given(size_trees, size_trees)
def test_bounds_of_sizes_hold(left: Any, right: Any) -> None:
    a, b = (built(tree, {}, BOUNDED) for tree in (left, right))
    by = DIVISORS[len(str(left)) % len(DIVISORS)](**BOUNDED)
    whole, rest = split(a, by)
    for sizes in SIZES:
        x, y, d = (number(n, sizes) for n in (a, b, by))
        assert (x, y) == (built(left, {}, sizes), built(right, {}, sizes))
        assert lower_bound(a) <= x <= upper_bound(a)
        assert number(least(a, b), sizes) <= min(x, y) <= max(x, y) <= number(largest(a, b), sizes)
        assert not is_at_least(a, b) or x >= y
        assert number(whole, sizes) * d + number(rest, sizes) == x
        assert number(ceil_div(a, by), sizes) == -(-x // d)


def test_the_position_of_a_reshape_vanishes_for_all_sizes() -> None:
    n, m = BOUNDED["n"], BOUNDED["m"]
    i, j, k = variable("i", n), variable("j", m), variable("k", 5)
    x = (i * m + j) * 5 + k
    assert (x // (5 * m)).equals(i) and (x // 5 % m).equals(j) and (x % 5).equals(k)
    assert ((x < n * m * 5), (x >= 0)) == (True, True)
