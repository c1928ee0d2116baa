"""What every layer and loss can do: be copied, pickled, saved, cast, printed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from layers.every import LAYERS, Layer
from layers.row import tensors_of
from oracle import assert_same

import fusewire as fw


def result(row: Layer, module: Any) -> list[Any]:
    """What the module gives in evaluation."""
    return tensors_of(row.run(module.eval(), *[fw.from_numpy(a) for a in row.arrays()]))


def assert_equal(got: list[Any], wanted: list[Any]) -> None:
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        assert_same(g, w)


@pytest.mark.parametrize("row", LAYERS, ids=str)
def test_copies_compute_the_same(row: Layer) -> None:
    module = row.make()
    fw.manual_seed(0)
    wanted = result(row, module)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(copied) == repr(module)
        fw.manual_seed(0)
        assert_equal(result(row, copied), wanted)


@pytest.mark.parametrize("row", LAYERS, ids=str)
def test_state_carries_everything_that_is_trained(row: Layer) -> None:
    fw.manual_seed(0)
    module, other = row.make(), row.make()
    other.load_state_dict(module.state_dict())
    fw.manual_seed(0)
    wanted = result(row, module)
    fw.manual_seed(0)
    assert_equal(result(row, other), wanted)


@pytest.mark.parametrize("row", [r for r in LAYERS if "evaluation" not in r.differs], ids=str)
def test_evaluation_leaves_no_trace(row: Layer) -> None:
    module = row.make()
    before = {name: value.numpy().copy() for name, value in module.state_dict().items()}
    result(row, module)
    for name, value in module.state_dict().items():
        assert_same(value, before[name])
