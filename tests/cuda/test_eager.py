"""Ops on a GPU one by one: as a kernel where CuPy has no function for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from emulated import EmulatedDevice
from oracle import assert_same

from fusewire.capture.runtime.specialization_cache import Specializations
from fusewire.codegen import backend
from fusewire.codegen.cuda.runtime.backend import CUDA_BACKEND
from fusewire.codegen.eager_jit import device_ops
from fusewire.eager.arrays import cpu_kernels, devices
from fusewire.eager.arrays.device_type import DeviceType
from fusewire.eager.core.op import OPS
from fusewire.eager.upper_layer import UPPER


class _NumpyGpu(DeviceType):
    name = "cuda"

    def number_of(self, array: Any) -> int:
        return 0

    def download(self, array: Any) -> Any:
        return array


@pytest.fixture(autouse=True)
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's arrays count as a GPU's, which the emulator is."""
    monkeypatch.setattr(devices, "in_use", True)
    monkeypatch.setitem(devices.LOADED, np.ndarray, _NumpyGpu())
    monkeypatch.setitem(backend._LOADED, "cuda",
                        replace(CUDA_BACKEND, device=lambda number: EmulatedDevice()))
    monkeypatch.setattr(device_ops, "_PROGRAMS", Specializations("eager GPU programs"))
    monkeypatch.setattr(UPPER, "device_in_range", None)


def both(name: str, *operands: Any, **params: Any) -> tuple[Any, Any]:
    """What an op gives on the GPU, and on the CPU."""
    op = OPS[name]
    with np.errstate(all="ignore"):
        return (device_ops.run_op(op, operands, params, "cuda:0"),
                op.impl(cpu_kernels, *operands, **params))


def test_numbers_beside_arrays_adapt_to_them() -> None:
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    for name in ("add", "maximum", "remainder", "pow"):
        assert_same(*both(name, x, 3))
        assert_same(*both(name, 2.5, x))


def test_integers_divide_as_on_the_cpu() -> None:
    x, y = np.array([7, -7, 7, -7, 5], np.int32), np.array([2, 2, -2, -2, 0], np.int32)
    assert_same(*both("floor_divide", x, y))
    assert_same(*both("remainder", x, y))


def test_a_program_is_made_once_for_equal_types(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(EmulatedDevice, "load", _noting(EmulatedDevice.load, loaded))
    x = np.ones(4, np.float32)
    for value in (x, 2 * x, np.ones(5, np.float32)):
        assert_same(*both("exp", value))
    assert len(loaded) == 2


def _noting(load: Any, loaded: list[str]) -> Any:
    def noting(self: EmulatedDevice, source: str) -> Any:
        loaded.append(source)
        return load(self, source)

    return noting


def test_what_has_no_code_is_left_to_others() -> None:
    opaque = next(op for op in OPS.values() if op.kind == "opaque" and op.name == "eig")
    assert device_ops.run_op(opaque, (np.eye(3, dtype=np.float32),), {}, "cuda:0") is None


def test_random_numbers_are_those_of_the_cpu() -> None:
    state = np.array([3, 5], np.int64)
    got, wanted = both("uniform", state, shape=(37, 5), dtype=np.dtype("float32"))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("count", [9, 200])
def test_rows_that_meet_in_one_place(count: int) -> None:
    drawn = np.random.default_rng(1)
    x, i = drawn.standard_normal((count, 3)).astype(np.float32), drawn.integers(0, 4, count)
    assert_same(*both("add_at", x, i, size=5, axis=0), 10)
    with pytest.raises(IndexError, match="add_at: index 3 is out of range"):
        device_ops.run_op(OPS["add_at"], (x, i), {"size": 3, "axis": 0}, "cuda:0")
