"""Branches and loops on the fast path of calls: results equal those of plain Python."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fast_paths import broken_off, fast_path_result

import fusewire as fw
from fusewire import nn, optim
from fusewire.capture.replay.replay import NOT_TRACED
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT
from fusewire.eager.errors import CodegenError

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="objects do not lie as in this CPython")


def branch(x: fw.Tensor) -> fw.Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def branches(x: fw.Tensor) -> Any:
    if x[0] > 0:
        return ("a", x + 1) if x[1] > 0 else ["b", x + 2, None]
    if x[1] > 0:
        return {"c": x * 3}
    return None


def arithmetic(x: fw.Tensor) -> fw.Tensor:
    return x * (x.max().item() * 2 + 1) ** 2 - abs(x.min().item())


def numbers_out(x: fw.Tensor) -> Any:
    top = x.max().item()
    return x / 2, top, top * 2 + 1, round(top)


def by_value(x: fw.Tensor) -> fw.Tensor:
    return x + [10, 20, 30, 40][int((x > 0).sum())]


def newton(x: fw.Tensor) -> fw.Tensor:
    a = fw.abs(x) + 0.5
    root = a
    while fw.abs(root * root - a).max() > 1e-4:
        root = (root + a / root) * 0.5
    return root


def counted(x: fw.Tensor) -> Any:
    n, x = 0, fw.abs(x) + 0.1
    while x.sum() < 100:
        x, n = x * (n + 2), n + 1
    return x, n


def swapped(x: fw.Tensor) -> Any:
    a, b = x, x * 2 + 1
    while (a * a).sum() < 50:
        a, b = b, a + b
    return a, b


def nested(x: fw.Tensor) -> fw.Tensor:
    x = fw.abs(x) + 1
    while x.sum() < 500:
        y = x
        while y.max() < 20:
            y = y * 2
        x = x + y
    return x


def one_after_the_other(x: fw.Tensor) -> fw.Tensor:
    x = fw.abs(x) + 1
    while x.sum() < 100:
        x = x * 2
    while x.max() > 3:
        x = x - 1
    return x if x.min() > 0 else -x


FUNCTIONS = [branch, branches, arithmetic, numbers_out, by_value, newton, counted, swapped,
             broken_off, nested, one_after_the_other]


def given(calls: int, *shape: int) -> list[fw.Tensor]:
    rng = np.random.default_rng(7)
    return [fw.from_numpy(rng.normal(0, 2, shape).astype(np.float32)) for _ in range(calls)]


def same(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    if isinstance(want, fw.Tensor):
        np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-5, 1e-6)
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        list(map(same, got, want))
    elif isinstance(want, dict):
        same(list(got.items()), list(want.items()))
    else:
        assert got == pytest.approx(want, 1e-5) if isinstance(want, float) else got == want


@pytest.mark.parametrize("function", FUNCTIONS, ids=operator.attrgetter("__name__"))
def test_it_gives_what_python_gives(function: Callable[..., Any]) -> None:
    compiled, inputs = fw.compile(function, fullgraph=True), given(60, 3)
    short = 0
    for x in inputs:
        same(compiled(x), function(x))
        result = fast_path_result(compiled, x)
        if result is not NOT_TRACED:
            short += 1
            same(result, function(x))
    assert short > 20


@pytest.mark.parametrize("function", FUNCTIONS, ids=operator.attrgetter("__name__"))
def test_values_that_were_never_seen_go_the_long_way(function: Callable[..., Any]) -> None:
    compiled = fw.compile(function, fullgraph=True)
    for x in [fw.ones(3)] * 4 + given(20, 3) + [fw.zeros(3), -fw.ones(3), fw.full((3,), 9.0)] * 2:
        same(compiled(x), function(x))


def test_numbers_that_are_given() -> None:
    def f(x: fw.Tensor, n: int, t: float) -> Any:
        return (x * n + t, n * 2) if x.sum() > n else (x / (n + 1), t)

    compiled = fw.compile(f, fullgraph=True)
    for i, x in enumerate(given(40, 3)):
        same(compiled(x, i % 7, i / 4), f(x, i % 7, i / 4))
    x = given(1, 3)[0]
    same(fast_path_result(compiled, x, 100, 0.5), f(x, 100, 0.5))


def test_what_is_changed_is_changed_once_and_on_its_way_only() -> None:
    class Counter:
        many = few = 0

    results = []
    for compiled in (False, True):
        state, seen = Counter(), [fw.zeros(3)]

        def f(x: fw.Tensor, state: Any = state, seen: Any = seen) -> fw.Tensor:
            if x.sum() > 0:
                state.many += 1
                seen[0] = seen[0] + x
            else:
                state.few += 2
            return x * state.many

        run = fw.compile(f, fullgraph=True) if compiled else f
        out = [run(x).tolist() for x in given(40, 3)]
        results.append((out, state.many, state.few, seen[0].tolist()))
    same(results[1], results[0])


def test_training_that_skips_bad_steps_changes_parameters_in_place() -> None:
    finals = []
    for compiled in (False, True):
        fw.manual_seed(0)
        model = nn.Linear(4, 4)
        optimizer = optim.Adam(model.parameters(), lr=0.1)

        def step(x: fw.Tensor, model: Any = model, optimizer: Any = optimizer) -> fw.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            if loss < 5:
                optimizer.step()
            return loss.detach()

        run = fw.compile(step, fullgraph=True) if compiled else step
        losses = [run(x).item() for x in given(30, 5, 4)]
        finals.append([losses, *(p.tolist() for p in model.parameters())])
        if compiled:
            place = model.weight._data.ctypes.data
            losses = [fast_path_result(run, x * 0.01) for x in given(3, 5, 4)]
            assert NOT_TRACED not in losses and model.weight._data.ctypes.data == place
    np.testing.assert_allclose(np.concatenate([np.ravel(f) for f in finals[0]]),
                               np.concatenate([np.ravel(f) for f in finals[1]]), 1e-3, 1e-4)


def test_an_error_in_a_loop_leaves_everything_as_it_was() -> None:
    seen = [fw.zeros(3)]

    @fw.compile
    def f(x: fw.Tensor, places: fw.Tensor) -> fw.Tensor:
        seen[0] = seen[0] + 1
        while x.sum() < 100:
            x = x * 2 + x[places]
        return x

    for _ in range(5):
        f(fw.ones(3), fw.tensor([0, 1, 2]))
    before = seen[0].tolist()
    with pytest.raises(IndexError, match="7"):
        f(fw.ones(3), fw.tensor([0, 7, 2]))
    assert f(fw.ones(3), fw.tensor([0, 1, 2])).sum() >= 100
    assert seen[0].tolist()[0] - before[0] in (1.0, 2.0)  # as far as Python came, or not at all


def test_a_way_with_conditions_of_its_own() -> None:
    class Box:
        a, b = 2.0, 3.0

    box = Box()

    def f(x: fw.Tensor) -> fw.Tensor:
        return x * box.a if x.sum() > 0 else x * box.b

    compiled = fw.compile(f, fullgraph=True)
    for number, x in enumerate(given(60, 3)):
        box.a, box.b = 2.0 + number // 20, 3.0 - number // 30
        same(compiled(x), f(x))


def test_long_chains_of_decisions_go_the_long_way() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        for i in range(60):
            if x.sum() < -1000 - i:
                return x
            x = x + 1
        return x

    compiled = fw.compile(f, fullgraph=True)
    for x in given(6, 3):
        same(compiled(x), f(x))
    assert fast_path_result(compiled, given(1, 3)[0]) is NOT_TRACED


class Settings:
    factor = 2.0


SETTINGS = Settings()


def helper(x: fw.Tensor) -> fw.Tensor:
    return x * SETTINGS.factor


def test_a_number_that_only_one_way_reads_is_read_anew() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return helper(x) if x.sum() > 0 else x + 1

    compiled = fw.compile(f, fullgraph=True)
    for number in range(60):
        SETTINGS.factor += 0.5 * (number < 4 or number % 4 == 0)
        x = -fw.ones(3) if number > 4 and number % 3 == 1 else fw.ones(3)
        same(compiled(x), f(x))


def test_a_run_that_fits_no_further_leaves_the_tree_as_it_was() -> None:
    def f(x: fw.Tensor, v: fw.Tensor) -> Any:
        i = 0
        while i < 3:
            i += 1
            if x.sum() > 0:
                j = 0
                while v.sum() < 2 and j < 4:
                    v, j = fw.tanh(v * 0.5) + 0.42, j + 1
            else:
                x = x + 0.8
            k = 0
            while x.sum() + v.sum() < 3 and k < 3:
                x, k = x * 1.1 + 0.2, k + 1
        return x, v

    compiled, rng = fw.compile(f), np.random.default_rng(1)
    for _ in range(70):
        x, v = (fw.tensor([*rng.uniform(-3, 3, 2).tolist(), 0.1]) for _ in range(2))
        same(compiled(x, v), f(x, v))


def test_a_way_without_code_runs_in_pieces() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return x * 2 if x.sum() > 0 else fw.sin(x)

    compiled = fw.compile(f)
    backend = compiled.backend

    def refusing(graph: Any) -> Any:
        if any(n.op == "sin" for n in graph.nodes()):
            raise CodegenError("no code for sin")
        return backend(graph)

    compiled.backend = refusing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sign in (1, -1, 1, 1, 1, 1, -1, 1, -1):
            same(compiled(sign * fw.ones(3)), f(sign * fw.ones(3)))
