"""What a call was given and has made is let go when it ends, at once and without Python's garbage
collector: memory does not grow from call to call."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn

LAYER = nn.Linear(2, 2)


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def decides(x: fw.Tensor) -> fw.Tensor:
    return x * 2 if x.sum() > 0 else x


def loops(x: fw.Tensor) -> fw.Tensor:
    while x.sum() < 100:
        x = x * 2
    return x


def differentiable(x: fw.Tensor) -> fw.Tensor:
    return (LAYER(x) ** 2).sum()


def containers(x: fw.Tensor) -> Any:
    return {"a": x * 2, "b": [x + 1]}


@pytest.mark.parametrize("function", [decides, loops, differentiable, containers])
@pytest.mark.parametrize("calls", [1, 6])
def test_arrays(function: Callable[[fw.Tensor], Any], calls: int) -> None:
    compiled, given = fw.compile(function, fullgraph=True), []
    for _ in range(calls):
        x = fw.tensor(np.ones(2, "float32"))
        given.append(weakref.ref(x._data))
        made = compiled(x)
        tensors = [made] if isinstance(made, fw.Tensor) else [made["a"], *made["b"]]
        given += [weakref.ref(t._data) for t in tensors]
        del x, made, tensors
    alive = [ref for ref in given if ref() is not None]
    assert len(alive) <= (1 if calls > 1 else 0)  # the short way of such calls knows one of them


def test_models_that_were_recorded() -> None:
    compiled = fw.compile(lambda model, x: model(x), fullgraph=True)
    refs = []
    for _ in range(5):
        model = nn.Linear(2, 2)
        refs.append(weakref.ref(model))
        compiled(model, fw.ones(2))
        del model
    assert [ref() for ref in refs] == [None] * 5
