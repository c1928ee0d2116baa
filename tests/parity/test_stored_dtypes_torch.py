"""Tensors of float8 beside PyTorch's: casts, gradients, products by scales, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rows.codes import every_code, near_ties

import fusewire as fw
from fusewire.eager.arrays import dtypes

FLOATS8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
EVERY = pytest.mark.parametrize("name", FLOATS8)


def bits(x: Any) -> Any:
    return x.view(torch.uint8).numpy() if isinstance(x, torch.Tensor) else x.numpy().view(np.uint8)


@EVERY
def test_all_codes_mean_the_same(name: str) -> None:
    codes = every_code(getattr(fw, name))
    ours = fw.from_numpy(codes.view(name)).astype(fw.float32)
    theirs = torch.from_numpy(codes).view(getattr(torch, name)).float()
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@EVERY
def test_casts(name: str) -> None:
    """Numbers within the range. Beyond it PyTorch saturates some formats, by version."""
    dtype = getattr(fw, name)
    x = near_ties(dtype)
    limits = fw.finfo(dtype)
    x = x[(x > 0) & (x >= limits.smallest_normal / 64) & (x <= limits.max)]
    np.testing.assert_array_equal(bits(fw.from_numpy(x).astype(dtype)),
                                  bits(torch.from_numpy(x).to(getattr(torch, name))))


@pytest.mark.parametrize("name", FLOATS8[:4])
def test_gradients_of_casts(name: str) -> None:
    """PyTorch rounds gradients of float8 to float8, so these are numbers that it has."""
    values, weights = [1.0, -2.5, 0.3], [2.0, 0.5, -4.0]
    ours = fw.tensor(values, requires_grad=True)
    (ours.astype(name).astype(fw.float32) * fw.tensor(weights)).sum().backward()
    theirs = torch.tensor(values, requires_grad=True)
    (theirs.to(getattr(torch, name)).float() * torch.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(ours.grad.numpy(), theirs.grad.numpy())


@pytest.mark.parametrize(("scales", "out"), [("one", "float32"), ("one", "bfloat16"),
                                             ("rows", "bfloat16")])  # its kernels have no others
def test_products_by_scales(scales: str, out: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (fw.from_numpy(rng.standard_normal((16, 32)).astype(np.float32)).astype(
        fw.float8_e4m3fn) for _ in range(2))
    shapes = ((), ()) if scales == "one" else ((16, 1), (1, 16))
    factors = [rng.random(s, np.float32) + np.float32(0.5) for s in shapes]
    theirs = torch._scaled_mm(torch.from_dlpack(a), torch.from_dlpack(b).t(),
                              *[torch.from_numpy(np.asarray(f)) for f in factors],
                              out_dtype=getattr(torch, out)).float().numpy()
    scaled = [fw.tensor(f) for f in factors]
    for run in (fw.scaled_matmul, fw.compile(fw.scaled_matmul, fullgraph=True)):
        got = run(a, b.T, *scaled, out_dtype=getattr(fw, out))
        assert got.dtype.name == out
        np.testing.assert_allclose(got.astype(fw.float32).numpy(), theirs,
                                   1e-5 if out == "float32" else 1e-2, 1e-5)


def test_promotion_and_arithmetic_raise_there_too() -> None:
    ours, theirs = fw.ones(2, dtype=fw.float8_e5m2), torch.ones(2).to(torch.float8_e5m2)
    for compute in (lambda x: x + x, lambda x: x * 2, lambda x: x < x, lambda x: x.sum()):
        with pytest.raises(fw.DTypeError):
            compute(ours)
        with pytest.raises((RuntimeError, NotImplementedError)):
            compute(theirs)
    assert (ours == ours).tolist() == (theirs == theirs).tolist()
    assert (ours == 1.0).tolist() == (theirs == 1.0).tolist()


@EVERY
def test_memory_is_shared(name: str) -> None:
    x = fw.from_numpy(every_code(getattr(fw, name)).view(name))
    theirs = torch.from_dlpack(x)
    assert theirs.dtype == getattr(torch, name)
    np.testing.assert_array_equal(bits(theirs), bits(x))
    np.testing.assert_array_equal(bits(fw.from_dlpack(theirs)), bits(x))


@pytest.mark.parametrize("name", FLOATS8[:4])
def test_checkpoints(name: str, tmp_path: Path) -> None:
    torch_files = pytest.importorskip("safetensors.torch")
    x, path = fw.from_numpy(every_code(getattr(fw, name)).view(name)), str(tmp_path / "x")
    fw.save({"x": x}, path)
    theirs = torch_files.load_file(path)
    np.testing.assert_array_equal(bits(theirs["x"]), bits(x))
    torch_files.save_file(theirs, path)
    np.testing.assert_array_equal(bits(fw.load(path)["x"]), bits(x))
    assert dtypes.is_stored(fw.load(path)["x"].dtype)
