"""Attention to a cache: each query sees the rows of its text up to its position, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from loop_kernels import TARGETS
from oracle import interpreted, recorded

import fusewire as fw
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import named
from fusewire.eager.ops.layers.cached_attention import cached_attention

SCALE, BOUND = 0.3, 5e-6  # of an error, beside the largest element


@dataclass(frozen=True)
class Case:
    """Sizes of an attention to a cache. A window makes the columns of the table a ring."""

    texts: int
    heads: int
    key_heads: int
    queries: int
    width: int
    features: int
    columns: int
    window: int | None = None
    dtype: str = "float32"

    def inputs(self, seed: int = 0) -> tuple[fw.Tensor, ...]:
        """Query, keys, values, table and positions. Some positions are those of padding."""
        rng = np.random.default_rng(seed)
        rows = self.texts * self.columns + 1
        query = rng.standard_normal((self.texts, self.heads, self.queries, self.width))
        keys, values = (rng.standard_normal((rows, self.key_heads, size))
                        for size in (self.width, self.features))
        table = rng.permutation(rows - 1).reshape(self.texts, self.columns)
        last = (3 if self.window else 1) * self.columns - self.queries
        positions = rng.integers(-1, last, (self.texts, 1)) + np.arange(self.queries)
        positions[0] = np.arange(self.queries) - 1  # the first text begins
        stored = [fw.Tensor(x.astype(np.float32)).astype(getattr(fw, self.dtype))
                  for x in (keys, values)]
        return (fw.Tensor(query.astype(np.float32)), *stored, fw.Tensor(table),
                fw.Tensor(positions))

    def function(self) -> Any:
        return lambda *inputs: cached_attention(*inputs, scale=SCALE, window=self.window)


def exact(case: Case, inputs: tuple[fw.Tensor, ...]) -> Any:
    """The result in float64, one query after the other."""
    query, keys, values = (x.astype(fw.float32).numpy().astype(np.float64) for x in inputs[:3])
    table, positions = (x.numpy() for x in inputs[3:])
    out = np.zeros((*query.shape[:3], case.features))
    for text, head, number in np.ndindex(*query.shape[:3]):
        last = positions[text, number]
        first = max(0, last - case.window + 1) if case.window else 0
        rows = [table[text, p % case.columns] for p in range(first, last + 1)]
        of = head * case.key_heads // case.heads
        if rows:
            scores = keys[rows, of] @ query[text, head, number] * SCALE
            powers = np.exp(scores - scores.max())
            out[text, head, number] = powers @ values[rows, of] / powers.sum()
    return out


CASES = {
    "one query": Case(2, 4, 2, 1, 16, 16, 20),
    "three queries": Case(2, 4, 2, 3, 16, 24, 30),
    "several blocks": Case(2, 2, 1, 2, 8, 8, 300),
    "seven heads a key": Case(2, 14, 2, 1, 16, 16, 40),
    "sizes that fill no vector": Case(2, 3, 1, 1, 20, 7, 33),
    "a window": Case(3, 4, 2, 1, 16, 16, 40, window=24),
    "a window, three queries": Case(3, 2, 2, 3, 16, 16, 300, window=200),
    "many queries": Case(2, 4, 2, 8, 16, 16, 40),
    "many queries, several blocks": Case(3, 4, 2, 70, 16, 24, 150),
    "many queries, bfloat16": Case(2, 4, 4, 9, 20, 7, 40, dtype="bfloat16"),
    "many queries, a window": Case(2, 4, 2, 8, 16, 16, 40, window=20),
    "bfloat16": Case(2, 4, 2, 1, 16, 16, 300, dtype="bfloat16"),
    "float16": Case(2, 4, 2, 1, 16, 16, 40, dtype="float16"),
}


def error(case: Case, found: Any, inputs: tuple[fw.Tensor, ...]) -> float:
    wanted = exact(case, inputs)
    return float(abs(found - wanted).max() / abs(wanted).max())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_results_are_close_to_float64(name: str, target: str) -> None:
    case = CASES[name]
    graph, given = recorded(case.function(), *case.inputs())
    assert error(case, compile_graph(graph, named(target))(list(given))[0], case.inputs()) < BOUND


@pytest.mark.parametrize("name", CASES)
def test_eager_results_are_close_to_float64(name: str) -> None:
    case = CASES[name]
    assert error(case, case.function()(*case.inputs()).numpy(), case.inputs()) < BOUND


@pytest.mark.parametrize("machine", [Machine(), Machine(32, 16, 1), Machine(16, 16, 2)])
@pytest.mark.parametrize("name", ["three queries", "sizes that fill no vector", "a window",
                                  "many queries"])
def test_the_kernel_means_the_same_to_the_interpreter(name: str, machine: Machine) -> None:
    """Scratch begins as 77s there: what nobody wrote is not read."""
    case = CASES[name]
    graph, given = recorded(case.function(), *case.inputs())
    assert error(case, interpreted(graph, given, machine)[0], case.inputs()) < BOUND


@pytest.mark.parametrize("name", ["one query", "three queries", "many queries"])
def test_there_is_one_kernel(name: str) -> None:
    graph, _ = recorded(CASES[name].function(), *CASES[name].inputs())
    assert [x.kernel.name for x in lower_graph(graph, Machine())[1]] == ["k0_cached_attention"]


def test_one_program_serves_texts_and_caches_of_all_sizes() -> None:
    compiled = fw.compile(lambda *x: cached_attention(*x, scale=SCALE), dynamic=True)
    for texts, columns in ((2, 20), (3, 33), (2, 20), (5, 64), (3, 130)):
        case = Case(texts, 4, 2, 1, 16, 16, columns)
        for seed in (columns, columns + 1):
            found = compiled(*case.inputs(seed)).numpy()
            assert error(case, found, case.inputs(seed)) < BOUND
    assert compiled.stats.recordings <= 2
