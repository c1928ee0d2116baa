"""Data-dependent sizes: one trace holds for any number of chosen elements."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import agree, assert_equal

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.codegen.dynamic.specializations import DynamicExecutable

Function = Callable[..., Any]
SHIFTS = (0.0, 0.3, -0.5, 9.0, -9.0, 0.2, 1.0, -1.0, 0.0, 9.0, -9.0, 0.1)  # 9: all, -9: none


def vector(shift: float, n: int = 7) -> fw.Tensor:
    rng = np.random.default_rng(int(shift * 100) + 1000 + n)
    return fw.from_numpy((rng.standard_normal(n) + shift).astype(np.float32))


def rows(shift: float, n: int = 5) -> fw.Tensor:
    return vector(shift, 3 * n).reshape(n, 3)


VECTORS = [[vector(s)] for s in SHIFTS]
ROWS = [[rows(s)] for s in SHIFTS]


def one(fn: Function, calls: Any = None, recordings: int = 1) -> None:
    """The function agrees with eager on all calls, and at most so many of them are recorded."""
    f = agree(lambda: fn, *(calls or VECTORS), recordings=recordings)
    assert f.stats.fallbacks == 0


# ---- one recording for any count
@pytest.mark.parametrize("fn", [
    lambda x: x[x > 0],
    lambda x: x[x > 0].sum() * 2,
    lambda x: fw.nonzero(x > 0)[0] * 2,
    lambda x: fw.argwhere((x > 0).reshape(7, 1)),
    lambda x: fw.masked_select(x, x > 0),
    lambda x: fw.unique_values(fw.round(x)),
    lambda x: fw.unique_all(fw.round(x)),
    lambda x: fw.unique_counts(fw.round(x)).counts,
    lambda x: fw.repeat(x, fw.abs(x).astype(fw.int64)),
    lambda x: (x[x > 0.5][None], x[~(x > 0.5)].reshape(-1, 1)),
    lambda x: fw.concat([x[x > 0], x[x <= 0], fw.ones(2)]),
    lambda x: fw.sort(x[x > 0])[:, None] - x[x > 0],
    lambda x: x[x > 0][x[x > 0] < 1],
    lambda x: (fw.zeros(x[x > 0].shape[0]), fw.arange(x[x > 0].shape[0])),
    lambda x: x[x > 0].shape[0] / 2 + x[x > 0].shape[0] ** 2,
    lambda x: x * x[x > 0].shape[0],
    lambda x: (F.dropout(x[x > 0], 0.4), fw.rand(2)),
])
def test_any_count_is_replayed(fn: Function) -> None:
    one(fn)


@pytest.mark.parametrize("fn", [
    lambda x: x[x > 0],
    lambda x: x[x.sum(1) > 0],
    lambda x: x[:, (x > -0.5).all(0)],
    lambda x: x[x.sum(1) > 0, 0],
    lambda x: fw.nonzero(x > 0),
    lambda x: x[x.sum(1) > 0] @ fw.ones(3, 2),
])
def test_rows_and_columns(fn: Function) -> None:
    one(fn, ROWS)


def test_an_empty_softmax_is_a_way_of_its_own() -> None:
    """It has no maximum to subtract."""
    def f(x: fw.Tensor) -> fw.Tensor:
        chosen = x[x.sum(1) > 0]
        return F.softmax(chosen @ chosen.T, -1)

    one(f, ROWS, recordings=2)


def test_masks_over_batches_of_any_size() -> None:
    def f(x: fw.Tensor) -> Any:
        chosen = x[x.sum(1) > 0]
        if chosen.shape[0] * 2 > x.shape[0]:
            return chosen * 2
        return x - chosen.sum(0), x.shape[0] - chosen.shape[0]

    one(f, [[rows(s, n)] for n in (5, 8, 3, 9, 4, 6, 7) for s in (0.0, 0.3, 9.0, -9.0)], 4)


def test_a_mask_that_is_no_input_has_a_size_that_is_known() -> None:
    one(lambda x: x[[True, False, True, False, False, False, True]].reshape(3, 1))


def test_empty_results_are_never_native_code() -> None:
    f = fw.compile(lambda x: x[x > 0] * 2)
    for _ in range(8):
        assert f(vector(-9.0)).shape == (0,)
    variants = [v for p in f.programs for s in p.segments()
                if isinstance(s.executable,
                              DynamicExecutable) for v in s.executable.specializations]
    assert variants and not any(v.compiled for v in variants)


# ---- what Python asks of such a size
def test_a_question_is_a_decision() -> None:
    def f(x: fw.Tensor) -> Any:
        at = fw.nonzero(x > 0)[0]
        k = at.shape[0]
        return x[at] / k if k else x

    one(f, recordings=2)


def test_shapes_that_may_broadcast() -> None:
    """Two sizes, a size of 1 and one that fits are ways of their own."""
    def f(x: fw.Tensor) -> Any:
        y = x[x > 0]
        if y.shape[0] in (1, 3):
            return y + fw.ones(3)
        return y

    one(f, recordings=3)


def test_the_number_itself_is_one_way_for_each() -> None:
    one(lambda x: [float(v) for v in x[x > 8].astype(fw.int64)[:0]] + [len(x[x > 0])],
        recordings=7)


def test_a_count_that_divides() -> None:
    def f(x: fw.Tensor) -> Any:
        try:
            return x * (7 // x[x > 0].shape[0])
        except ZeroDivisionError:
            return "nothing"

    one(f, recordings=2)


def test_an_error_of_an_empty_result_is_not_that_of_others() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        try:
            return x[x > 0].max()
        except fw.ShapeError:
            return x * 0

    one(f, recordings=2)


def test_an_error_reaches_the_user() -> None:
    f = fw.compile(lambda x: x[x > 0].max(), fullgraph=True)
    for shift in (1.0, 0.0, -9.0, 0.3, -9.0, 9.0):
        if shift == -9.0:
            with pytest.raises(fw.ShapeError):
                f(vector(shift))
        else:
            assert_equal(f(vector(shift)), vector(shift)[vector(shift) > 0].max())


# ---- effects and state
def test_elements_are_set_by_a_mask() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        x[x > 0] = x[x > 0] * 2
        x[x < -1] = -1.0
        x[x > 0.5] = fw.flip(x[x > 0.5])
        return x

    one(f)


def test_counts_and_results_are_kept() -> None:
    def make() -> Any:
        box = types.SimpleNamespace(count=0, log=[], last=fw.zeros(7))

        def f(x: fw.Tensor) -> fw.Tensor:
            y = x[x > 0]
            box.count += y.shape[0]
            box.log.append(y)
            box.last[x > 0] = y * 2
            return y

        return f, [box]

    agree(make, *VECTORS, recordings=2)


# ---- gradients
def weighted() -> Any:
    return fw.ones(7).requires_grad_()


def test_a_gradient_inside() -> None:
    def make() -> Any:
        w = weighted()

        def f(x: fw.Tensor) -> Any:
            w.grad = None
            y = x * w
            loss = (y[x > 0] ** 2).sum()
            loss.backward()
            return loss.detach()

        return f, [w]

    agree(make, *VECTORS, recordings=1)


@pytest.mark.parametrize("again", [False, True])
def test_a_gradient_outside(again: bool) -> None:
    def make() -> Any:
        w = weighted()

        def f(x: fw.Tensor) -> Any:
            y = x * w
            y[x > 1] = y[x > 1] ** 2
            z = y[y > 0]
            return z, (z * z).sum(), w[fw.nonzero(x > 0)[0]]

        return f, w

    (f, w), (eager, v) = make(), make()
    compiled = fw.compile(f, fullgraph=True)
    for (x,) in VECTORS:
        found = []
        for function, of in ((compiled, w), (eager, v)):
            of.grad = None
            loss = sum(((y * y).sum() for y in function(x)), fw.tensor(0.0))
            g, = fw.grad(loss, [of], create_graph=again)
            if again:
                (g * g).sum().backward()
            found.append([g.detach(), of.grad])
        assert_equal(*found)
    assert compiled.stats.recordings == 1


def test_a_training_step_on_chosen_rows() -> None:
    def make() -> Any:
        fw.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        optimizer = fw.optim.Adam(net.parameters(), lr=0.1)

        def step(x: fw.Tensor) -> fw.Tensor:
            chosen = x[x.sum(1) > 0]
            optimizer.zero_grad()
            loss = (net(chosen) ** 2).mean() if chosen.shape[0] else (net(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, [net]

    f = agree(make, *ROWS)
    assert f.stats.fallbacks == 0


# ---- loops
def test_a_loop_over_what_was_chosen_is_rolled_up() -> None:
    def f(x: fw.Tensor) -> Any:
        y = x[x > 0]
        while y.sum() > 1:
            y = y / 2
        return y, y.shape[0]

    one(f, recordings=4)


def test_a_gradient_through_such_a_loop() -> None:
    def make() -> Any:
        w = fw.tensor(0.7).requires_grad_()

        def f(x: fw.Tensor, turns: fw.Tensor) -> Any:
            w.grad = None
            h, n = x[x > 0], fw.tensor(0)
            while n < turns:
                h, n = fw.tanh(h * w), n + 1
            h.sum().backward()
            return h.detach()

        return f, [w]

    f = agree(make, *[[x, fw.tensor(3 + i % 3)] for i, (x,) in enumerate(VECTORS)])
    assert f.stats.fallbacks == 0 and f.stats.replays > 6


def test_a_choice_in_each_turn_is_written_out_turn_by_turn() -> None:
    def f(x: fw.Tensor) -> Any:
        todo, turns = fw.nonzero(x > 0)[0], 0
        while todo.shape[0]:
            x = x + 0
            x[todo] = x[todo] - 1
            todo = fw.nonzero(x > 0)[0]
            turns += 1
        return x, turns

    one(f, [[vector(s)] for s in (0.0, 0.3, -0.5, -9.0, 0.2, 1.0, -1.0, 0.0, 1.0, 2.0)], 6)


def test_a_choice_now_and_then_in_a_loop() -> None:
    def f(x: fw.Tensor) -> Any:
        total, n = x.sum(), fw.tensor(0)
        while total < 10:
            total, n = total + 1.7, n + 1
            if total > 8:
                x = x[x > 0]
                total = total + x.shape[0] * 0.1
        while total > 1:
            total = total / 2
        return total, n, x

    g = agree(lambda: f, *VECTORS)
    assert g.stats.fallbacks == 0


def test_beams_that_end() -> None:
    weights = vector(0.0, 28).reshape(7, 4)

    def f(x: fw.Tensor) -> Any:
        alive = fw.arange(7)
        for step in range(3):
            scores = x[alive] - step
            alive = alive[scores > scores.mean() - 1]
            if alive.shape[0] == 0:
                break
        best = fw.zeros(7)
        best[alive] = x[alive]
        return best, alive, weights[alive].sum(0), alive.shape[0]

    one(f)


def test_masks_inside_of_vmap() -> None:
    one(lambda x: fw.func.vmap(lambda row: row[row > 0].sum())(x), ROWS[:6], recordings=0)


def test_the_explanation_names_the_size() -> None:
    f = fw.compile(lambda x: x[x > 0] * 2)
    f(vector(0.0))
    f(vector(1.0))
    assert "computes the data-dependent size m" in str(f.explain())
