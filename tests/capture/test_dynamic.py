"""`dynamic=`: sizes that are symbols from the first call on, and what it cannot mean."""

from __future__ import annotations

from typing import Any

import pytest

import fusewire as fw


def added(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
    return x.sum(1) + y


@pytest.mark.parametrize("dynamic, recordings", [
    (True, 1), ({"x": [0], "y": [0]}, 1), ({"x": {0: "batch"}, "y": {-1: "batch"}}, 1),
    (None, 2), ({}, 2), (False, 3),
])
def test_recordings_for_three_sizes(dynamic: Any, recordings: int) -> None:
    f = fw.compile(added, fullgraph=True, dynamic=dynamic)
    for n in (4, 2, 7):
        assert f(fw.ones(n, 3), fw.ones(n)).tolist() == [4.0] * n
    assert f.stats.recordings == recordings


def test_sizes_of_one_name_are_one_size() -> None:
    f = fw.compile(added, fullgraph=True, dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
    f(fw.ones(4, 3), fw.ones(4))
    assert "argument 0 is float32[batch, 3]" in f.explain()


@pytest.mark.parametrize("dynamic, why", [
    ("yes", "dynamic='yes' is not True, False or axes"),
    ({"z": [0]}, "dynamic names 'z', which is not an argument: the arguments are x, y"),
])
def test_what_is_refused(dynamic: Any, why: str) -> None:
    with pytest.raises(fw.ArgumentError, match=why):
        fw.compile(added, dynamic=dynamic)


def test_an_axis_that_is_not_there() -> None:
    f = fw.compile(added, dynamic={"x": [2]})
    with pytest.raises(fw.AxisError, match="dynamic: argument x: axis 2 is out of range"):
        f(fw.ones(4, 3), fw.ones(4))
