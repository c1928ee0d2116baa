"""A recording visits what the function reads, however large the state around it is."""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn
from fusewire.capture.heap.snapshot import HeapSnapshot

X = fw.tensor([1.0, 2.0, 3.0])


def helper(x: fw.Tensor, settings: dict[str, Any]) -> fw.Tensor:
    return x * settings["rate"]


def chosen(settings: dict[str, Any]) -> Any:
    return settings["deep"]


class World:
    """State of which each function below reads a small part; `size` objects are beside it."""

    def __init__(self, size: int) -> None:
        huge = {f"k{i}": [{"a": i, "b": [i]}, types.SimpleNamespace(k=i, rate=i, deep=[i])]
                for i in range(size)}

        class Model(nn.Module):
            registry = huge
            factor = 2.0

            def __init__(self) -> None:
                super().__init__()
                self.k, self.unread = 3.0, huge
                self.table = {"a": 1.5, "unread": huge}
                self.head = nn.Linear(3, 2)
                self.others = nn.ModuleList([nn.Linear(1, 1) for _ in range(size // 10)])

            def forward(self, x: fw.Tensor) -> fw.Tensor:
                return self.head(x * self.k * self.factor) + self.table["a"]

        self.settings = {"rate": 0.5, "deep": {"lr": 0.1, "unread": huge}, "unread": huge}
        self.numbers, self.model = [1.0, 2.0, huge], Model()
        self.object = types.SimpleNamespace(rate=2.0, unread=huge)
        self.library = types.ModuleType("library")
        vars(self.library).update(rate=2.0, unread=huge, parts=types.ModuleType("library.parts"))
        vars(self.library.parts).update(
            {f"name{i}": types.ModuleType(f"library.m{i}") for i in range(size)}, scale=3.0)
        self.log = logging.Logger("recording_cost")
        self.log.handlers = [logging.NullHandler()]
        self.log.handlers[0].owner = self  # type: ignore[attr-defined]


def dictionary(w: World) -> Callable[..., Any]:
    settings = w.settings
    return lambda x: x * settings["rate"] + settings["deep"]["lr"]


def dictionary_get(w: World) -> Callable[..., Any]:
    settings = w.settings
    return lambda x: x * settings.get("rate", 1.0) * settings.get("absent", 2.0)


def dictionary_test(w: World) -> Callable[..., Any]:
    settings = w.settings
    return lambda x: x * 2 if "rate" in settings and len(settings) > 1 else x


def computed_key(w: World) -> Callable[..., Any]:
    settings, key = w.settings, "rate"
    return lambda x: x * settings[key]


def dictionary_passed_to_a_function(w: World) -> Callable[..., Any]:
    settings = w.settings
    return lambda x: helper(x, settings) + helper(x, settings=settings)


def dictionary_returned_by_a_function(w: World) -> Callable[..., Any]:
    settings = w.settings
    return lambda x: x * chosen(settings)["lr"]


def elements(w: World) -> Callable[..., Any]:
    numbers = w.numbers
    return lambda x: x * numbers[0] + numbers[-2]


def attribute(w: World) -> Callable[..., Any]:
    thing = w.object
    return lambda x: x * thing.rate


def attribute_by_getattr(w: World) -> Callable[..., Any]:
    thing = w.object
    return lambda x: x * getattr(thing, "rate", 1.0) * (2 if hasattr(thing, "absent") else 1)


def layer(w: World) -> Callable[..., Any]:
    model = w.model
    return lambda x: model(x).detach()


def bound_method(w: World) -> Callable[..., Any]:
    return w.model.forward


def module(w: World) -> Callable[..., Any]:
    library = w.library
    return lambda x: x * library.rate * library.parts.scale


def assignments(w: World) -> Callable[..., Any]:
    settings, thing = w.settings, w.object

    def f(x: fw.Tensor) -> fw.Tensor:
        settings["count"] = settings.get("count", 0) + 1
        thing.last = x
        return x * 2

    return f


def refused(w: World) -> Callable[..., Any]:
    log = w.log

    def f(x: fw.Tensor) -> fw.Tensor:
        log.warning("step")
        return x * 2

    return f


FUNCTIONS = [dictionary, dictionary_get, dictionary_test, computed_key,
             dictionary_passed_to_a_function, dictionary_returned_by_a_function, elements,
             attribute, attribute_by_getattr, layer, bound_method, module, assignments, refused]


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[HeapSnapshot]]:
    made: list[HeapSnapshot] = []
    create = HeapSnapshot.__init__

    def noted(self: HeapSnapshot) -> None:
        create(self)
        made.append(self)

    monkeypatch.setattr(HeapSnapshot, "__init__", noted)
    yield made


def visits(make: Callable[[World], Any], size: int, snapshots: list[HeapSnapshot]) -> list[int]:
    """The objects that a recording visits, the values that it copies, and its guards."""
    f = fw.compile(make(World(size)))
    snapshots.clear()
    f(X)
    state = snapshots[0]
    copied = sum(len(c) for c in state.held.values()) + sum(map(len, state.items.values()))
    guards = sum(len(p.guards) for p in f.programs)
    return [len(state.values), copied, guards]


@pytest.mark.parametrize("make", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::fusewire.capture.runtime.warnings.CaptureWarning")
def test_state_beside_what_is_read_is_not_visited(
        make: Callable[[World], Any], snapshots: list[HeapSnapshot]) -> None:
    small, large = visits(make, 10, snapshots), visits(make, 2000, snapshots)
    assert large == small


def test_modules_of_the_process_are_not_visited(
        monkeypatch: pytest.MonkeyPatch, snapshots: list[HeapSnapshot]) -> None:
    before = visits(module, 10, snapshots)
    names = [f"loaded_{i}" for i in range(2000)]
    for name in names:
        loaded = types.ModuleType(name)
        vars(loaded).update(rate=1.0, scale=[1.0], modules=sys.modules)
        monkeypatch.setitem(sys.modules, name, loaded)
    assert visits(module, 10, snapshots) == before


def test_elements_that_are_read_are_visited(snapshots: list[HeapSnapshot]) -> None:
    def total(w: World) -> Callable[..., Any]:
        rows = [w.settings["rate"]] * w.numbers[2].__len__()
        return lambda x: sum((x * r for r in rows), x)

    assert visits(total, 20, snapshots) > visits(total, 10, snapshots)
