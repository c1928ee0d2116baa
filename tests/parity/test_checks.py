"""The columns see what is wrong: each with an entry that is right and one that is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from inputs import x
from parity.columns import COLUMNS, Difference
from parity.entry import Entry

import fusewire as fw


def entry(ours: Any, theirs: Any = lambda a: a * a) -> Entry:
    return Entry("square", "test", ((x(3, 4),),), ours, theirs)


def value_of(a: Any) -> Any:
    return fw.square(a.detach())


WRONG = {
    "values": lambda a: a * a * 1.0001,
    "grad": lambda a: value_of(a) + 2.001 * (a * a.detach() - value_of(a)),
    "grad grad": lambda a: value_of(a) + 2 * (a * a.detach() - value_of(a)),
    "forward": lambda a: value_of(a) + 2.001 * (a * a.detach() - value_of(a)),
    "vmap of grad": lambda a: value_of(a) + 2.001 * (a * a.detach() - value_of(a)),
    "vmap": lambda a: a * a * (1 + 0.001 * fw.arange(a.shape[0] * 0 + 3).sum()),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_right_passes(column: str) -> None:
    assert COLUMNS[column](entry(lambda a: a * a)) < 1e-4


@pytest.mark.parametrize("column", COLUMNS)
def test_wrong_is_seen(column: str) -> None:
    with pytest.raises(Difference, match="differs by"):
        COLUMNS[column](entry(WRONG[column]))


@pytest.mark.parametrize("wrong", [
    lambda a: (a * a).astype(fw.float64), lambda a: (a * a)[None], lambda a: (a * a, a)])
def test_dtype_shape_and_number_of_results_are_seen(wrong: Any) -> None:
    with pytest.raises(Difference):
        COLUMNS["values"](entry(wrong))


def test_nan_is_seen() -> None:
    with pytest.raises(Difference):
        COLUMNS["values"](entry(lambda a: a / 0 * 0))
    with pytest.raises(Difference):
        COLUMNS["values"](entry(lambda a: a * a, lambda a: torch.where(a > 0, torch.nan, a * a)))
