"""Large eager convolutions and products: native code for exactly their sizes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from thresholds import fresh_cache

import fusewire as fw
from fusewire.codegen.eager_jit import exact as whole
from fusewire.codegen.eager_jit import op_compiler
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.core import dispatch
from fusewire.eager.core.op import OPS
from fusewire.eager.settings import settings
from fusewire.eager.upper_layer import UPPER

F = fw.nn.functional


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the ops that native code computed, of those asked for."""
    done: list[str] = []

    def run(op: Any, inputs: Any, params: Any) -> Any:
        out = op_compiler.run(op, inputs, params)
        if out is not None and op.work is not None:
            done.append(op.name)
        return out

    monkeypatch.setattr(UPPER, "large_op", run)
    monkeypatch.setattr(op_compiler, "_PROGRAMS", fresh_cache("eager programs", 32))
    monkeypatch.setattr(op_compiler, "_CALLS", fresh_cache("eager calls"))
    yield done


class Conv(NamedTuple):
    """A convolution: shapes, settings, and the dtype."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    how: dict[str, Any]
    dtype: Any = np.float32


CONVS = [
    Conv((8, 16, 28, 28), (16, 16, 3, 3), {"padding": 1}),  # by tiles, as are its gradients
    Conv((8, 16, 29, 27), (17, 16, 3, 3), {}),
    Conv((16, 16, 32, 32), (8, 16, 1, 1), {}),
    Conv((8, 16, 28, 28), (32, 16, 3, 3), {"stride": 2, "padding": 1}),
    Conv((8, 16, 28, 28), (16, 16, 3, 3), {"dilation": 2, "padding": 2}),
    Conv((8, 32, 28, 28), (32, 1, 3, 3), {"groups": 32, "padding": 1}),
    Conv((8, 16, 28, 28), (16, 8, 3, 3), {"groups": 2}),
    Conv((8, 16, 400), (32, 16, 5), {"padding": 2}),
    Conv((2, 8, 8, 16, 16), (8, 8, 3, 3, 3), {"padding": 1}),
    Conv((4, 8, 16, 16), (8, 8, 3, 3), {"padding": 1}, np.float64),
]
OF_DIMENSION = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
BOUND = {np.float32: 5e-6, np.float64: 1e-14}  # of the error's norm, by the result's


def numbers(seed: int, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def results(conv: Conv, dtype: Any) -> list[Any]:
    """The result, and the gradients by input and weight of its product with other numbers."""
    x, w = (fw.tensor(numbers(i, shape, conv.dtype).astype(dtype), requires_grad=True)
            for i, shape in enumerate((conv.x, conv.w)))
    out = OF_DIMENSION[len(conv.x)](x, w, **conv.how)
    out.backward(fw.tensor(numbers(2, out.shape, conv.dtype).astype(dtype)))
    return [out.numpy(), x.grad.numpy(), w.grad.numpy()]  # type: ignore[union-attr]


def off_by(found: Any, exact: Any) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_convolutions_and_their_gradients(conv: Conv, native: list[str],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    found = results(conv, conv.dtype)
    assert native == ["conv", "conv_transpose", "conv_weight"]
    monkeypatch.setattr(UPPER, "large_op", None)
    for ours, exact in zip(found, results(conv, np.float64)):
        assert off_by(ours, exact) < BOUND[conv.dtype]


@pytest.mark.parametrize("spec, left, right", [
    ("ij,jk->ik", (160, 160), (160, 130)), ("ij,kj->ik", (160, 160), (130, 160)),
    ("ji,jk->ik", (160, 160), (160, 130)), ("bij,bjk->bik", (16, 64, 48), (16, 48, 64)),
    ("abj,kj->abk", (8, 32, 100), (128, 100)), ("abj,abk->jk", (8, 64, 80), (8, 64, 80))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(spec: str, left: Any, right: Any, dtype: Any, native: list[str]) -> None:
    x, y = numbers(0, left, dtype), numbers(1, right, dtype)
    found = fw.einsum(spec, fw.tensor(x), fw.tensor(y)).numpy()
    assert native == ["contract"]
    exact = np.einsum(spec, x.astype(np.float64), y.astype(np.float64))
    assert off_by(found, exact) < BOUND[dtype]


def test_a_sum_of_very_many_products_is_no_less_exact(native: list[str]) -> None:
    x, g = numbers(0, (16, 8, 112, 112)), numbers(1, (16, 8, 112, 112))
    how = {"stride": (1, 1), "dilation": (1, 1), "pad": ((0, 0),) * 2, "groups": 1,
           "kernel": (1, 1)}
    found = dispatch.apply(OPS["conv_weight"], (fw.tensor(x), fw.tensor(g)), how).numpy()
    assert native == ["conv_weight"]
    exact = np.einsum("nchw,nfhw->fc", x.astype(np.float64), g.astype(np.float64))
    assert off_by(found[:, :, 0, 0], exact) < 3e-6


def test_equal_calls_have_equal_bits_and_read_what_is_there_now(native: list[str]) -> None:
    x, w = fw.tensor(numbers(0, CONVS[0].x)), fw.tensor(numbers(1, CONVS[0].w))
    first = F.conv2d(x, w, padding=1).numpy()
    changed = F.conv2d(x, w * 2, padding=1).numpy()
    w *= 2
    assert (F.conv2d(x, w, padding=1).numpy() == changed).all()
    assert (first * 2 == changed).all()
    assert native == ["conv"] * 3


def test_the_setting_counts_for_eager_too(native: list[str], monkeypatch: pytest.MonkeyPatch
                                          ) -> None:
    x, w = fw.tensor(numbers(0, CONVS[0].x)), fw.tensor(numbers(1, CONVS[0].w))
    by_tiles = F.conv2d(x, w, padding=1).numpy()
    monkeypatch.setattr(settings, "winograd", 0)
    directly = F.conv2d(x, w, padding=1).numpy()
    assert (by_tiles != directly).any()


def test_factors_are_read_as_they_lie(native: list[str]) -> None:
    """A transposed factor is not copied; one whose elements lie apart is."""
    x, y = numbers(0, (160, 160)), numbers(1, (160, 160))
    for a, b in ((x.T, y), (x, y.T), (x.T, y.T), (x[::-1], y), (x, np.broadcast_to(y[:1], y.shape)),
                 (np.asfortranarray(x), y)):
        found = fw.matmul(fw.asarray(a), fw.asarray(b)).numpy()
        assert off_by(found, a.astype(np.float64) @ b.astype(np.float64)) < 5e-6
    assert native == ["contract"] * 6
    assert whole.memory_order(x.T) == (1, 0) and whole.memory_order(x[::-1]) is None


def test_views_are_convolved_as_what_they_show(native: list[str]) -> None:
    x, w = fw.tensor(numbers(0, (8, 16, 30, 28))), fw.tensor(numbers(1, (16, 16, 3, 3)))
    turned = x.permute_dims((0, 1, 3, 2))[:, :, :, 1:29]
    again = fw.tensor(turned.numpy().copy())
    assert (F.conv2d(turned, w).numpy() == F.conv2d(again, w).numpy()).all()
    assert native == ["conv"] * 2


def test_what_is_not_a_number_reaches_what_its_windows_show_alone(native: list[str]) -> None:
    """And by tiles of 3 by 3, which add up whole tiles, no more than the tiles around it."""
    for kernel, reach in ((5, 2), (3, 4)):
        x, w = numbers(0, (4, 16, 32, 32)), numbers(1, (16, 16, kernel, kernel))
        x[1, 3, 16, 16] = np.inf
        out = F.conv2d(fw.tensor(x), fw.tensor(w), padding=kernel // 2).numpy()
        bad = np.argwhere(~np.isfinite(out))
        assert set(bad[:, 0]) == {1} and (abs(bad[:, 2:] - 16) <= reach).all()
        assert not np.isfinite(out[1, :, 16, 16]).any()
    assert native == ["conv"] * 2


def test_small_calls_are_left_to_numpy(native: list[str]) -> None:
    fw.ones(64, 64) @ fw.ones(64, 64)
    F.conv2d(fw.ones(1, 4, 16, 16), fw.ones(4, 4, 3, 3))
    fw.ones(1, 4096) @ fw.ones(4096, 600)  # waits for memory
    assert native == [] and not len(op_compiler._PROGRAMS)


@pytest.mark.parametrize("shape", [(0, 16, 28, 28), (8, 0, 28, 28)])
def test_nothing_to_convolve(shape: tuple[int, ...], native: list[str]) -> None:
    out = F.conv2d(fw.ones(*shape), fw.ones(16, shape[1], 3, 3))
    assert out.shape == (shape[0], 16, 26, 26) and not out.numpy().any()
    assert native == []


def test_what_is_recorded_gets_code_as_a_whole(native: list[str]) -> None:
    weight = fw.tensor(numbers(1, CONVS[0].w))

    @fw.compile
    def convolved(x: Any) -> Any:
        return F.conv2d(x, weight, padding=1).relu()

    x = fw.tensor(numbers(0, CONVS[0].x))
    first = convolved(x)
    assert native == [] and not len(op_compiler._PROGRAMS)
    assert off_by(first.numpy(), F.conv2d(x, weight, padding=1).relu().numpy()) < 5e-6


def test_threads_call_the_same_code_fresh_cache() -> None:
    w = fw.tensor(numbers(1, CONVS[0].w))
    inputs = [fw.tensor(numbers(i, CONVS[0].x)) for i in range(4)]
    expected = [F.conv2d(x, w, padding=1).numpy() for x in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(30):
            if not (F.conv2d(inputs[number], w, padding=1).numpy() == expected[number]).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_how_long_numpy_takes_follows_from_the_sizes() -> None:
    def of(*shapes: Any, spec: str) -> float:
        return OPS["contract"].work(  # type: ignore[misc]
            *[TensorType(s, np.dtype("float32")) for s in shapes], spec=spec)

    assert of((256, 64), (64, 128), spec="ij,jk->ik") == 256 * 64 * 128 / 64
    assert of((256,), (256, 128), spec="j,jk->k") == 0
