"""A loop over a dynamic size fills a list: the tensors are rows of one tensor in a trace.

Where that is not what Python computes, as after a change in place of a tensor in the list, each
length has a path of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw

W = fw.linspace(-1, 1, 16).reshape(4, 4)
WEIGHT = fw.linspace(-1, 1, 16).reshape(4, 4).requires_grad_()
KEPT: dict[str, Any] = {}


def cell(h: fw.Tensor, row: fw.Tensor) -> fw.Tensor:
    return fw.tanh(row + h @ W)


def collected(x: fw.Tensor) -> Any:
    h, out = fw.zeros(4), []
    for row in x:
        h = cell(h, row)
        out.append(h)
    return fw.stack(out, axis=1), out[-1] + out[0], len(out)


def counted(x: fw.Tensor) -> Any:
    out = []
    for t in range(len(x)):
        out.append(x[t] * t)
    return fw.concat(out), fw.concat([r.reshape(2, 2) for r in [x[0]]])


def behind_a_prefix(x: fw.Tensor) -> Any:
    out = [x[0] * 3]
    for row in x:
        out.append(row * 2)
    return fw.stack(out)


def two_lists(x: fw.Tensor) -> Any:
    rows, sums = [], []
    for row in x:
        rows.append(row * 2)
        sums.append(row.sum())
    return fw.stack(rows), sum(sums) / len(sums)


def in_a_nest(x: fw.Tensor) -> Any:
    out = []
    for a in x:
        inner = []
        for b in x:
            inner.append((a * b).sum())
        out.append(fw.stack(inner))
    return fw.stack(out)


def iterated(x: fw.Tensor) -> Any:
    rows, total = [], fw.zeros(4)
    for row in x:
        rows.append(row * 2)
    for i, row in enumerate(rows):
        total = total * 0.5 + row * i
    for row, other in zip(rows, x):
        total = total + row * other
    return total


def by_a_closure(x: fw.Tensor) -> Any:
    out = []

    def add(row: fw.Tensor) -> None:
        out.append(row)

    for row in x:
        add(row * 2)
    return fw.stack(out)


def two_in_each_iteration(x: fw.Tensor) -> Any:
    out = []
    for t in range(len(x) - 1, -1, -2):
        out.append(x[t])
        out.append(x[t] * t)
    return fw.stack(out), len(out)


def extended(x: fw.Tensor) -> Any:
    out, total = [], fw.zeros(4)
    for row in x:
        out.extend([row + 1, row * 2])
        out += (row * 3,)
    for row in reversed(out):
        total = total * 0.5 + row
    return fw.stack(out), total, out[1]


def left_between_two(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out.append(row * 2)
        if row.sum() > 2.5:
            break
        out.append(row * 3)
    return fw.stack(out), len(out)


def trained_with_two(x: fw.Tensor) -> Any:
    WEIGHT.grad = None
    h, out = fw.zeros(4), []
    for row in x:
        h = fw.tanh(row + h @ WEIGHT)
        out.append(h)
        out.append(h * h)
    (fw.stack(out) ** 2).mean().backward()
    return WEIGHT.grad


def trained(x: fw.Tensor) -> Any:
    WEIGHT.grad = None
    h, out = fw.zeros(4), []
    for row in x:
        h = fw.tanh(row + h @ WEIGHT)
        out.append(h)
    loss = (fw.stack(out) ** 2).mean()
    loss.backward()
    return loss, WEIGHT.grad


ROLLED = [collected, counted, behind_a_prefix, two_lists, in_a_nest, iterated, by_a_closure,
          trained, two_in_each_iteration, extended, left_between_two, trained_with_two]


def left_early(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        if row.sum() > 2.5:
            break
        out.append(row * 2)
    return fw.stack(out) if out else x


def changed_after_append(x: fw.Tensor) -> Any:
    h, out = fw.zeros(4), []
    for row in x:
        h += row
        out.append(h)
    return fw.stack(out)


def changed_behind_the_loop(x: fw.Tensor) -> Any:
    h, out = fw.zeros(4), []
    for row in x:
        h = cell(h, row)
        out.append(h)
    h += 1
    return fw.stack(out)


def changed_under_a_bare_except(x: fw.Tensor) -> Any:
    h, out = fw.zeros(4), []
    for row in x:
        h = cell(h, row)
        out.append(h)
    try:
        h += 1
    except BaseException:
        pass
    return h, fw.stack(out)


def changed_in_the_list(x: fw.Tensor) -> Any:
    h, out = fw.zeros(4), []
    for row in x:
        h = cell(h, row)
        out.append(h)
    out[-1] += 1
    return h, fw.stack(out)


def changed_through_the_base(x: fw.Tensor) -> Any:
    y, out = x * 1, []
    for t in range(len(x)):
        out.append(y[t])
    y += 1
    return fw.stack(out)


def changed_result(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out.append(row * 2)
    first = fw.stack(out)
    first += 1
    return first, fw.stack(out)


def of_some(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        if row.sum() > 2:
            out.append(row)
    return fw.stack(out) if out else x


def one_or_two(x: fw.Tensor) -> Any:
    out = []
    for t in range(len(x)):
        out.append(x[t])
        if t % 2:
            out.append(x[t] * 2)
    return fw.stack(out)


def of_two_types(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out += [row * 2, row.sum()]
    return out[-1]


def twice_the_same(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out += [row * 2] * 2
    out[0] += 1
    return fw.stack(out)


def under_two_names(x: fw.Tensor) -> Any:
    out: list[fw.Tensor] = []
    other = out
    for row in x:
        out.append(row * 2)
    other.append(x[0])
    return fw.stack(out)


def kept(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out.append(row * 2)
    KEPT["rows"] = out
    return fw.stack(out)


def read_in_the_loop(x: fw.Tensor) -> Any:
    out: list[fw.Tensor] = []
    for row in x:
        out.append(row + out[-1] if out else row)
    return fw.stack(out)


def returned(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out.append(row * 2)
    return out


def reversed_rows(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out.append(row * 2)
    out.pop()
    return fw.stack(out[::-1]) if out else x


def compared(x: fw.Tensor) -> Any:
    h, out = fw.zeros(4), []
    for row in x:
        h = cell(h, row)
        out.append(h)
    return h * 2 if out[-1] is h else h


OTHERS = [left_early, changed_after_append, changed_behind_the_loop, changed_under_a_bare_except,
          changed_in_the_list, changed_through_the_base, changed_result, of_some,
          one_or_two, of_two_types, twice_the_same, under_two_names, kept,
          read_in_the_loop, returned, reversed_rows, compared]


def arrays_of(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [array for each in value for array in arrays_of(each)]
    return [np.array(value.detach().numpy()) if isinstance(value, fw.Tensor) else value]


def outcome(function: Callable[..., Any], values: Any) -> list[Any]:
    KEPT.clear()
    x = fw.asarray(values)
    return [*arrays_of(function(x)), *arrays_of(KEPT.get("rows", [])), *arrays_of(x)]


@pytest.mark.parametrize("function", [*ROLLED, *OTHERS], ids=lambda f: f.__name__)
def test_results_are_those_of_eager(function: Callable[..., Any]) -> None:
    rng, compiled = np.random.default_rng(2), fw.compile(function)
    for n in (2, 3, 5, 4, 1, 7, 3, 6, 2, 8, 70):
        values = rng.random((n, 4)).astype(np.float32)
        got, want = outcome(compiled, values), outcome(function, values)
        assert len(got) == len(want)
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=f"{n} rows")
    if function in ROLLED:
        assert compiled.stats.recordings <= 6, compiled.explain()


def row_of_an_argument(x: fw.Tensor) -> Any:
    out = []
    for t in range(len(x)):
        out.append(x[t])
    return out[0], x


def last_of_a_loop(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out.append(row)
    last = x
    for row in out:
        last = row
    return last, x


def state_and_element(x: fw.Tensor) -> Any:
    h, out = fw.zeros(4), []
    for row in x:
        h = cell(h, row)
        out.append(h)
    return out[-1], h


def one_element_twice(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out.append(row * 2)
    return out[1], out[1]


def one_element(x: fw.Tensor) -> Any:
    out = []
    for row in x:
        out.append(row * 2)
    return out[-1], fw.stack(out)


@pytest.mark.parametrize("function", [
    row_of_an_argument, last_of_a_loop, state_and_element, one_element_twice, one_element],
    ids=lambda f: f.__name__)
def test_an_element_that_is_returned_shares_elements_as_in_eager(function: Callable[..., Any]
                                                                 ) -> None:
    compiled = fw.compile(function)
    for n in (2, 3, 5, 4):
        seen = []
        for each in (compiled, function):
            element, other = each(fw.arange(4.0 * n).reshape(n, 4))
            element += 1.0
            seen.append((element is other, element.tolist(), other.tolist()))
        assert seen[0][0] == seen[1][0]
        np.testing.assert_allclose(seen[0][1], seen[1][1], rtol=1e-5)
        np.testing.assert_allclose(seen[0][2], seen[1][2], rtol=1e-5)
    if function is one_element:
        assert compiled.stats.recordings <= 3


def test_rows_of_sizes_that_only_some_calls_have_dynamic() -> None:
    """A size of 0 or 1 is a plain number in its traces."""
    def multiples(x: fw.Tensor, n: int) -> fw.Tensor:
        out = []
        for i in range(n):
            out.append(x * i)
        return fw.stack(out)

    compiled = fw.compile(multiples)
    for size, n in [(3, 2), (4, 3), (5, 4), (0, 4), (1, 3), (6, 5), (1, 2)]:
        np.testing.assert_array_equal(compiled(fw.ones(size), n).numpy(),
                                      multiples(fw.ones(size), n).numpy())


def test_the_loop_is_one_native_call() -> None:
    compiled = fw.compile(collected)
    for n in (2, 3, 4, 5, 6, 7, 8, 9):
        compiled(fw.rand(n, 4))
    assert compiled.stats.recordings == 3
    assert "runs in Python" not in str(compiled.explain())
