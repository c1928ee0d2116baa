"""SciPy computes with tensors what it computes with NumPy's arrays (SCIPY_ARRAY_API=1)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import fusewire as fw

pytest.importorskip("scipy", "1.17")

CALLS = import_module("libraries.scipy_calls").CALLS

LOOSE = {"interpolate.Akima1DInterpolator": 1e-6}  # it writes into an `empty` of the default dtype
AS_NUMPY = {  # SciPy converts the arguments of these, and the result is NumPy's
    "signal.periodogram", "signal.welch", "integrate.simpson", "linalg.det", "linalg.inv",
    "linalg.solve", "linalg.svdvals", "spatial.cdist"}


def parts(result: Any) -> Iterator[Any]:
    """The arrays of a result."""
    if not isinstance(result, (tuple, list)):
        yield result
        return
    for part in result:
        yield from parts(part)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_the_values_are_those_of_numpy(name):
    expected, found = list(parts(CALLS[name](np.asarray))), list(parts(CALLS[name](fw.asarray)))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs),
                                   rtol=LOOSE.get(name, 1e-9), atol=1e-12)
    assert isinstance(found[0], fw.Tensor) is (name not in AS_NUMPY)
