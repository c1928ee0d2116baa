"""The op matrix on the back end of examples/backends/c_source: every op by its rows, eagerly and
compiled, values and gradients, which are those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from samples import ROWS, Row
from sampling import sample

import fusewire as fw
from fusewire.eager.core.op import OPS

SAMPLED = 25  # rows in each way, unless FUSEWIRE_TEST_WHOLE=1


def results(row: Row, call: Any, inputs: tuple[Any, ...], device: str) -> list[Any]:
    """The result of a row's call and the gradients of its inputs, as arrays of the CPU."""
    fw.manual_seed(5)
    xs = [fw.tensor(a, device=device) for a in inputs]
    xs = [x.requires_grad_(row.grad and x.dtype.kind in "fc") for x in xs]
    out = call(*xs)
    assert OPS[row.op].draws or not xs or out.device == device  # numbers of a generator of the CPU
    found, leaves = [out], [x for x in xs if x.requires_grad]
    if out.requires_grad and leaves:
        gradients = fw.grad(out, leaves, fw.ones_like(out), allow_unused=True)
        assert all(g is None or g.device == device for g in gradients)
        found += [g for g in gradients if g is not None]
    return [x.detach().cpu().numpy() for x in found]


def assert_equal(row: Row, found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(expected, found):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        tolerance = 1e-10 if a.dtype in (np.float64, np.complex128) else row.tolerance
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("row", sample(ROWS, SAMPLED, seed=1), ids=str)
def test_eager(row: Row) -> None:
    for inputs in row.inputs(np.random.default_rng(0)):
        assert_equal(row, results(row, row.call, inputs, "c:0"),
                     results(row, row.call, inputs, "cpu"))


@pytest.mark.parametrize("row", sample(ROWS, SAMPLED, seed=2), ids=str)
def test_compiled(row: Row) -> None:
    for inputs in row.inputs(np.random.default_rng(0)):
        compiled = fw.compile(row.call)
        for _ in range(2):  # a trace, then a replay
            found = results(row, compiled, inputs, "c:0")
        assert_equal(row, found, results(row, row.call, inputs, "cpu"))
