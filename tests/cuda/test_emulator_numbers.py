"""The emulator's functions of numbers give what NumPy, ml_dtypes and CUDA's manual say."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emulator.emulator import AVAILABLE, Module

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="no g++ here")
HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def kernel_of(body: str, parameters: str) -> Module:
    return Module(f'extern "C" __global__ void kernel({parameters}, int n) {{\n'
                  "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                  f"if (i < n) {{ {body} }}\n}}\n")


def run(body: str, parameters: str, *arrays: Any) -> None:
    n = len(arrays[0])
    kernel_of(body, parameters).launch("kernel", (-(-n // 1024),), (1024,), [*arrays, np.int32(n)])


def with_all_exponents(n: int) -> Any:
    """Floats of random bits, and those that lie between two halves or next to that."""
    bits = np.random.default_rng(0).integers(0, 2**32, n, dtype=np.uint32)
    wide = np.arange(65536, dtype=np.uint32) << 16 | 0x8000
    narrow = (np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
              | 0x1000)
    near = np.concatenate([wide, narrow])
    return np.concatenate([bits, near, near - 1, near + 1]).view(np.float32)


@pytest.mark.parametrize("name", HALVES)
def test_every_half_as_a_float(name: str) -> None:
    halves = np.arange(65536, dtype=np.uint16)
    floats = np.zeros(65536, np.float32)
    run(f"out[i] = fw_{name}_to_f32(x[i]);", "const unsigned short* x, float* out", halves, floats)
    with np.errstate(invalid="ignore"):
        expected = halves.view(HALVES[name]).astype(np.float32)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(floats[numbers].view(np.uint32),
                                  expected[numbers].view(np.uint32))
    np.testing.assert_array_equal(np.isnan(floats), ~numbers)


@pytest.mark.parametrize("name", HALVES)
def test_floats_as_halves(name: str) -> None:
    floats = with_all_exponents(20000)
    halves = np.zeros(len(floats), np.uint16)
    run(f"out[i] = fw_f32_to_{name}(x[i]);", "const float* x, unsigned short* out", floats, halves)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = floats.astype(HALVES[name])
    numbers = ~np.isnan(floats)
    np.testing.assert_array_equal(halves[numbers], expected[numbers].view(np.uint16))
    assert np.isnan(halves.view(HALVES[name])[~numbers].astype(np.float32)).all()
