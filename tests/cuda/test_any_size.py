"""Sizes that differ from call to call are an argument of kernels, which are compiled once for all
of them up to a capacity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulated_gpu import EmulatedGpu

import fusewire as fw
from fusewire.codegen.dynamic.specializations import DynamicExecutable
from fusewire.codegen.gpu.gemm import library_pattern
from fusewire.nn import functional as F

pytestmark = pytest.mark.usefixtures("gpus")
SIZES = (3, 5, 17, 4, 33, 1, 64)  # of which one program is for all


def numbers(*shape: int) -> fw.Tensor:
    return fw.tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def places(n: int) -> fw.Tensor:
    return fw.tensor(np.random.default_rng(n).integers(0, 11, n))


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[fw.Tensor, ...]]]] = {
    "elements": (lambda x: fw.tanh(x) * 2 + 1, lambda n: (numbers(n, 6),)),
    "rows": (lambda x, w: F.layer_norm(x, (24,), w), lambda n: (numbers(n, 24), numbers(24))),
    "along rows": (lambda x: F.softmax(x * 2, -1), lambda n: (numbers(3, n),)),
    "sums of rows": (lambda x: (x * x).sum(1), lambda n: (numbers(2, 3, n),)),
    "sums of columns": (lambda x: x.sum(0) * 2, lambda n: (numbers(n, 40),)),
    "products": (lambda x, w, b: F.relu(x @ w + b) @ w.T,
                 lambda n: (numbers(n, 12), numbers(12, 20), numbers(20))),
    "products by tensor cores": (
        lambda x, w: (F.relu(x.astype(fw.bfloat16) @ w.astype(fw.bfloat16)) * 2).astype(fw.float32),
        lambda n: (numbers(n, 12), numbers(12, 20))),
    "sums of products": (lambda x: x.T @ x, lambda n: (numbers(n, 9),)),
    "rows by places": (lambda w, i: w[i] * 2, lambda n: (numbers(11, 6), places(n))),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q),
                  lambda n: (numbers(2, 3, n, 8),)),
    "attention of a batch": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
                             lambda n: (numbers(n, 3, 20, 8),)),
    "attention to keys": (lambda q, k: F.scaled_dot_product_attention(q, k, k),
                          lambda n: (numbers(2, 3, 40, 8), numbers(2, 3, 7 * n, 8))),
    "joined rows": (lambda x: fw.concat([x, x * 2, x[1:]], 0).cumsum(0),
                    lambda n: (numbers(n + 1, 5),)),
    "padded columns": (lambda x: F.softmax(fw.pad(x, ((0, 0), (1, 2))), -1),
                       lambda n: (numbers(3, n),)),
    "windows": (lambda x, w: F.conv2d(x, w, padding=1), lambda n: (numbers(2, 3, 6, n + 2),
                                                                   numbers(4, 3, 3, 3))),
}


def program(f: Any) -> DynamicExecutable:
    (segment,) = f.programs[0].segments()
    assert isinstance(segment.executable, DynamicExecutable)
    return segment.executable


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_program_is_for_all_sizes(name: str, gpus: list[EmulatedGpu]) -> None:
    fn, given = FUNCTIONS[name]
    f = fw.compile(fn)
    for n in SIZES:
        args = given(n)
        got, want = f(*[x.cuda() for x in args]), fn(*args)
        assert got.device == "cuda:0"
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), 1e-4, 1e-5)
    made = program(f)
    assert made.dynamic_program is not None
    assert min(made.dynamic_program.capacity.values()) >= max(SIZES)
    assert "sizes" in made.dynamic_program.program.code and not made.refusal
    assert f.stats.recordings == 2


def test_numbers_and_sizes_come_from_the_cpu_together() -> None:
    f = fw.compile(lambda x, scale, power: (x * scale).sum(0) ** power)
    for n in SIZES:
        x = fw.ones(n, 3, device="cuda")
        assert f(x, fw.tensor(float(n)), fw.tensor(2.0)).tolist() == [float(n) ** 4] * 3
    assert program(f).dynamic_program is not None


def test_an_index_is_looked_at() -> None:
    f = fw.compile(lambda w, i: w[i])
    for n in SIZES:
        f(numbers(11, 2).cuda(), places(n).cuda())
    with pytest.raises(IndexError, match="11 is out of range"):
        f(numbers(11, 2).cuda(), fw.tensor([0, 11, 3], device="cuda"))


def test_indices_whose_number_is_unknown_are_not_sorted() -> None:
    f = fw.compile(lambda x, i, y: x.index_add(0, i, y))
    for n in (3, 5, 40, 41):
        args = numbers(11, 6), places(n), numbers(n, 6)
        wanted = args[0].index_add(0, *args[1:])
        np.testing.assert_allclose(f(*[x.cuda() for x in args]).cpu().numpy(), wanted.numpy(), 1e-4)
    assert "cannot sort indices" in program(f).refusal


def test_what_a_library_computes_has_code_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called with numbers."""
    monkeypatch.setattr(library_pattern, "MIN_LIBRARY_OPERATIONS", 0)
    f = fw.compile(lambda x, w: x @ w)
    for n in (3, 5, 5, 3, 4, 3, 5):
        x, w = numbers(n, 4), numbers(4, 6)
        np.testing.assert_allclose(f(x.cuda(), w.cuda()).cpu().numpy(), (x @ w).numpy(), 1e-5)
    assert "library" in program(f).refusal
