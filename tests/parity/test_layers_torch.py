"""Every layer and loss against PyTorch: state, signatures, initial values, results, gradients."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest
import torch
from layers.every import LAYERS, Layer
from parity.layer_columns import COLUMNS

import fusewire as fw

# Classes of torch.nn that are not ours, and ours that are no layers by themselves.
MISSING: dict[str, str] = {}
WITHOUT: dict[str, str] = {"Module": "the base of all"}

CASES = [(row, column) for row in LAYERS for column in COLUMNS if column not in row.differs]


def classes(namespace: object, base: type) -> set[str]:
    """Names of the public classes of modules."""
    return {name for name, value in vars(namespace).items()
            if inspect.isclass(value) and issubclass(value, base) and not name.startswith("_")}


@pytest.mark.parametrize(("row", "column"), CASES, ids=lambda v: str(v).replace(" ", "_"))
def test_layer_is_as_in_torch(row: Layer, column: str) -> None:
    COLUMNS[column](row)


def test_rows_have_names_of_their_own() -> None:
    assert [name for name, n in Counter(map(str, LAYERS)).items() if n > 1] == []


def test_every_layer_of_torch_is_here() -> None:
    ours, theirs = classes(fw.nn, fw.nn.Module), classes(torch.nn, torch.nn.Module)
    assert sorted(theirs - ours - MISSING.keys()) == []


def test_every_layer_has_a_row() -> None:
    ours = classes(fw.nn, fw.nn.Module)
    assert sorted(ours - {row.name for row in LAYERS} - WITHOUT.keys()) == []
