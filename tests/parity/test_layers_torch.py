"""Every layer and loss against PyTorch: state, signatures, initial values, results, gradients."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest
from layers.every import LAYERS, Layer
from parity.layer_columns import COLUMNS

from fusewire import nn

# Modules that are no layers by themselves; test_module_torch compares containers and lazy layers.
WITHOUT = {"Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"}

CASES = [(row, column) for row in LAYERS for column in COLUMNS if column not in row.differs]


@pytest.mark.parametrize(("row", "column"), CASES, ids=lambda v: str(v).replace(" ", "_"))
def test_layer_is_as_in_torch(row: Layer, column: str) -> None:
    COLUMNS[column](row)


def test_rows_have_names_of_their_own() -> None:
    assert [name for name, n in Counter(map(str, LAYERS)).items() if n > 1] == []


def test_every_layer_has_a_row() -> None:
    layers = {name for name, value in vars(nn).items() if inspect.isclass(value)
              and issubclass(value, nn.Module) and not issubclass(value, nn.LazyModuleMixin)}
    assert sorted(layers - {row.name for row in LAYERS} - WITHOUT) == []
