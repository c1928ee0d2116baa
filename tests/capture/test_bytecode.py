"""What code says of itself: whether it may read attributes whose names do not stand in it."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import pytest

from fusewire.capture.heap.bytecode import names_of, reads_by_name


def in_a_loop(x: Any) -> Any:
    while not getattr(x.y.z(3), "name", 0):
        x = getattr(x, "next")  # noqa: B009
    return hasattr(x, "name")


@pytest.mark.parametrize("function", [
    lambda x: x.name, lambda x: getattr(x, "name"),  # noqa: B009
    lambda x: getattr(x["key"], "name", None), lambda f, y: hasattr(f(y, 2), "name"),
    lambda x: 1 if getattr(x, "name", False) else 2,
    lambda x, y: getattr(x, "name", getattr(y, "name")), in_a_loop,  # noqa: B009
])
def test_names_that_stand_in_the_code(function: Callable[..., Any]) -> None:
    assert not reads_by_name(function.__code__)
    assert "name" in names_of(function.__code__)


@pytest.mark.parametrize("function", [
    lambda x, name: getattr(x, name), lambda x, name: getattr(x["key"], name),
    lambda x, i: hasattr(x, f"layer{i}"), lambda xs: list(map(getattr, xs, ["name"])),
    lambda x: x.__dict__, lambda x: vars(x)["name"], lambda x: dir(x),
    lambda x, name: (getattr(x, "a"), getattr(x, name)),  # noqa: B009
    lambda x, pick: pick(getattr, x, "name"), lambda x, name: builtins.getattr(x, name),
    lambda x: getattr(x, "__dict__"), lambda x: getattr(x, "0"),  # noqa: B009
    lambda x: getattr(x, "name".upper()), lambda x, y: getattr(x, "name" + y, None),
    lambda x, y: getattr(x, y.get("a", "b")), lambda x: getattr(*x),
])
def test_names_that_do_not(function: Callable[..., Any]) -> None:
    assert reads_by_name(function.__code__)
