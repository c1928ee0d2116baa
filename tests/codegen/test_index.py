"""Index arithmetic: whatever form an index takes, it counts what Python's integers count."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusewire.codegen.ir.affine_index import Index, as_index, variable
from fusewire.codegen.ir.axis_coalescing import linear_form, linear_forms, merge_axes
from fusewire.codegen.ir.builder import ExprValue
from fusewire.codegen.ir.inline import flatten
from fusewire.codegen.ir.loop_ir import Call, Const, Expr, Var
from fusewire.codegen.ir.scalar_ops import SCALAR
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.core.op import OPS

SIZES = {"a": 2, "b": 3, "c": 7, "d": 8, "e": 1}
VARIABLES = {name: variable(name, n) for name, n in SIZES.items()}


def value(e: Expr, at: dict[str, int]) -> Any:
    """The number that an expression is where the variables have these values."""
    if isinstance(e, Const):
        return e.value
    if isinstance(e, Var):
        return at[e.name]
    assert isinstance(e, Call)
    operands = [np.int64(value(x, at)) for x in e.args]
    assert e.op not in ("idiv", "imod") or operands[0] >= 0  # machine code divides unsigned
    return SCALAR[e.op].function(*operands)


def places() -> Any:
    """All positions of the loops."""
    return [dict(zip(SIZES, p)) for p in itertools.product(*map(range, SIZES.values()))]


# An index as a tree: a variable, or a sum, a difference, a multiple, a quotient or a remainder of
# trees.
trees = st.recursive(
    st.sampled_from(list(SIZES)) | st.integers(0, 9),
    lambda inner: st.tuples(st.sampled_from("+-*/%"), inner, inner | st.integers(1, 12)),
    max_leaves=7)


def built(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    """The tree's value over leaves of any kind; divisors and factors are whole numbers."""
    if not isinstance(tree, tuple):
        return leaf(tree)
    op, left, right = tree
    x = built(left, leaf)
    if op == "+":
        return x + built(right, leaf)
    if op == "-":
        return x - built(right, leaf)
    number = right if isinstance(right, int) and right else 5
    return {"*": x * number, "/": x // number, "%": x % number}[op]


@settings(max_examples=300, deadline=None)
@given(trees)
def test_random_indices_are_pythons_integers(tree: Any) -> None:
    index = as_index(built(tree, lambda x: VARIABLES[x] if isinstance(x, str) else as_index(x)))
    low, high = index.range()
    for at in places()[::5]:
        expected = built(tree, lambda x, at=at: at[x] if isinstance(x, str) else x)
        assert value(index.expr(), at) == expected
        assert low <= expected <= high


@settings(max_examples=200, deadline=None)
@given(trees, trees)
def test_comparisons_that_are_decided_are_decided_rightly(left: Any, right: Any) -> None:
    x, y = (as_index(built(t, lambda v: VARIABLES[v] if isinstance(v, str) else as_index(v)))
            for t in (left, right))
    for op in ("__lt__", "__le__", "__ge__", "__gt__", "__eq__"):
        found = getattr(x, op)(y)
        for at in places()[::7]:
            a, b = (built(t, lambda v, at=at: at[v] if isinstance(v, str) else v)
                    for t in (left, right))
            expected = getattr(a, op)(b)
            assert (value(found.expr, at) if isinstance(found, ExprValue) else found) == expected


@settings(max_examples=100, deadline=None)
@given(trees)
def test_the_linear_form_is_the_index(tree: Any) -> None:
    index = as_index(built(tree, lambda x: VARIABLES[x] if isinstance(x, str) else as_index(x)))
    terms, constant = linear_form(index.expr())
    for at in places()[::9]:
        total = constant + sum(value(e, at) * factor for e, factor in terms.items())
        assert total == value(index.expr(), at)


@pytest.mark.parametrize(("shape", "new"), [
    ((2, 3, 4), (6, 4)), ((2, 3, 4), (24,)), ((24,), (2, 3, 4)), ((6, 4), (4, 6)), ((4, 6), (3, 8)),
    ((1, 5, 1), (5,)), ((7, 2), (2, 7))])
def test_positions_survive_a_reshape(shape: tuple[int, ...], new: tuple[int, ...]) -> None:
    """Flattened and cut again, an index of `new` names the element of `shape` in the same place."""
    names = [variable(f"i{a}", n) for a, n in enumerate(new)]
    position = flatten(tuple(names), new)
    element = []
    for n in reversed(shape):
        element.insert(0, position % n)
        position = position // n
    for at in np.ndindex(*new):
        where = {f"i{a}": i for a, i in enumerate(at)}
        found = tuple(int(value(as_index(e).expr(), where)) for e in element)
        assert found == np.unravel_index(np.ravel_multi_index(at, new), shape)


def test_what_ranges_decide_vanishes() -> None:
    i, j = variable("i", 4), variable("j", 8)
    x = i * 8 + j
    assert (x // 8).equals(i) and (x % 8).equals(j)
    assert ((x * 2 + 1) // 2).equals(x)
    assert (x < 32) is True and (x >= 32) is False
    assert not (j % 3).equals(j) and (j % 8).equals(j)
    assert variable("one", 1).equals(0)


def test_equal_indices_are_one_expression() -> None:
    i, j = variable("p", 4), variable("q", 8)
    assert (i * 8 + j).expr() is (j + i * 4 * 2).expr()
    assert ((i * 8 + j) // 3).expr() is ((j + 8 * i) // 3).expr()


# ---- merging axes into one loop
def stepping(*strides: int) -> Any:
    """What merging is asked about: an index that steps through the axes with these strides."""
    return lambda names: [sum((n * s for n, s in zip(names, strides)), as_index(0))]


@pytest.mark.parametrize(("domain", "strides", "runs"), [
    ((2, 3, 4), [(12, 4, 1)], [[0, 1, 2]]),  # contiguous: one loop
    ((2, 3, 4), [(12, 4, 1), (0, 0, 0)], [[0, 1, 2]]),  # and a number beside it
    ((2, 3, 4), [(12, 4, 1), (4, 0, 1)], [[0], [1], [2]]),  # broadcast along the middle
    ((2, 3, 4), [(12, 4, 1), (0, 4, 1)], [[0], [1, 2]]),  # broadcast along the first
    ((2, 3, 4), [(12, 4, 1), (3, 1, 0)], [[0, 1], [2]]),  # broadcast along the last
    ((2, 3, 4), [(1, 2, 6)], [[0], [1], [2]]),  # transposed
    ((2, 1, 4), [(4, 9, 1)], [[0, 1, 2]]),  # an axis of size 1 is no obstacle
    ((2, 3, 4), [(24, 8, 2)], [[0, 1, 2]]),  # every second element
    ((2, 3, 4), [(-12, -4, -1)], [[0, 1, 2]])])  # backwards
def test_axes_merge_where_everything_steps_through_them_as_one(
    domain: tuple[int, ...], strides: Any, runs: Any
) -> None:
    names = tuple(variable(f"i{a}", n) for a, n in enumerate(domain))
    found = [sum((n * s for n, s in zip(names, each)), as_index(0)).expr() for each in strides]
    assert merge_axes(domain, names, linear_forms(found)) == runs


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_merged_axes_are_stepped_through_as_one(domain: list[int], data: Any) -> None:
    """Every index is the same function of a run's one variable as it was of its axes' variables."""
    names = tuple(variable(f"i{a}", n) for a, n in enumerate(domain))
    lead = st.lists(st.integers(-3, 12), min_size=len(domain), max_size=len(domain))
    indices: list[Index] = []
    for strides in data.draw(st.lists(lead, min_size=1, max_size=3)):
        index = sum((n * s for n, s in zip(names, strides)), as_index(40))
        divisor = data.draw(st.integers(1, 6))
        indices.append(data.draw(st.sampled_from([index, index // divisor, index % divisor])))
    runs = merge_axes(tuple(domain), names, linear_forms([i.expr() for i in indices]))
    assert [a for run in runs for a in run] == list(range(len(domain)))
    for at in np.ndindex(*domain):
        merged = dict.fromkeys((f"i{a}" for a in range(len(domain))), 0)
        for run in runs:
            sizes = [domain[a] for a in run]
            long = [a for a in run if domain[a] != 1]
            if long:
                merged[f"i{long[-1]}"] = int(np.ravel_multi_index([at[a] for a in run], sizes))
        plain = {f"i{a}": i for a, i in enumerate(at)}
        for index in indices:
            assert value(index.expr(), merged) == value(index.expr(), plain)


def test_a_reshape_of_some_axes_divides_only_these() -> None:
    """Padded windows of an image that is a reshape of rows: the padding has no bound that would let
    a division by all elements of an image vanish."""
    new, old = (2, 7, 8, 3, 1), (2, 56, 1, 3)
    index = tuple(variable(f"i{a}", 1 << 20) for a in range(len(new)))
    (source,) = OPS["reshape"].meaning(None, index, [TensorType(old, np.dtype("float32"))], None,
                                       new)
    assert [sorted(e.name for e in i.terms) for i in map(as_index, source.index)] == [
        ["i0"], ["i1", "i2"], [], ["i3", "i4"]]


@pytest.mark.parametrize(("new", "old"), [
    ((6,), (2, 3)), ((1, 6, 1), (3, 2)), ((4, 6), (2, 12)), ((), (1, 1)), ((1, 1), ()),
    ((2, 3, 4), (6, 4)), ((1, 2, 1, 8), (4, 1, 4)), ((5, 1), (1, 5)), ((2, 9), (2, 3, 3))])
def test_reshapes_read_the_same_element(new: tuple[int, ...], old: tuple[int, ...]) -> None:
    x = np.arange(np.prod(old, dtype=int)).reshape(old)
    for at, want in np.ndenumerate(x.reshape(new)):
        (source,) = OPS["reshape"].meaning(None, at, [TensorType(old, x.dtype)], None, new)
        assert x[source.index] == want
