"""Python that depends on the values of tensors: each answer is a way of its own, replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import assert_same

import fusewire as fw

X = fw.tensor([1.0, 2.0, 3.0])


def agree(fn: Callable[..., Any], *calls: Any, recordings: int) -> Any:
    """fn compiled gives what it gives eager, over and over, with so many recordings."""
    compiled = fw.compile(fn, fullgraph=True)
    for _ in range(3):
        for args in calls:
            for got, want in zip(_flat(compiled(*args)), _flat(fn(*args)), strict=True):
                assert_same(got, want, where=str(args))
    assert compiled.stats.recordings == recordings, compiled.misses
    assert compiled.stats.fallbacks == 0
    return compiled


def _flat(value: Any) -> Any:
    return value if isinstance(value, (tuple, list)) else [value]


def test_if_and_else() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        if x.sum() > 5:
            return x * 2
        return x - 1

    agree(f, (X,), (X * 0,), (X * 5,), recordings=2)


def test_nested_ifs_share_what_they_begin_with() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        y = fw.exp(x / 10)
        if y.sum() > 4:
            y = y * 2
            if y.max() > 3:
                return y + 1
        elif y.min() < 0.5:
            return y - 1
        return y

    compiled = agree(f, (X,), (X * 5,), (X * -9,), (X * 0,), recordings=3)
    assert len(compiled.programs) == 1


def test_an_early_return_in_a_loop() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        for k in range(4):
            if x[0] > 10:
                return x * k
            x = x * 3
        return x

    agree(f, (X,), (X * 100,), (X * 0,), recordings=3)


def test_item_can_be_computed_with() -> None:
    agree(lambda x: x * x.sum().item(), (X,), (X * 2,), (X * -1,), recordings=1)
    agree(lambda x: (x / (x.sum().item() ** 2 + 1), x.max().item()), (X,), (X * 2,), recordings=1)


def test_a_comparison_of_an_item() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        total = x.sum().item()
        return x / total if total > 0 else x

    agree(f, (X,), (X * -1,), (X * 2,), recordings=2)


def test_float_and_int_are_computed_from_the_values_of_the_call() -> None:
    agree(lambda x: x * float(x[0]), (X,), (X * 2,), recordings=1)
    agree(lambda x: x * int(x[1]), (X,), (X * 1.1,), (X * 2,), recordings=1)


def test_a_list_of_plain_numbers_has_a_path_per_value() -> None:
    agree(lambda x: x * max(x.tolist()), (X,), (X * 2,), recordings=2)


def test_a_tensor_as_an_index_of_a_list() -> None:
    names = [2.0, 3.0, 4.0, 5.0]
    agree(lambda x: x * names[(x[0] > 1).astype(fw.int64)], (X,), (X * 2,), (X * 3,), recordings=2)


def test_range_of_a_tensor() -> None:
    def f(x: fw.Tensor, n: fw.Tensor) -> fw.Tensor:
        for _ in range(int(n)):
            x = x * 2
        return x

    agree(f, (X, fw.tensor(2)), (X, fw.tensor(0)), (X + 1, fw.tensor(2)), recordings=2)


def test_a_change_outside_happens_once() -> None:
    log = {"total": fw.zeros(3)}

    def f(x: fw.Tensor) -> fw.Tensor:
        log["total"] = log["total"] + x
        if log["total"].sum() > 10:
            log["total"] = log["total"] * 0
        return x

    compiled = fw.compile(f, fullgraph=True)
    want = np.zeros(3, np.float32)
    for _ in range(8):
        compiled(X)
        want = want + X.numpy()
        want = want * 0 if want.sum() > 10 else want
        assert_same(log["total"], fw.from_numpy(want))
    assert compiled.stats.recordings == 2
