"""Tensors of PyTorch and ours over one memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fusewire as fw

NAMES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 bfloat16 float16 float32 float64 "
         "complex64 complex128").split()
X = fw.arange(6).reshape(2, 3)
FORMS = {"whole": X, "row": X[1], "0-d": X[0, 0], "every second": X[:, ::2],
         "turned": fw.permute_dims(X, (1, 0)), "broadcast": fw.broadcast_to(X, (2, 2, 3))}


def address(x: fw.Tensor) -> int:
    return x._data.__array_interface__["data"][0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_there_and_back_without_a_copy(form: str, name: str) -> None:
    x = FORMS[form] if name == "int64" else FORMS[form].astype(getattr(fw, name))
    theirs = torch.from_dlpack(x)
    back = fw.from_dlpack(theirs)
    assert theirs.dtype == getattr(torch, name) and back.dtype == x.dtype
    assert back.tolist() == theirs.tolist() == x.tolist()
    assert address(x) == theirs.data_ptr() == address(back)


def test_what_has_no_elements_and_what_runs_backwards() -> None:
    assert fw.from_dlpack(torch.from_dlpack(X[:0])).shape == (0, 3)
    assert torch.from_dlpack(fw.from_numpy(np.arange(3)[::-1])).tolist() == [2, 1, 0]


def test_gradients_do_not_cross() -> None:
    with pytest.raises(BufferError, match="detach"):
        torch.from_dlpack(fw.ones(2).requires_grad_())
    with pytest.raises(BufferError, match="detach"):
        fw.from_dlpack(torch.ones(2, requires_grad=True))


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_a_dtype_that_we_do_not_have() -> None:
    with pytest.raises(BufferError, match="cannot take the memory of Tensor"):
        fw.from_dlpack(torch.ones(2, dtype=torch.complex32))
