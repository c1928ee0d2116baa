"""scikit-learn computes with tensors what it computes with NumPy's arrays (array_api_dispatch)."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import fusewire as fw

sklearn = pytest.importorskip("sklearn", "1.9")
pytest.importorskip("scipy", "1.17")

calls = import_module("libraries.sklearn_calls")


def parts(result):
    """The arrays and numbers of a result."""
    return [part for inner in result for part in parts(inner)] \
        if isinstance(result, (tuple, list)) else [result]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", calls.CALLS)
def test_the_values_are_those_of_numpy(name):
    with sklearn.config_context(array_api_dispatch=True):
        expected, found = [
            parts(calls.CALLS[name](make)) for make in (np.asarray, fw.asarray)]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6, atol=1e-8)
    if name in calls.ESTIMATORS or name in calls.FUNCTIONS:
        assert all(isinstance(part, fw.Tensor) for part in found)
