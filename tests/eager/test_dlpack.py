"""DLPack both ways: what NumPy hands over and takes, what cannot be said in a capsule."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.tensor_methods.dlpack import _type_in

NAMES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
         "complex128").split()
X = fw.arange(6).reshape(2, 3)
FORMS: dict[str, fw.Tensor] = {
    "whole": X, "row": X[1], "0-d": X[0, 0], "empty": X[:0], "every second": X[:, ::2],
    "turned": fw.permute_dims(X, (1, 0)), "broadcast": fw.broadcast_to(X, (2, 2, 3)),
}


class Other:
    """An array of another library: NumPy's, with what `__dlpack__` is to say instead."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked.append(dict(asked))
        return self.array.__dlpack__()


@pytest.mark.parametrize("form", FORMS)
def test_numpy_sees_the_same_memory_and_cannot_write_to_it(form: str) -> None:
    x = FORMS[form]
    seen = np.from_dlpack(x)
    np.testing.assert_array_equal(seen, x.numpy())
    assert not seen.flags.writeable
    assert np.shares_memory(seen, x.numpy()) or x.size == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype_goes_out_and_comes_back(name: str) -> None:
    x = X.astype(getattr(fw, name))
    assert np.from_dlpack(x).dtype == x.dtype
    back = fw.from_dlpack(x)
    assert back.dtype == x.dtype and bool((back == x).all())
    assert np.shares_memory(back.numpy(), x.numpy())


def test_bfloat16_is_named_in_the_capsule_though_numpy_does_not_know_it() -> None:
    x = fw.tensor([1.5, -2.0, float("inf")], dtype=fw.bfloat16)
    for asked in ({}, {"max_version": (1, 0)}, {"copy": True}):
        dtype = _type_in(x.__dlpack__(**asked))
        assert (dtype.code, dtype.bits, dtype.lanes) == (4, 16, 1)
    back = fw.from_dlpack(x)
    assert back.dtype == fw.bfloat16 and back.tolist() == x.tolist()
    assert back._data.__array_interface__["data"][0] == x._data.__array_interface__["data"][0]


def test_from_dlpack_shares_what_numpy_has() -> None:
    array = np.arange(4.0)
    assert np.shares_memory(fw.from_dlpack(array).numpy(), array)
    assert np.shares_memory(fw.from_dlpack(array, copy=False, device="cpu").numpy(), array)
    assert not np.shares_memory(fw.from_dlpack(array, copy=True).numpy(), array)


def test_a_copy_is_made_where_it_is_asked_for_or_needed() -> None:
    x = fw.from_numpy(np.arange(3)[::-1])
    assert np.from_dlpack(x).tolist() == [2, 1, 0]
    with pytest.raises(BufferError, match="runs backwards along an axis"):
        x.__dlpack__(copy=False)


@pytest.mark.parametrize("asked", [{}, {"copy": False}, {"max_version": (0, 8)},
                                   {"max_version": (1, 0), "dl_device": (1, 0), "copy": True}])
def test_capsules_for_old_and_new_consumers(asked: dict[str, Any]) -> None:
    """An array that NumPy has marked read-only can be exported by the older protocol too."""
    for x in (X, fw.broadcast_to(X, (2, 2, 3)), fw.from_dlpack(X)):
        assert type(x.__dlpack__(**asked)).__name__ == "PyCapsule"
    assert tuple(X.__dlpack_device__()) == (1, 0)


def test_memory_lives_as_long_as_somebody_uses_it() -> None:
    x = fw.arange(1000)
    array = x._data
    count = sys.getrefcount(array)
    capsule = x.__dlpack__()
    seen = np.from_dlpack(x)
    del x, capsule
    gc.collect()
    assert seen.sum() == 499500
    del seen
    gc.collect()
    assert sys.getrefcount(array) <= count


@pytest.mark.parametrize(("call", "message"), [
    (lambda: np.from_dlpack(fw.ones(2).requires_grad_()), "export x.detach()"),
    (lambda: X.__dlpack__(stream=1), "the CPU has no streams"),
    (lambda: X.__dlpack__(dl_device=(2, 0)), r"cannot export to device \(2, 0\)"),
    (lambda: fw.from_dlpack(Other(np.ones(2), (2, 0))), r'device \(2, 0\), not on the CPU'),
    (lambda: fw.from_dlpack(Other(np.ones(2), (2, 0)), device="cpu", copy=False), "not on the CPU"),
])
def test_what_cannot_be_handed_over_is_a_buffer_error(call: Any, message: str) -> None:
    with pytest.raises(BufferError, match=message):
        call()


def test_an_array_elsewhere_is_asked_for_a_copy_on_the_cpu() -> None:
    other = Other(np.arange(2), (2, 0))
    assert fw.from_dlpack(other, device="cpu").tolist() == [0, 1]
    assert other.asked[-1]["dl_device"] == (1, 0)


def test_what_is_no_array_at_all() -> None:
    with pytest.raises(AttributeError, match="__dlpack_device__"):
        fw.from_dlpack([1, 2])
    with pytest.raises(fw.DeviceError, match='"cuda"'):
        fw.from_dlpack(np.ones(1), device="cuda")
    with pytest.raises(BufferError, match="cannot take the memory of ndarray"):
        fw.from_dlpack(np.ones(1, np.longdouble))
