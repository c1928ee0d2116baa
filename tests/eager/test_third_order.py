"""Any order of derivative: the third one of every smooth row, by one random projection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from samples import ROWS, Row

import fusewire as fw

SMOOTH = [row for row in ROWS if row.grad and row.smooth]
STEP = 1e-6


def differentiable(row: Row, rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """The first three inputs with finite floats, as float64."""
    found = [tuple(a.astype(np.float64) if a.dtype.kind == "f" else a for a in inputs)
             for inputs in row.inputs(rng)
             if any(a.dtype.kind == "f" and a.size for a in inputs)
             and all(np.isfinite(a).all() for a in inputs)]
    return found[:3]


def gradients(value: fw.Tensor, leaves: list[fw.Tensor]) -> list[fw.Tensor]:
    if not value.requires_grad:
        return [fw.zeros_like(x) for x in leaves]
    return list(fw.grad(value, leaves, create_graph=True, materialize_grads=True))


def second(row: Row, arrays: list[Any], u: list[Any], v: list[Any]
           ) -> tuple[fw.Tensor, list[fw.Tensor]]:
    """A number made of the second gradient of a row's result, and the tensors it depends on."""
    xs = [fw.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    leaves = [x for x in xs if x.requires_grad]
    out = row.call(*xs)
    value = (out * fw.tensor(u)).sum()
    for weights in v:
        found = gradients(value, leaves)
        value = sum(((g * g * fw.tensor(w)).sum() for g, w in zip(found, weights)),
                    start=fw.tensor(0.0, dtype=fw.float64))
    return value, leaves


@pytest.mark.parametrize("row", SMOOTH, ids=str)
def test_third_gradient(row: Row) -> None:
    rng = np.random.default_rng(0)
    for arrays in differentiable(row, rng):
        xs = [fw.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        out = row.call(*xs)
        if not out.requires_grad or out.dtype.kind != "f":
            continue
        floats = [a for a in arrays if a.dtype.kind == "f"]
        u = rng.uniform(0.5, 1.5, out.shape)
        v = [[rng.uniform(0.5, 1.5, a.shape) for a in floats] for _ in range(2)]
        value, leaves = second(row, list(arrays), u, v)
        found = gradients(value, leaves)
        steps = [rng.standard_normal(a.shape) for a in floats]
        slope = sum(float((g * fw.tensor(s)).sum()) for g, s in zip(found, steps))
        sides = []
        for sign in (1, -1):
            moved = iter(steps)
            at = [np.asarray(a + sign * STEP * next(moved)) if a.dtype.kind == "f" else a
                  for a in arrays]
            sides.append(float(second(row, at, u, v)[0]))
        scale = max(1.0, *map(abs, sides))
        np.testing.assert_allclose(slope, (sides[0] - sides[1]) / (2 * STEP), rtol=1e-4,
                                   atol=2e-9 * scale / STEP)
