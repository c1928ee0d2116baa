"""Every kind of kernel in a library, and what it gives beside what the function gives."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_calls import outputs_of
from c_programs import HERE
from kinds import KINDS, cases, made_of
from sampling import sample

import fusewire as fw

pytestmark = pytest.mark.skipif(bool(HERE.missing), reason=f"not here: {HERE.missing}")

TARGETS = ("native", "x86-64-v2", "x86-64-v3")


def forward(name: str) -> Any:
    """The function of a kind, without its gradients."""
    function = KINDS[name].function
    return inspect.getclosurevars(function).nonlocals.get("function", function)


def close(mine: Any, theirs: Any, dtype: str) -> None:
    tolerance = 1e-4 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "dtype"), sample([c for c in cases() if c[0] != "dropout"], 24))
def test_a_library_of_each_kind(name: str, dtype: str, tmp_path: Path) -> None:
    rng, fn = np.random.default_rng(0), forward(name)
    for target, size in zip(TARGETS, (7, 16, 33)):
        arrays = [made_of(shape, np.dtype(dtype), rng) for shape in KINDS[name].inputs(size)]
        args = tuple(map(fw.tensor, arrays))
        found = fn(*args)
        wanted = [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]
        folder = tmp_path / target
        folder.mkdir()
        fw.aot.build(fn, args, folder / "model", target=target, library=True)
        for mine, theirs in zip(outputs_of(str(folder / "model.so"), arrays, wanted), wanted):
            close(mine, theirs, dtype)
