"""Plain Python inside a compiled function: what any construct reads is guarded, and no more."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import types
from collections.abc import Iterator
from typing import Any

import pytest
from oracle import assert_same

import fusewire as fw
from fusewire import nn

X = fw.tensor([1.0, 2.0, 3.0])


def compiled(fn: Any) -> Any:
    return fw.compile(fn, fullgraph=True)


# ---- control flow and constructs
def test_loops_comprehensions_and_generators() -> None:
    def halves(n: int) -> Iterator[float]:
        for i in range(n):
            yield 0.5 ** i

    def f(x: fw.Tensor, n: int) -> fw.Tensor:
        parts = [x * k for k in halves(n)]
        named = {i: p + i for i, p in enumerate(parts)}
        return functools.reduce(operator.add, named.values()) + sum(x * i for i in range(n))

    g = compiled(f)
    for n in (1, 3, 3, 2, 1):
        assert_same(g(X, n), f(X, n))
    assert g.stats.recordings == 3


def test_recursion() -> None:
    def power(x: fw.Tensor, n: int) -> fw.Tensor:
        return x if n == 1 else x * power(x, n - 1)

    g = compiled(power)
    for n in (3, 3, 5, 5):
        assert_same(g(X, n), power(X, n))


def test_try_finally_and_with() -> None:
    @contextlib.contextmanager
    def without_gradients() -> Iterator[None]:
        with fw.no_grad():
            yield

    w = fw.tensor(2.0, requires_grad=True)

    def f(x: fw.Tensor) -> fw.Tensor:
        try:
            with without_gradients():
                y = w * x
        finally:
            x = x + 1
        return y * x

    g = compiled(f)
    for k in range(3):
        assert_same(g(X * k), f(X * k))


def test_lambdas_closures_and_decorators_made_inside() -> None:
    def f(x: fw.Tensor, k: float) -> fw.Tensor:
        def scaled(fn: Any) -> Any:
            return lambda y: fn(y) * k

        @scaled
        def shift(y: fw.Tensor) -> fw.Tensor:
            return y + k

        return shift(x)

    g = compiled(f)
    for k in (2.0, 2.0, 3.0):
        assert_same(g(X, k), f(X, k))


def test_sorting_by_a_key_and_zipping() -> None:
    layers = {"b": X * 2, "a": X, "c": X + 1}

    def f(x: fw.Tensor) -> fw.Tensor:
        for (_, t), k in zip(sorted(layers.items(), key=lambda item: item[0]), itertools.count(1)):
            x = x * k + t
        return x

    g = compiled(f)
    for k in range(3):
        layers["b"] = X * k
        assert_same(g(X), f(X))


def test_match() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x, p):\n    match p:\n        case {'scale': s}: return x * s\n"
         "        case [a, b]: return x * a + b\n        case _: return x", scope)
    g = compiled(scope["f"])
    for p in ({"scale": 2.0}, [3.0, 1.0], None, {"scale": 4.0}, [3.0, 2.0]):
        assert_same(g(X, p), scope["f"](X, p))


# ---- what stands behind a call
def test_a_partial_that_is_replaced() -> None:
    def scale(x: fw.Tensor, k: float, shift: fw.Tensor) -> fw.Tensor:
        return x * k + shift

    box = {"fn": functools.partial(scale, k=2.0, shift=X)}
    g = compiled(lambda x: box["fn"](x))
    for k, shift in ((2.0, X), (2.0, X + 1), (3.0, X)):
        box["fn"] = functools.partial(scale, k=k, shift=shift)
        assert_same(g(X), X * k + shift)


def test_a_method_that_closes_over_a_variable() -> None:
    k: Any = 2.0

    class Layer(nn.Module):
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return x * k

    layer = Layer()
    g = compiled(lambda x: layer(x))
    for value in (2.0, 2.0, 3.0, X):
        k = value
        assert_same(g(X), X * k)


def test_static_and_class_methods_and_inheritance() -> None:
    class Base:
        rate = 2.0

        @classmethod
        def scaled(cls, x: fw.Tensor) -> fw.Tensor:
            return x * cls.rate

        @staticmethod
        def shifted(x: fw.Tensor) -> fw.Tensor:
            return x + 1

    class Child(Base):
        def __call__(self, x: fw.Tensor) -> fw.Tensor:
            return self.scaled(self.shifted(x))

    child = Child()
    g = compiled(lambda x: child(x))
    for rate in (2.0, 2.0, 5.0):
        Base.rate = rate
        assert_same(g(X), (X + 1) * rate)
    Base.shifted = staticmethod(lambda x: x - 1)  # type: ignore[method-assign]
    assert_same(g(X), (X - 1) * 5.0)


def test_operators_of_ones_own() -> None:
    class Money:
        def __init__(self, value: float) -> None:
            self.value = value

        def __rmul__(self, x: fw.Tensor) -> fw.Tensor:
            return x * self.value

        def __getitem__(self, k: int) -> float:
            return self.value + k

    money = Money(2.0)
    g = compiled(lambda x: money.__rmul__(x) + money[1])
    for value in (2.0, 2.0, 4.0):
        money.value = value
        assert_same(g(X), X * value + value + 1)


# ---- telling objects apart
def test_a_sentinel() -> None:
    missing = object()

    def f(x: fw.Tensor, y: Any) -> fw.Tensor:
        return x if y is missing else x * 2

    g = compiled(f)
    for y in (missing, missing, object(), missing, None):
        assert_same(g(X, y), f(X, y))


def test_a_set_as_configuration() -> None:
    active = {"scale"}

    def f(x: fw.Tensor) -> fw.Tensor:
        x = x * 2 if "scale" in active else x
        return x + 1 if "shift" in active else x

    g = compiled(f)
    for change in (None, None, lambda: active.add("shift"), lambda: active.remove("scale")):
        if change:
            change()
        assert_same(g(X), f(X))
    assert g.stats.recordings == 3


def test_an_attribute_asked_for_and_there_later() -> None:
    thing = types.SimpleNamespace(k=2.0)

    def f(x: fw.Tensor) -> fw.Tensor:
        return x * thing.k + (thing.bias if hasattr(thing, "bias") else 0.0)

    g = compiled(f)
    assert_same(g(X), X * 2)
    assert_same(g(X), X * 2)
    thing.bias = 5.0
    assert_same(g(X), X * 2 + 5)
    del thing.bias
    assert_same(g(X), X * 2)


def test_a_value_kept_from_the_first_call() -> None:
    """The second call finds what the first one has made."""
    class Scaler:
        def __call__(self, x: fw.Tensor) -> fw.Tensor:
            try:
                scale = self.scale
            except AttributeError:
                scale = self.scale = x.max()
            return x / scale

    eager, other = Scaler(), Scaler()
    g = compiled(other.__call__)
    for k in (2.0, 3.0, 4.0, 5.0):
        assert_same(g(X * k), eager(X * k))


def test_a_dictionary_that_is_filled_once() -> None:
    memo: dict[str, Any] = {}

    def f(x: fw.Tensor) -> fw.Tensor:
        if "first" not in memo:
            memo["first"] = x * 1
        return x - memo["first"]

    g = compiled(f)
    for k in (2.0, 3.0, 4.0):
        assert_same(g(X * k), X * (k - 2.0))


# ---- no more is guarded than what was read
def test_what_is_not_read_may_change() -> None:
    thing = types.SimpleNamespace(k=2.0, unread=0)

    class Holder:
        def __init__(self) -> None:
            self.k, self.calls = 3.0, 0

        def work(self, x: fw.Tensor) -> fw.Tensor:
            return x * self.k * thing.k

    holder = Holder()
    g = compiled(holder.work)
    for n in range(4):
        thing.unread, holder.calls = n, n
        assert_same(g(X), X * 6)
    assert g.stats.recordings == 1


def test_names_of_guards_are_the_users() -> None:
    thing = types.SimpleNamespace(k=2.0)
    g = fw.compile(lambda x, rate: x * thing.k * rate)
    g(X, 1.0)
    thing.k = 3.0
    g(X, 1.0)
    assert g.misses[0].endswith(".k == 2.0")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_one_function_for_many_batches(size: int) -> None:
    f = fw.compile(lambda x: fw.softmax(x, -1).sum(axis=0))
    for n in range(1, size + 1):
        x = fw.ones(n, 4)
        assert_same(f(x), f.original(x))
        assert_same(f(x), f.original(x))
