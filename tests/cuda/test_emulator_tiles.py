"""The emulator's products of tiles, copies that arrive later, and counts of traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emulator.emulator import AVAILABLE, KernelFault, Module
from emulator.traffic import traffic

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="no g++ here")
TILES = Path(__file__).with_name("tiles.cu").read_text(encoding="utf-8")
in_all_orders = pytest.mark.parametrize("order", [0, 1, 2])


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def line_of(source: str, words: str) -> int:
    return next(i for i, line in enumerate(source.splitlines(), 1) if words in line)


@in_all_orders
@pytest.mark.parametrize("mode", ["check", "fast"])
@pytest.mark.parametrize(("name", "dtype"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)])
def test_products_of_halves(mode: str, name: str, dtype: Any, order: int) -> None:
    """Copies to shared memory one tile ahead, and products of tiles."""
    a, b = numbers(32, 64, dtype=dtype), numbers(24, 64, seed=1, dtype=dtype)
    c = np.zeros((32, 24), np.float32)
    arguments = [a.view(np.uint16), b.view(np.uint16), c, *map(np.int32, (24, 64))]
    Module(TILES, mode).launch(f"matmul_{name}", (3, 2), (32,), arguments, order=order)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, atol=1e-4)


@in_all_orders
def test_products_of_tf32(order: int) -> None:
    """It has 10 bits behind the point: what follows is not read."""
    a, b = numbers(16, 8), numbers(8, 8, seed=1)
    c = np.ones((16, 8), np.float32)
    Module(TILES).launch("matmul_tf32", (1,), (32,), [a, b, c], order=order)
    a, b = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b))
    np.testing.assert_allclose(c, 1 + a @ b, atol=1e-5)


@pytest.mark.parametrize("order", [0, 1])
def test_a_copy_that_is_not_waited_for(order: int) -> None:
    source = TILES.replace("fw_cp_wait<1>();", "")
    a, c = np.zeros((32, 64), np.uint16), np.zeros((32, 32), np.float32)
    with pytest.raises(KernelFault, match=r"a copy to it, begun at line \d+, was not") as caught:
        Module(source).launch("matmul_bf16", (4, 2), (32,), [a, a, c, np.int32(32), np.int32(64)],
                              order=order)
    assert caught.value.line == line_of(source, "words[0] =")


def test_a_copy_that_others_read_without_a_barrier() -> None:
    source = TILES.replace("__syncwarp();  // all of the tile is there", "")
    a, c = np.zeros((32, 64), np.uint16), np.zeros((32, 32), np.float32)
    with pytest.raises(KernelFault, match=r"uninitialised shared memory: left\[192\]"):
        Module(source).launch("matmul_bf16", (4, 2), (32,), [a, a, c, np.int32(32), np.int32(64)])


def test_a_copy_behind_the_end() -> None:
    a, c = np.zeros((32, 64), np.uint16), np.zeros((32, 32), np.float32)
    with pytest.raises(KernelFault, match="out of bounds: a read of 16 bytes at b") as caught:
        Module(TILES).launch("matmul_bf16", (4, 2), (32,),
                             [a, a[:20].copy(), c, np.int32(32), np.int32(64)])
    assert caught.value.line == line_of(TILES, "fw_cp_async<16>(right")


def test_lanes_missing_from_a_product() -> None:
    with pytest.raises(KernelFault, match=r"a product of tiles .* never arrive"):
        Module(TILES).launch("matmul_tf32", (1,), (16,), [numbers(16, 8), numbers(8, 8),
                                                          numbers(16, 8)])


TRAFFIC = """
extern "C" __global__ void moves(const float* x, float* y) {
    __shared__ float tile[32][32];
    __shared__ float padded[32][33];
    __shared__ __align__(16) float fours[512];
    const int i = threadIdx.x;
    const float near = x[i];
    const float far = x[32 * i];
    const float odd = x[i + 1];
    const float4 four = ((const float4*)x)[i];
    const float one = x[0];
    tile[i][0] = near + far;
    padded[i][0] = odd + one;
    ((float4*)fours)[i] = four;
    y[i] = tile[i][0] + padded[i][0];
}"""


def test_traffic_of_each_line() -> None:
    x, y = numbers(1024), np.zeros(32, np.float32)
    found = traffic(Module(TRAFFIC), "moves", (1,), (32,), [x, y])
    lines = TRAFFIC.splitlines()
    costs = {(lines[t.line - 1].strip(), t.memory): (t.access, t.requests, t.cost, t.ideal)
             for t in found}
    assert costs == {
        ("const float near = x[i];", "global"): ("read", 1, 4, 4),
        ("const float far = x[32 * i];", "global"): ("read", 1, 32, 4),
        ("const float odd = x[i + 1];", "global"): ("read", 1, 5, 4),
        ("const float4 four = ((const float4*)x)[i];", "global"): ("read", 1, 16, 16),
        ("const float one = x[0];", "global"): ("read", 1, 1, 1),
        ("tile[i][0] = near + far;", "shared"): ("write", 1, 32, 1),
        ("padded[i][0] = odd + one;", "shared"): ("write", 1, 1, 1),
        ("((float4*)fours)[i] = four;", "shared"): ("write", 1, 4, 4),
        ("y[i] = tile[i][0] + padded[i][0];", "shared"): ("read", 2, 33, 2),
        ("y[i] = tile[i][0] + padded[i][0];", "global"): ("write", 1, 4, 4),
    }
    assert {t.ratio for t in found} == {1.0, 8.0, 1.25, 32.0, 16.5}
