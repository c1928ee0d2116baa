"""vmap and jvp of every op, from the rows: a batch is its examples, a tangent is a slope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from samples import ROWS, Row

import fusewire as fw
from fusewire.eager.core.tensor import Tensor

EXAMPLES = 3


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def wide(a: Any) -> Any:
    """Floats in double precision."""
    return a.astype({"f": np.float64, "c": np.complex128}.get(a.dtype.kind, a.dtype))


def batches(row: Row, rng: Any) -> list[list[Any]]:
    """For each maker its inputs, with several examples along a new first axis."""
    found = []
    for make in row.makers:
        examples = [[wide(a) for a in make(rng)] for _ in range(EXAMPLES)]
        found.append([np.stack(same) for same in zip(*examples)])
    return [inputs for inputs in found if inputs]


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def one_by_one(call: Any, inputs: list[Any], mapped: list[bool]) -> list[Any]:
    """Results of the examples, each by itself; `inputs` that are not mapped give their first."""
    return [call(*[fw.tensor(a[i if m else 0]) for a, m in zip(inputs, mapped)])
            for i in range(EXAMPLES)]


def choices(count: int) -> list[list[bool]]:
    """Which inputs are mapped: all of them, and each by itself."""
    single = [[i == n for i in range(count)] for n in range(count)]
    return [[True] * count, *(single if count > 1 else [])]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_vmap_is_a_loop_over_examples(row: Row, rng: np.random.Generator) -> None:
    for inputs in batches(row, rng):
        for mapped in choices(len(inputs)):
            expected = one_by_one(row.call, inputs, mapped)
            if len({x.shape for x in expected}) > 1:
                continue  # a shape that depends on values: there is no batch of such results
            given = [fw.tensor(a if m else a[0]) for a, m in zip(inputs, mapped)]
            axes = tuple(0 if m else None for m in mapped)
            out = fw.func.vmap(row.call, in_axes=axes, randomness="same")(*given)
            assert out.dtype == expected[0].dtype
            close(out.numpy(), np.stack([x.numpy() for x in expected]))


# ---- jvp
def smooth_inputs(row: Row, rng: Any) -> list[list[Any]]:
    """Batches of finite floating point numbers."""
    return [inputs for inputs in batches(row, rng)
            if any(a.dtype.kind in "fc" for a in inputs)
            and all(np.isfinite(a).all() for a in inputs)]


def directions(inputs: list[Any], rng: Any) -> list[Any]:
    """A tangent for each floating point input, None for the others."""
    def one(a: Any) -> Any:
        if a.dtype.kind not in "fc":
            return None
        drawn = rng.standard_normal(a.shape)
        drawn = drawn + 1j * rng.standard_normal(a.shape) if a.dtype.kind == "c" else drawn
        return np.asarray(drawn, a.dtype)

    return [one(a) for a in inputs]


def slope(row: Row, inputs: list[Any], steps: list[Any]) -> tuple[Tensor, Tensor]:
    """The row's result and its tangent along `steps`."""
    moving = [n for n, t in enumerate(steps) if t is not None]

    def f(*xs: Tensor) -> Tensor:
        given = list(inputs)
        for n, x in zip(moving, xs):
            given[n] = x
        return row.call(*given)

    return fw.func.jvp(f, tuple(inputs[n] for n in moving), tuple(steps[n] for n in moving))


def as_tensors(arrays: list[Any], at: int | None = None) -> list[Any]:
    """Tensors of arrays, or of their example `at`."""
    return [None if a is None else fw.tensor(a if at is None else a[at]) for a in arrays]


DIFFERENTIABLE = [row for row in ROWS if row.grad]


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=str)
def test_jvp_is_the_slope_and_the_transpose_of_vjp(row: Row, rng: np.random.Generator) -> None:
    for inputs in smooth_inputs(row, rng):
        steps = directions(inputs, rng)
        xs, ts = as_tensors(inputs, 0), as_tensors(steps, 0)
        out, tangent = slope(row, xs, ts)
        assert (tangent.shape, tangent.dtype) == (out.shape, out.dtype)
        close(out.numpy(), row.call(*xs).numpy())
        if out.dtype.kind not in "fc":
            assert not tangent.numpy().any()
            continue
        moved = [row.call(*[x if t is None else x + t * h for x, t in zip(xs, ts)]).numpy()
                 for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(tangent.numpy(), (moved[0] - moved[1]) / 2e-6, rtol=1e-4,
                                   atol=1e-5)
        check_transpose(row, xs, ts, tangent, rng)


def check_transpose(row: Row, xs: list[Any], ts: list[Any], tangent: Tensor, rng: Any) -> None:
    """<u, jvp(t)> = <vjp(u), t>, with the real part as the product of complex numbers."""
    u = directions([tangent.numpy()], rng)[0]
    leaves = [x.requires_grad_() for x, t in zip(xs, ts) if t is not None]
    out = row.call(*xs)
    gradients = fw.grad(out, leaves, fw.tensor(u), allow_unused=True) if out.requires_grad else []
    back = sum(np.vdot(t.numpy(), g.numpy()).real for g, t in
               zip(gradients, (t for t in ts if t is not None)) if g is not None)
    np.testing.assert_allclose(np.vdot(u, tangent.numpy()).real, back, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=str)
def test_jvp_under_vmap(row: Row, rng: np.random.Generator) -> None:
    for inputs in smooth_inputs(row, rng):
        steps = directions(inputs, rng)
        xs, ts = as_tensors(inputs), as_tensors(steps)
        axes = ([0] * len(xs), [None if t is None else 0 for t in ts])
        both = [slope(row, as_tensors(inputs, i), as_tensors(steps, i)) for i in range(EXAMPLES)]
        if len({x.shape for x, _ in both}) > 1:
            continue
        outs = fw.func.vmap(lambda x, t: slope(row, x, t), in_axes=axes)(xs, ts)
        for got, expected in zip(outs, zip(*both)):
            close(got.numpy(), np.stack([x.numpy() for x in expected]))
