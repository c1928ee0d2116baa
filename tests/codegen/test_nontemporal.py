"""Large results are written past the caches where possible, and are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_kernels import X86
from oracle import assert_same, recorded

import fusewire as fw
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.cpu import nontemporal
from fusewire.codegen.runtime.target import named
from fusewire.eager.arrays.memory import SMALLEST

PAST = "!nontemporal"


def numbers(*shape: int, dtype: Any = np.float32) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(0).uniform(-9, 9, shape).astype(dtype))


def code(fn: Callable[..., Any], *args: fw.Tensor) -> str:
    return compile_graph(recorded(fn, *args)[0], named("x86-64-v3")).code


@pytest.fixture
def from_few_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few elements are enough as begin on a cache line."""
    monkeypatch.setattr(nontemporal, "_MIN_STREAMED_BYTES", SMALLEST)


def test_results_that_are_streamed_begin_on_a_line() -> None:
    assert nontemporal._MIN_STREAMED_BYTES >= SMALLEST


CASES: dict[str, tuple[Callable[..., Any], tuple[fw.Tensor, ...]]] = {
    "elements": (lambda x: fw.exp(x) + 1, (numbers(300, 1024),)),
    "rows": (lambda x: fw.softmax(x, -1), (numbers(300, 1024),)),
    "rows of no whole vectors": (lambda x: fw.softmax(x, -1), (numbers(301, 1003),)),
    "rows of half lines": (lambda x: fw.softmax(x, -1), (numbers(500, 1000),)),
    "broadcast": (lambda x, w: x * w + w.sum(), (numbers(700, 528), numbers(528))),
    "turned": (lambda x: x.T * 2, (numbers(512, 640),)),
    "several": (lambda x: (x + 1, x * x, x.sum(0)), (numbers(300, 1024),)),
    "float64": (lambda x: fw.tanh(x), (numbers(300, 1024, dtype=np.float64),)),
    "bytes": (lambda x: x + 1, (numbers(700, 1024, dtype=np.int8),)),
    "booleans": (lambda x: x > 0, (numbers(700, 1024),)),
    "joined": (lambda x: fw.concat([x, x * 2, x + 1], 1), (numbers(300, 1001),)),
    "a column at a time": (lambda x: fw.cumsum(x, 0), (numbers(300, 1024),)),
    "a product": (lambda x, y: fw.relu(fw.round(x) @ fw.round(y)),
                  (numbers(300, 64), numbers(64, 1000))),
    "16 bits": (lambda x: (x.astype(fw.bfloat16), x.astype(fw.float16)), (numbers(700, 1024),)),
}


@pytest.mark.skipif(not X86, reason="only x86-64 writes past its caches")
@pytest.mark.parametrize("cpu", ["", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("from_few_on")
def test_the_numbers_are_the_same(case: str, cpu: str) -> None:
    fn, args = CASES[case]
    graph, arrays = recorded(fn, *args)
    program = compile_graph(graph, named(cpu))
    expected = fn(*args) if isinstance(fn(*args), tuple) else (fn(*args),)
    for _ in range(3):
        for got, want in zip(program(list(arrays)), expected, strict=True):
            assert_same(got, want, 16)


@pytest.mark.parametrize("case, streamed", [
    ("elements", True), ("rows", True), ("broadcast", True), ("several", True), ("float64", True),
    ("rows of no whole vectors", False), ("rows of half lines", False)])
@pytest.mark.usefixtures("from_few_on")
def test_vectors_that_begin_on_a_line_are_written_past_the_caches(case: str, streamed: bool
                                                                  ) -> None:
    fn, args = CASES[case]
    assert (PAST in code(fn, *args)) == (streamed and X86)


@pytest.mark.skipif(not X86, reason="only x86-64 writes past its caches")
@pytest.mark.usefixtures("from_few_on")
def test_other_threads_see_what_was_written_when_a_task_is_done() -> None:
    fn, args = CASES["elements"]
    assert "sfence" in code(fn, *args)


def test_small_results_stay_in_the_caches() -> None:
    assert PAST not in code(lambda x: fw.exp(x), numbers(300, 1024))


@pytest.mark.usefixtures("from_few_on")
def test_what_is_read_again_stays_in_the_caches() -> None:
    def both(x: fw.Tensor) -> Any:
        y = fw.exp(x)
        return y, y.sum((0, 1)) * y.max(0), fw.flip(y @ y, 0)

    program = compile_graph(recorded(both, numbers(600, 600))[0], named("x86-64-v3"))
    streamed = {b for k in program.kernels for b in k.streamed}
    assert not streamed & {b for k in program.kernels for b in k.inputs}


@pytest.mark.usefixtures("from_few_on")
def test_a_parameter_is_updated_where_it_is() -> None:
    w = numbers(600, 1024)
    sgd = fw.optim.SGD([w.requires_grad_()], lr=0.5)

    @fw.compile
    def step(x: fw.Tensor) -> fw.Tensor:
        sgd.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        sgd.step()
        return loss

    x, before = numbers(600, 1024), w.detach().numpy().copy()
    for n in range(1, 4):
        step(x)
        np.testing.assert_allclose(w.detach().numpy(), before - 0.5 * n * x.numpy(), 1e-5, 1e-4)
