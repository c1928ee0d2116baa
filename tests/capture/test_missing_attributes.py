"""Attributes that code finds missing: once they exist, the function is traced again."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
from oracle import assert_same

import fusewire as fw
from fusewire import nn

X = fw.tensor([1.0, 2.0])


class Base:
    pass


class Thing(Base):
    def __init__(self) -> None:
        self.other = 1


class Slotted:
    __slots__ = ("factor", "other")


class Rows(list):  # type: ignore[type-arg]
    pass


THING, LAYER = Thing(), nn.Linear(2, 2)
SLOTTED, ROWS, SPACE = Slotted(), Rows(), types.SimpleNamespace()
MODULE = sys.modules["a_module"] = types.ModuleType("a_module")


def function() -> None:
    pass


def by_hasattr(x: fw.Tensor, owner: Any) -> fw.Tensor:
    return x * owner.factor if hasattr(owner, "factor") else x


def by_getattr(x: fw.Tensor, owner: Any) -> fw.Tensor:
    return x * getattr(owner, "factor", 1.0)


def by_names_in_a_row(x: fw.Tensor, owner: Any) -> fw.Tensor:
    for name in ("missing", "factor"):
        if hasattr(owner, name):
            return x * getattr(owner, name)
    return x


def by_exception(x: fw.Tensor, owner: Any) -> fw.Tensor:
    try:
        return x * owner.factor
    except AttributeError:
        return x


@pytest.mark.parametrize("use", [by_hasattr, by_getattr, by_exception, by_names_in_a_row])
@pytest.mark.parametrize(("owner", "place"), [
    (THING, THING), (THING, Thing), (THING, Base), (Thing, Thing), (Thing, Base),
    (SLOTTED, SLOTTED), (MODULE, MODULE), (function, function), (LAYER, LAYER), (ROWS, ROWS),
    (SPACE, SPACE),
], ids=["object", "its class", "its base", "class", "base", "slots", "module", "function", "layer",
        "list", "namespace"])
def test_an_attribute_that_comes_and_goes(use: Callable[..., Any], owner: Any, place: Any) -> None:
    f = fw.compile(lambda x: use(x, owner), fullgraph=True)
    for value in (None, 2.0, 3.0, None, 4.0):
        if value is not None:
            place.factor = value
        try:
            for _ in range(4):
                assert_same(f(X), use(X, owner))
        finally:
            if value is not None:
                del place.factor
    assert f.stats.recordings <= 4


def test_one_attribute_in_the_place_of_another() -> None:
    thing = Thing()
    f = fw.compile(lambda x: by_hasattr(x, thing), fullgraph=True)
    for _ in range(4):
        assert_same(f(X), X)
    del thing.other
    thing.factor = 5.0  # type: ignore[attr-defined]
    assert_same(f(X), X * 5)

