"""Symbolic sizes: one canonical form, int's behaviour, conditions and leaks noted."""

from __future__ import annotations

import copy
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fusewire as fw
from fusewire.capture.graph.text import parse, to_text
from fusewire.capture.sizes.size_expr import SizeExpr, constant, symbol
from fusewire.capture.sizes.symbolic_dim import Dim, ShapeEnv, concrete
from fusewire.eager.arrays.shapes import broadcast, resolve_reshape

NAMES = ("b", "h", "w")
SMALL = st.integers(-6, 6)


def sizes(**values: int) -> ShapeEnv:
    return ShapeEnv(values)


def exprs() -> Any:
    """Random formulas, with their text in Python as check."""
    leaves = st.one_of(SMALL.map(lambda n: (constant(n), f"({n})")),
                       st.sampled_from(NAMES).map(lambda n: (symbol(n), n)))

    def grow(inner: Any) -> Any:
        pairs = st.tuples(st.sampled_from("+-*"), inner, inner).map(_combined)
        divisors = st.one_of(st.integers(1, 6).map(lambda n: (constant(n), str(n))),
                             st.sampled_from(NAMES).map(lambda n: (symbol(n), n)))
        return st.one_of(pairs, st.tuples(st.sampled_from(["//", "%"]), inner, divisors)
                         .map(_combined))

    return st.recursive(leaves, grow, max_leaves=6)


def _combined(drawn: Any) -> tuple[SizeExpr, str]:
    sign, (a, left), (b, right) = drawn
    fn: Callable[[Any, Any], Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul,
                                     "//": operator.floordiv, "%": operator.mod}[sign]
    return fn(a, b), f"({left} {sign} {right})"


VALUES = st.fixed_dictionaries({name: st.integers(1, 9) for name in NAMES})


@given(exprs(), VALUES)
@settings(max_examples=100, deadline=None)
def test_a_formula_has_the_value_of_its_python(drawn: tuple[SizeExpr, str], values: Any) -> None:
    expr, text = drawn
    want = eval(text, {}, values)
    assert expr.value(values) == want
    assert eval(str(expr), {}, values) == want, "its own text is Python as well"


@given(exprs(), VALUES)
@settings(max_examples=100, deadline=None)
def test_bounds_hold(drawn: tuple[SizeExpr, str], values: Any) -> None:
    low, high, value = drawn[0].low(), drawn[0].high(), drawn[0].value(values)
    assert low is None or low <= value
    assert high is None or value <= high


@given(exprs(), exprs(), VALUES)
@settings(max_examples=100, deadline=None)
def test_comparisons_are_those_of_the_values(a: Any, b: Any, values: Any) -> None:
    """Noted once, and answered in the same way afterwards."""
    made = ShapeEnv(values)
    x, y = made.make(a[0]), made.make(b[0])
    p, q = concrete(x), concrete(y)
    with made.recording():
        for op in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
            assert op(x, y) is op(p, q)
    if not (type(x) is int and type(y) is int):
        assert (x < y) is (p < q)
    for condition in made.conditions.values():
        assert condition.holds(values)
        assert eval(str(condition), {}, values) is True


@pytest.mark.parametrize(("left", "right"), [
    ("b*h + h*b", "2*b*h"), ("(b + 1)*(b - 1)", "b*b - 1"), ("b*4*h // (b*h)", "4"),
    ("h // 2 // 2", "h // 4"), ("4*b // 6", "2*b // 3"), ("(h + 6) // 2", "h // 2 + 3"),
    ("b % b", "0"), ("b*h % h", "0"), ("b // 3 * 3 + b % 3", "b"), ("(b + h) * w // (b + h)", "w"),
    ("-(-b // 4)", "b - 3*b // 4"),
])
def test_equal_formulas_are_equal(left: str, right: str) -> None:
    made = sizes(b=8, h=28, w=14)
    env = {name: made.named(name) for name in NAMES}
    a, b = eval(left, {}, env), eval(right, {}, env)
    with made.recording():
        assert a == b
    assert not made.conditions
    assert hash(a) == hash(b)


@pytest.mark.parametrize("question", [
    "b >= 1", "b > 0", "b != 0", "not b == -1", "b + h > b", "2*b >= b", "b // 2 >= 0",
    "h - h // 2 >= 0", "b // 2 <= b", "bool(b)", "b * h != 0", "3 * (b % 3) < 9", "b + 3 >= 4",
])
def test_what_holds_for_all_sizes_is_not_noted(question: str) -> None:
    made = sizes(b=8, h=28)
    with made.recording():
        assert eval(question, {}, {"b": made.named("b"), "h": made.named("h")}) is True
    assert not made.conditions


@pytest.mark.parametrize(("question", "text"), [
    ("b == 8", "b == 8"), ("b == 7", "b != 7"), ("b < 16", "b < 16"), ("b > 16", "b < 17"),
    ("2*b == 16", "b == 8"), ("b // 2 < 9", "b < 18"), ("b % 4 == 0", "b % 4 == 0"),
    ("6*b % 4 == 0", "b % 2 == 0"), ("b == h", "b != h"), ("16 > b", "b < 16"),
    ("(h - 3) // 2 + 1 < 1", "h >= 3"),
])
def test_what_does_not_is_noted_with_the_line(question: str, text: str) -> None:
    made = sizes(b=8, h=28)
    with made.recording():
        for _ in range(2):
            eval(question, {}, {"b": made.named("b"), "h": made.named("h")})
    (condition,) = made.conditions.values()
    assert str(condition) == text
    assert condition.holds({"b": 8, "h": 28})


def test_the_line_is_the_users() -> None:
    made = sizes(b=8)
    b = made.named("b")
    with made.recording():
        assert b == 8
        assert range(b) == range(8)
    (condition,) = made.conditions.values()
    assert "test_dims.py" in condition.line and "test_dims.py" in made.fixed[0].line


def test_conditions_that_follow_from_others() -> None:
    made = sizes(b=8)
    b = made.named("b")
    with made.recording():
        assert [b >= 3, b >= 2, b != 1, b < 10, b < 12] == [True] * 5
    three, two, one, ten, twelve = made.conditions.values()
    assert two.follows_from(three) and one.follows_from(three) and twelve.follows_from(ten)
    assert not three.follows_from(two) and not ten.follows_from(three)
    assert not three.follows_from(three)


@pytest.mark.parametrize(("use", "want", "how"), [
    (lambda n: range(n), range(8), "plain int"), (lambda n: [0] * n, [0] * 8, "*"),
    (lambda n: math.sqrt(n), math.sqrt(8), "float"), (lambda n: int(n), 8, "int()"),
    (lambda n: float(n), 8.0, "float"), (lambda n: complex(n), 8 + 0j, "complex()"),
    (lambda n: n / 2, 4.0, "/"), (lambda n: 2 / n, 0.25, "/"), (lambda n: n * 0.5, 4.0, "*"),
    (lambda n: n & 3, 0, "&"), (lambda n: 1 << n, 256, "<<"), (lambda n: n >> 1, 4, ">>"),
    (lambda n: 2 ** n, 256, "**"), (lambda n: n ** 0.5, 8 ** 0.5, "**"),
    (lambda n: {8: "x"}[n], "x", "dictionary key"), (lambda n: n.bit_length(), 4, "bit_length"),
    (lambda n: n < 8.5, True, "float"), (lambda n: list(range(9))[:n], list(range(8)), "int"),
    (lambda n: np.arange(n).size, 8, "NumPy"), (lambda n: np.ones(3)[0] * (n + 0.5), 8.5, "float"),
])
def test_leaks_give_the_number_and_are_noted(use: Any, want: Any, how: str) -> None:
    made = sizes(b=8)
    with made.recording():
        assert use(made.named("b")) == want
    assert made.fixed and how in made.fixed[0].how and made.fixed[0].value == 8


@pytest.mark.parametrize("use", [
    lambda n: n + 1, lambda n: 1 - n, lambda n: -n, lambda n: +n, lambda n: abs(n), lambda n: ~n,
    lambda n: n ** 2, lambda n: divmod(n, 3), lambda n: divmod(20, n), lambda n: round(n),
    lambda n: math.floor(n), lambda n: n - 0.0, lambda n: math.prod([n, n, 2]), lambda n: sum([n]),
    lambda n: np.int64(3) * n, lambda n: max(n, 3), lambda n: n.real + n.imag,
    lambda n: n.numerator // n.denominator, lambda n: copy.deepcopy(n) + copy.copy(n),
])
def test_arithmetic_stays_symbolic(use: Any) -> None:
    made = sizes(b=8)
    with made.recording():
        out = use(made.named("b"))
        assert concrete(out) == use(8)
    assert not made.fixed
    assert any(type(x) is Dim for x in (out if isinstance(out, tuple) else (out,)))


def test_it_looks_like_an_int() -> None:
    made = sizes(b=8)
    b = made.named("b")
    assert isinstance(b, int) and not isinstance(b, (bool, float))
    assert hasattr(b, "bit_length") and not hasattr(b, "dtype") and not hasattr(b, "item")
    match b:
        case int():
            pass
        case _:
            pytest.fail("match int() must take it")
    with made.recording():
        assert f"{b} {b:>3} {b!r}" == "8   8 8"
        assert (b, 3) == (b, 3) and b != "x" and b is not None
    assert made.printed and not made.fixed
    assert str(b + 1) == "b + 1", "after the run, the formula"
    with pytest.raises(TypeError):
        b + "x"
    with pytest.raises(ZeroDivisionError):
        b // 0


def test_a_tensor_takes_its_own_operators() -> None:
    made = sizes(b=8)
    with made.recording(), pytest.raises(AttributeError):
        made.named("b").dtype  # noqa: B018
    out = 2 * fw.ones(2)
    assert isinstance(made.named("b").__mul__(out), type(NotImplemented))


def test_shape_rules_keep_sizes_symbolic() -> None:
    made = sizes(b=8, t=5)
    b, t = made.named("b"), made.named("t")
    with made.recording():
        assert broadcast("add", (b, 1, 4), (t, 1)) == (b, t, 4)
        assert broadcast("add", (b, 4), (4,), (b, 1)) == (b, 4)
        assert resolve_reshape((b, t, 6), (b, -1)) == (b, t * 6)
        assert resolve_reshape((b, t, 6), (-1, 3)) == (b * t * 2, 3)
        assert resolve_reshape((b, t), (b * t,)) == (b * t,)
    assert not made.fixed
    assert not [c for c in made.conditions.values() if c.outcome and c.relation == "eq"]


def test_graphs_with_sizes_print_and_parse() -> None:
    text = """x = input()  # float32[batch, 6]
v1 = reshape(x, shape=(2*batch, 3))  # float32[2*batch, 3]
v2 = divide(v1, float32(batch - batch//2))  # float32[2*batch, 3]
return v2"""
    assert to_text(parse(text)) == text


def test_slices_of_all_sizes() -> None:
    """What the limits of slices are made of: sums, floor divisions and comparisons."""
    for n, step in itertools.product(range(1, 9), range(1, 4)):
        made = sizes(n=n)
        size = made.named("n")
        assert concrete((size + step - 1) // step) == len(range(0, n, step))
