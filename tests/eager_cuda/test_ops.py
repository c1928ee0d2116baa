"""Every op of the table on a GPU, by its rows: values and gradients are those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from eager_cuda.tested_devices import BOTH
from samples import ROWS, Row

import fusewire as fw
from fusewire.eager.arrays import cpu_kernels, devices
from fusewire.eager.core.op import OPS, Op
from fusewire.eager.cuda.device import DIFFERS, SLOW
from fusewire.eager.ops.shape.take import add_at
from fusewire.eager.upper_layer import UPPER

ASKED: set[str] = set()  # ops that the hook was asked for


def stand_in(op: Op, arrays: Any, params: Any, device: str) -> Any:
    """Code for every op with a meaning: its implementation on copies of the arrays."""
    ASKED.add(op.name)
    if op.kind == "opaque":
        return None
    with devices.making_on("cpu"), np.errstate(all="ignore"):
        found = op.impl(cpu_kernels, *map(devices.host, arrays), **params)
    return devices.moved(found, device)


@pytest.fixture(autouse=True)
def hook(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if UPPER.device_op is None:  # no kernels of ours run on what is not there
        monkeypatch.setattr(UPPER, "device_op", stand_in)


def on(device: str, row: Row, inputs: tuple[Any, ...]) -> list[Any]:
    """The result of a row's call and the gradients of its inputs, as arrays of the CPU."""
    fw.manual_seed(5)
    xs = [fw.tensor(a, device=device) for a in inputs]
    xs = [x.requires_grad_(row.grad and x.dtype.kind in "fc") for x in xs]
    out = row.call(*xs)
    assert OPS[row.op].draws or not xs or out.device == device  # numbers of a generator of the CPU
    found = [out]
    leaves = [x for x in xs if x.requires_grad]
    if out.requires_grad and leaves:
        gradients = fw.grad(out, leaves, fw.ones_like(out), allow_unused=True)
        assert all(g is None or g.device == x.device for g, x in zip(gradients, leaves))
        found += [g for g in gradients if g is not None]
    return [x.detach().cpu().numpy() for x in found]


def is_there(row: Row) -> bool:
    """Whether a GPU runs the op: an opaque one whose entry says why not cannot be compiled."""
    op = OPS[row.op]
    if row.op == "scatter":
        return not row.label.startswith(("prod", "amax", "amin"))
    return not (op.kind == "opaque" and row.op in DIFFERS)


@BOTH
@pytest.mark.parametrize("row", [row for row in ROWS if is_there(row)], ids=str)
def test_values_and_gradients_are_those_of_the_cpu(row: Row) -> None:
    for inputs in row.inputs(np.random.default_rng(0)):
        here, there = on("cpu", row, inputs), on("cuda:0", row, inputs)
        assert len(here) == len(there)
        for a, b in zip(here, there):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            tolerance = 1e-10 if a.dtype in (np.float64, np.complex128) else row.tolerance
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


@BOTH
@pytest.mark.parametrize("row", [row for row in ROWS if not is_there(row)], ids=str)
def test_what_a_gpu_does_not_run_says_so(row: Row) -> None:
    inputs = next(i for i in row.inputs(np.random.default_rng(0)) if all(a.size for a in i))
    with pytest.raises(fw.DeviceError, match=r"does not run on cuda:0: [^$]*x\.to\(.cpu.\)"):
        on("cuda:0", row, inputs)


def test_few_ops_are_missing_on_a_gpu() -> None:
    missing = {row.op for row in ROWS if not is_there(row)}
    assert missing == {"binomial", "gammainc", "lu", "matrix_exp", "poisson", "scatter"}


def test_what_is_said_of_cupy_is_said_of_ops() -> None:
    assert {*DIFFERS, *SLOW} <= OPS.keys()


def test_few_ops_need_code_of_ours() -> None:
    """The others run by CuPy alone, but in bfloat16 and where floats become integers."""
    needed = {name for name in DIFFERS if OPS[name].kind != "opaque"}
    assert needed == {"bitwise_left_shift", "bitwise_right_shift", "floor_divide", "remainder"}


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("count", [1, 2, 3, 64, 1000])
def test_rows_that_meet_in_one_place_are_each_added_once(count: int, dtype: str) -> None:
    """Without code of ours, too, which is asked for first."""
    drawn = np.random.default_rng(count)
    x = drawn.integers(0, 2, (2, count, 3)).astype(dtype)  # whole numbers: every sum is exact
    i = drawn.integers(0, 7, count) // 2
    here, there = (add_at(fw.tensor(x, device=d), fw.tensor(i, device=d), 5, axis=1)
                   for d in ("cpu", "cuda:0"))
    assert there.device == "cuda:0" and "add_at" in ASKED
    np.testing.assert_array_equal(there.cpu().numpy(), here.numpy())
