"""State that differs among paths and that no live variable shows keeps the paths apart."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fusewire as fw

LOG: list[int] = []


def two_or_three(x: fw.Tensor) -> int:
    if x.sum() > 0:
        return 2
    return 3


def appends(o: list[int], x: fw.Tensor) -> fw.Tensor:
    if x.sum() > 0:
        o.append(1)
    else:
        o.append(2)
    if x.mean() > x[0]:
        x = x + 1
    return x


def combine(*values: Any) -> list[Any]:
    return list(values)


# ---- on the stack
def result_of_a_call(x: fw.Tensor) -> Any:
    return two_or_three(x) * (x * 2 if x.mean() > x[0] else x * 3)


def result_of_bool(x: fw.Tensor) -> Any:
    return [bool(x.sum() > 0), x * 2 if x.mean() > x[0] else x]


def result_of_not(x: fw.Tensor) -> Any:
    return combine(not (x.sum() > 0), x if x.mean() > x[0] else x * 3)


def result_of_a_comparison(x: fw.Tensor) -> Any:
    return [x.sum().item() > 0, x * 2 if x.mean() > x[0] else x]


def in_the_condition_of_a_loop(x: fw.Tensor) -> Any:
    n = 0
    while two_or_three(x) + n < (4 if x.mean() > x[0] else 5):
        x, n = x + 0.5, n + 1
    return x, n


def list_on_the_stack_of_the_caller(x: fw.Tensor) -> Any:
    o: list[int] = []
    return o, appends(o, x)


def lists_in_map(x: fw.Tensor) -> Any:
    o: list[int] = []
    return [o, *map(appends, [o], [x])]


def lists_of_a_comprehension(x: fw.Tensor) -> Any:
    return [(o, appends(o, x)) for o in ([], [3])]


def list_behind_an_expression(x: fw.Tensor) -> Any:
    o: list[int] = []
    return combine(o, appends(o, x), x * 2 if x.mean() > x[1] else x)


# ---- in objects
class Counting:
    k = 0

    def run(self, x: fw.Tensor) -> fw.Tensor:
        if x.sum() > 0:
            self.k = 1
        else:
            self.k = 2
        if x.mean() > x[0]:
            x = x + 1
        return x


def object_that_a_method_changes(x: fw.Tensor) -> Any:
    a = Counting()
    b = a
    y = a.run(x)
    return y, b.k


@contextmanager
def counting(seen: list[int]) -> Iterator[Counting]:
    c = Counting()
    yield c
    seen.append(c.k)


def context_that_reads_at_its_end(x: fw.Tensor) -> Any:
    seen: list[int] = []
    with counting(seen) as c:
        y = c.run(x)
    return y, seen


def variable_of_a_closure(x: fw.Tensor) -> Any:
    k = 0

    def set_k() -> None:
        nonlocal k
        k = 1 if x.sum() > 0 else 2

    def get_k() -> int:
        return k

    set_k()
    if x.mean() > x[0]:
        x = x + 1
    return x * get_k()


def default_of_a_keyword(x: fw.Tensor) -> Any:
    def make(k: int) -> Callable[[Any], Any]:
        def g(t: Any, *, k: int = k) -> Any:
            return t * k
        return g

    g = make(2) if x.sum() > 0 else make(3)
    if x.mean() > x[0]:
        x = x + 1
    return g(x)


def attribute_of_a_function(x: fw.Tensor) -> Any:
    def g() -> None: ...

    g.k = 2 if x.sum() > 0 else 3  # type: ignore[attr-defined]
    if x.mean() > x[0]:
        x = x + 1
    return x * g.k  # type: ignore[attr-defined]


def order_of_a_set(x: fw.Tensor) -> Any:
    d = set()
    for n in (8, 16, 0) if x.sum() > 0 else (0, 16, 8):
        d.add(n)
    if x.mean() > x[0]:
        x = x + 1
    return list(d), x


# ---- identities of inputs
def set_of_tensors(x: fw.Tensor) -> Any:
    y = x
    if x.sum() > 0:
        y = x * 2
    k = 1 if x.mean() > x[0] else 0
    return len({x, y}) + k, y


def keys_of_a_dict(x: fw.Tensor) -> Any:
    y = x
    if x.sum() > 0:
        y = x * 2
    d: dict[Any, int] = {}
    if x.mean() > x[0]:
        y = y + 0
    d[y] = 1
    d[x] = 2
    return len(d), y


# ---- outside objects
def global_list(x: fw.Tensor) -> Any:
    del LOG[:-3]
    if x.sum() > 0:
        LOG.append(1)
    else:
        LOG.append(2)
    if x.mean() > x[0]:
        x = x + 1
    return x, list(LOG)


FUNCTIONS = [
    result_of_a_call, result_of_bool, result_of_not, result_of_a_comparison,
    in_the_condition_of_a_loop, list_on_the_stack_of_the_caller, lists_in_map,
    lists_of_a_comprehension, list_behind_an_expression, object_that_a_method_changes,
    context_that_reads_at_its_end, variable_of_a_closure, default_of_a_keyword,
    attribute_of_a_function, order_of_a_set, set_of_tensors, keys_of_a_dict, global_list]


def plain(value: Any) -> Any:
    """A result with NumPy arrays in place of tensors."""
    if isinstance(value, fw.Tensor):
        return value.numpy().tolist()
    return type(value)(map(plain, value)) if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("check", [None, "always"])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_results_are_those_of_python(f: Callable[..., Any], check: str | None) -> None:
    compiled = fw.compile(f, check=check)
    for seed in range(3):
        draw, state = random.Random(seed), list[int]()
        for _ in range(40):
            x = fw.tensor([draw.uniform(-1, 1) for _ in range(4)])
            LOG[:] = state
            expected = plain(f(x))
            after, LOG[:] = list(LOG), state
            assert plain(compiled(x)) == expected
            assert after == LOG
            state = after


def test_nested_loops_over_large_arrays() -> None:
    def f(x: fw.Tensor) -> Any:
        y, i = x, 0
        while i < 3:
            while y[0, 0] < 1.5:
                y = y + 0.2 if y[0, 0] > 0.3 else y + 0.4
                if y[3, 0] > 2:
                    break
            if y[1, 0] > 0:
                y = y - 0.5
            i += 1
        return y

    compiled, rng = fw.compile(f), np.random.default_rng(0)
    for _ in range(8):
        rows = rng.uniform(-1, 1, (4, 1)).astype(np.float32)
        x = fw.tensor(np.broadcast_to(rows, (4, 9000)).copy())
        np.testing.assert_array_equal(compiled(x).numpy(), f(x).numpy())


def test_numbers_that_a_builtin_holds_while_it_decides() -> None:
    """`max` returns the number that it has got, whatever merges meanwhile."""
    def f(x: fw.Tensor, n: int, scale: float) -> Any:
        for i in range(n):
            if n % 2 == 0 and i > min(len(x), n):
                x = x + 1
            else:
                x = x * scale
                scale = max(min(scale, 0.5), -0.5)
        return x

    compiled, draw = fw.compile(f), random.Random(1)
    for _ in range(30):
        size = draw.choice([1, 2, 3, 5, 9])
        x = fw.tensor([draw.uniform(-1, 1) for _ in range(size)])
        call = x, draw.randrange(6), draw.uniform(-1, 1)
        assert plain(compiled(*call)) == plain(f(*call))


def one_element(x: fw.Tensor) -> Any:
    y = x
    if x.sum() > 0:
        y = y * 2
    return y[-1]


def reshaped_behind_branches(x: fw.Tensor) -> Any:
    y = x
    for i in range(2):
        if x[i] > 0:
            y = y * 2
    return y.reshape((2, 2))


@pytest.mark.parametrize("f", [one_element, reshaped_behind_branches])
def test_a_view_of_what_may_be_the_argument_is_a_view_of_it(f: Callable[..., Any]) -> None:
    """What is added to the result arrives in the argument on the same calls."""
    for seed in range(2):
        compiled, draw = fw.compile(f), random.Random(seed)
        for _ in range(15):
            values = [draw.uniform(-1, 1) for _ in range(4)]
            arguments = fw.tensor(values), fw.tensor(values)
            for function, x in zip((f, compiled), arguments):
                result = function(x)
                result += 1
            assert plain(arguments[0]) == plain(arguments[1])
