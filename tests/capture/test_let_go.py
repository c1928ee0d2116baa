"""What a call was given and has made is let go when it ends, at once and without Python's garbage
collector: memory does not grow from call to call."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.capture.replay.replay import NOT_TRACED
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT
from fusewire.eager.arrays import memory

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


def test_a_recording_lets_go_of_large_arrays_when_the_program_does() -> None:
    x, large = fw.tensor(np.ones((512, 256), "float32")), 512 * 256 * 4
    step = fw.compile(lambda x: x + 1 + 1 + 1 + 1 + 1 + 1, fullgraph=True)
    memory.empty_cache()
    tracemalloc.start()
    result = step(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 2 * large < peak < 4 * large  # of the six values two are there at a time
    np.testing.assert_array_equal(result, 7)
    np.testing.assert_array_equal(step(x), 7)


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
    assert [ref() for ref in given] == [None] * len(given)


def test_models_that_were_recorded() -> None:
    compiled = fw.compile(lambda model, x: model(x), fullgraph=True)
    refs = []
    for _ in range(5):
        model = nn.Linear(2, 2)
        refs.append(weakref.ref(model))
        compiled(model, fw.ones(2))
        del model
    assert [ref() for ref in refs] == [None] * 5


class Holder:
    """An object with a model in it."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).requires_grad_(False)
        self.factors = [1.0, 2.0]


def called(model: nn.Module, x: fw.Tensor) -> fw.Tensor:
    return model(x)


def trained(model: nn.Module, x: fw.Tensor) -> fw.Tensor:
    model(x).sum().backward()
    with fw.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad = None
    return x


def held(holder: Holder, x: fw.Tensor) -> fw.Tensor:
    return holder.model(x) * holder.factors[1]


def with_global(x: fw.Tensor) -> fw.Tensor:
    return MODEL.model(x)


MODEL: Any = None


@pytest.mark.parametrize("function,make", [
    (called, lambda: nn.Linear(2, 2).requires_grad_(False)), (held, Holder),
    (trained, lambda: nn.Linear(2, 2))])
def test_a_model_that_was_called_often(function: Callable[..., Any], make: Any) -> None:
    compiled, x = fw.compile(function, fullgraph=True), fw.ones(2)
    for _ in range(3):
        model = make()
        layer = model.model if isinstance(model, Holder) else model
        inside = [weakref.ref(p) for p in layer.parameters()]
        for _ in range(6):
            compiled(model, x)
        assert LAYOUT is None or compiled.programs[0].direct((model, x), {}) is not NOT_TRACED
        ref = weakref.ref(model)
        del model, layer
        assert [r() for r in (ref, *inside)] == [None] * (1 + len(inside))
        with pytest.raises((TypeError, AttributeError)):
            compiled(None, x)  # which is what the fast path finds in the place of the model


def test_a_global_that_was_called_often(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = fw.compile(with_global, fullgraph=True), fw.ones(2)
    for _ in range(3):
        monkeypatch.setitem(globals(), "MODEL", Holder())
        ref = weakref.ref(MODEL)
        for _ in range(6):
            compiled(x)
        assert LAYOUT is None or compiled.programs[0].direct((x,), {}) is not NOT_TRACED
        monkeypatch.setitem(globals(), "MODEL", None)
        monkeypatch.undo()
        assert ref() is None
