"""Kernels of rows: sums over rows made on the way, several vectors at once, memory asked for ahead
of its use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.cpu import prefetch as ahead
from fusewire.codegen.fusion import fusion
from fusewire.codegen.ir.loop_ir import For, Kernel, Prefetch, walk
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import named

WIDE = Machine(64, 32)


def normal(*shape: int, dtype: Any = np.float32) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(dtype))


def kernels_of(fn: Any, *args: fw.Tensor, machine: Machine = WIDE) -> list[Kernel]:
    return [x.kernel for x in lower_graph(recorded(fn, *args)[0], machine)[1]]


def layer_norm_and_gradients(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor, g: fw.Tensor) -> Any:
    x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
    centred = x - x.mean(-1, keepdims=True)
    y = centred * fw.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * w + b
    return (y.detach(), *fw.grad(y, [x, w, b], g))


# ---- sums over rows
@pytest.fixture
def from_few_rows_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums join rows in arrays small enough for the interpreter."""
    monkeypatch.setattr(fusion, "_LARGE_ARRAY_ELEMENTS", 1)
    monkeypatch.setattr(fusion, "_MIN_ROWS_TO_OUTER_REDUCE", 20)


@pytest.mark.usefixtures("from_few_rows_on")
@pytest.mark.parametrize("fn", [
    lambda x: (fw.softmax(x, -1), fw.softmax(x, -1).sum(0), x.max(0)),
    lambda x: (x / x.sum(-1, keepdims=True), (x * x).sum(0, keepdims=True)),
    lambda x: (x / x.max(-1, keepdims=True), (x > x.mean(-1, keepdims=True)).any(0)),
    lambda x: (x - x.mean(-1, keepdims=True)).sum(0) / x.shape[0] + x.sum(-1).mean(),
    lambda x: x / x.sum(1, keepdims=True) * x.sum(0),
])
@pytest.mark.parametrize("shape", [(20, 20), (33, 5), (70, 19)])
def test_sums_over_rows_are_what_they_are_eagerly(fn: Any, shape: tuple[int, int]) -> None:
    x = normal(*shape)
    expected = fn(x) if isinstance(fn(x), tuple) else (fn(x),)
    graph, arrays = recorded(fn, x)
    machines = Machine(64, 32), Machine(16, 16), Machine(4, 8)
    for outs in (compile_graph(graph)(list(arrays)),
                 *(interpreted(graph, arrays, machine) for machine in machines)):
        for got, want in zip(outs, expected, strict=True):
            assert_same(got, want, 16)


def test_a_layer_norm_and_all_its_gradients_are_one_pass() -> None:
    x, w, b, g = normal(1000, 300), normal(300), normal(300), normal(1000, 300)
    passes, total = kernels_of(layer_norm_and_gradients, x, w, b, g)
    assert {b.name for b in passes.scratch} >= {"column0", "column1"}
    assert total.name.endswith("_total")
    wide = [t.astype(fw.float64) for t in (x, w, b, g)]
    for got, exact in zip(fw.compile(layer_norm_and_gradients)(x, w, b, g),
                          layer_norm_and_gradients(*wide), strict=True):
        scale = np.abs(exact.numpy()).max()
        np.testing.assert_allclose(got.numpy(), exact.numpy(), rtol=0, atol=2e-6 * scale)


def test_sums_over_rows_do_not_depend_on_the_threads() -> None:
    inputs = normal(1000, 300), normal(300), normal(300), normal(1000, 300)
    before, found = fw.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            fw.set_num_threads(threads)
            outs = fw.compile(layer_norm_and_gradients)(*inputs)
            found.append([a.numpy().tobytes() for a in outs])
    finally:
        fw.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_the_number_of_labels_does_not_wait_for_the_scores() -> None:
    """Else the gradient would, and could not be part of the same pass over the scores."""
    x, labels = normal(300, 1000), fw.zeros(300, dtype=fw.int64)

    def both_ways(x: fw.Tensor, labels: fw.Tensor) -> Any:
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x, labels)
        return (loss.detach(), *fw.grad(loss, x))

    kernels = kernels_of(both_ways, x, labels)
    assert sum(any(b.size == 300_000 for b in k.inputs) for k in kernels) == 1


def test_few_or_small_rows_are_added_up_by_themselves() -> None:
    for shape in ((100, 40), (20, 40_000)):
        kernels = kernels_of(lambda x: (fw.softmax(x, -1), x.sum(0)), normal(*shape))
        assert not any("column" in b.name for k in kernels for b in k.scratch)


# ---- several vectors at once
def lanes_of(fn: Any, *args: fw.Tensor, machine: Machine = WIDE) -> int:
    return max(s.lanes for k in kernels_of(fn, *args, machine=machine)
               for s in walk(k.body) if isinstance(s, For))


@pytest.mark.parametrize(("machine", "lanes"), [
    (Machine(64, 32), 64), (Machine(32, 16), 16), (Machine(16, 32), 16), (Machine(16, 16), 4)])
def test_several_vectors_are_computed_at_once(machine: Machine, lanes: int) -> None:
    assert lanes_of(lambda x: fw.tanh(x) + 1, normal(40, 1000), machine=machine) == lanes


def test_what_is_gathered_or_called_stays_one_vector() -> None:
    x, at = normal(64, 1024), fw.zeros(1024, dtype=fw.int64)
    assert lanes_of(lambda x, i: x[:, i] + 1, x, at) == 16
    assert lanes_of(lambda x: fw.sinh(x), x) == 16
    assert lanes_of(lambda x: x[:, ::2] * 2, x) == 16


def test_a_long_computation_takes_two_vectors_at_a_time() -> None:
    def long(x: fw.Tensor) -> fw.Tensor:
        for _ in range(6):
            x = fw.exp(x) / fw.log(x)
        return x

    assert lanes_of(long, normal(40, 1000)) == 32


@pytest.mark.parametrize("cpu", ["", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("size", [1, 17, 65, 255, 1000])
def test_the_last_vectors_are_cut_off(size: int, cpu: str) -> None:
    x = normal(5, size)

    def fn(x: fw.Tensor) -> Any:
        return fw.exp(x) + 1, fw.softmax(x, -1), x.max(-1)

    graph, arrays = recorded(fn, x)
    for got, want in zip(compile_graph(graph, named(cpu))(list(arrays)), fn(x), strict=True):
        assert_same(got, want, 8)


# ---- memory ahead
def prefetches(kernel: Kernel) -> list[tuple[str, int, bool]]:
    return [(s.buffer.name, s.ahead, s.writes) for s in walk(kernel.body)
            if isinstance(s, Prefetch)]


def test_large_arrays_are_asked_for_once_a_row_ahead() -> None:
    (kernel,) = kernels_of(lambda x, w: fw.softmax(x * w, -1), normal(500, 1000), normal(1000))
    assert [(ahead, writes) for _, ahead, writes in prefetches(kernel)] == \
        [(1000, False), (256, True)]


def test_values_used_over_and_over_are_looked_through_once() -> None:
    def run(x: fw.Tensor) -> fw.Tensor:  # as a tree, its expression has 2 ** 60 leaves
        for i in range(60):
            x = fw.tanh(x + i) * x
        return x

    assert {len(prefetches(k)) for k in kernels_of(run, normal(1000, 1000))} == {2}


def test_what_lies_in_a_cache_is_not_asked_for() -> None:
    (kernel,) = kernels_of(lambda x: fw.softmax(x, -1), normal(50, 1000))
    assert prefetches(kernel) == []


@pytest.mark.parametrize("cpu", ["", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("shape", [(3, 70), (1, 500), (40, 33), (2, 3, 41)])
def test_asking_ahead_changes_nothing(shape: tuple[int, ...], cpu: str,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_MAX_CACHED_BYTES", 0)
    x = normal(*shape)

    def fn(x: fw.Tensor) -> Any:
        return fw.softmax(x, -1), x * 2, x.transpose(0, -1) + 1, x.sum(0)

    graph, arrays = recorded(fn, x)
    program = compile_graph(graph, named(cpu))
    assert "llvm.prefetch" in program.code
    for outs in (program(list(arrays)), interpreted(graph, arrays, Machine())):
        for got, want in zip(outs, fn(x), strict=True):
            assert_same(got, want, 8)
