"""`check=` finds mistakes that are planted in compiled code, and names the node that has them.

More of them: FUSEWIRE_TEST_PLANTED=300 FUSEWIRE_TEST_PLANTED_FROM=1000 pytest on this file.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from kinds import FLOATS, KINDS, SIZES
from oracle import recorded
from planted import MISTAKES, Planted, can_have, one_column
from random_programs import inputs_of, program, run

import fusewire as fw
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.replay.differential_check import differences, first_difference
from fusewire.codegen.compile import compile_graph
from fusewire.eager.errors import FusewireError

SEEDS = int(os.environ.get("FUSEWIRE_TEST_PLANTED", "3"))
FIRST = int(os.environ.get("FUSEWIRE_TEST_PLANTED_FROM", "0"))
LEVELS = {2: 0.3, 4: 1e-3, 8: 1e-9}  # by bytes of a result: changes that are well above rounding


def effect(graph: Graph, wrong: Graph, arrays: list[Any]) -> float:
    """The largest change of a result by a mistake, relative, beside what is well above rounding;
    infinity where the mistake raises an error by itself."""
    with np.errstate(all="ignore"):
        try:
            pairs = zip(evaluate(graph, arrays), evaluate(wrong, arrays))
            return max(_change(a.astype(float), b.astype(float)) / LEVELS.get(a.itemsize, 1e-9)
                       for a, b in pairs)
        except FusewireError:
            return np.inf


def _change(right: Any, wrong: Any) -> float:
    same = (right == wrong) | (np.isnan(right) & np.isnan(wrong))
    off = np.abs(right - wrong) / (np.abs(right) + 1e-300)
    return float(np.where(same, 0, np.nan_to_num(off, nan=1e9)).max(initial=0))


def planted(graph: Graph, arrays: list[Any], rng: np.random.Generator, seed: int) -> Planted | None:
    """A mistake at a node of a graph, or None where the one that was drawn changes no result."""
    mistake = str(rng.choice(MISTAKES))
    nodes = [n for n in graph.nodes() if can_have(n, mistake)]
    if not nodes:
        return None
    made = Planted(graph, nodes[rng.integers(len(nodes))], mistake, seed)
    return made if 1 < effect(graph, made.wrong(), arrays) < np.inf else None


def verdict(backend: Planted, arrays: list[Any]) -> str:
    """How the check takes a mistake: "named", "named other" or "missed"."""
    found = backend(backend.graph)([a.copy() for a in arrays])
    first = first_difference(backend.graph, arrays, found, backend)
    return "missed" if first is None else "named" if first.node is backend.target else "named other"


@pytest.mark.parametrize("name", KINDS)
def test_mistakes_in_kernels_are_named(name: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        rng = np.random.default_rng([seed, *name.encode()])
        dtypes = ["float32", "float64", "float16", "bfloat16"] if name in FLOATS else \
            ["float32", "int32", "uint8"]
        dtype, size = str(rng.choice(dtypes)), int(rng.choice(SIZES))
        graph, arrays = KINDS[name].graph(size, getattr(fw, dtype), seed)
        backend = planted(graph, arrays, rng, seed)
        if backend is not None:
            where = f"{name}, seed {seed}, {dtype}, size {size}: {backend.mistake}"
            assert verdict(backend, arrays) == "named", f"{where} at {backend.target}"


def test_mistakes_in_random_programs_are_named() -> None:
    seen = []
    for seed in range(FIRST, FIRST + 10 * SEEDS):
        graph, arrays = recorded(run, program(seed), inputs_of(seed))
        backend = planted(graph, arrays, np.random.default_rng(seed), seed)
        if backend is not None:
            seen.append((seed, verdict(backend, arrays)))
    wrong = [s for s in seen if s[1] != "named"]
    # at a tie, deciding otherwise is no mistake
    assert len(seen) > 4 * SEEDS and len(wrong) <= 0.05 * len(seen), wrong


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_wrong_column_of_a_product_is_seen(dtype: str) -> None:
    graph, arrays = KINDS["matmul, second turned"].graph(17, getattr(fw, dtype))
    found = [np.array(v) for v in evaluate(graph, arrays)]
    assert not differences(graph, arrays, found)
    found[0][1:, 0] = 0
    (wrong,) = differences(graph, arrays, found)
    assert (wrong.count, wrong.index[1]) == (len(found[0]) - 1, 0)


def test_a_mistake_of_a_fused_kernel_is_seen() -> None:
    graph, arrays = KINDS["softmax"].graph(17, fw.float32)
    target = next(n for n in graph.nodes() if n.op == "softmax")
    backend = Planted(graph, target, one_column.__name__, 0, together=True)
    found = backend(graph)(list(arrays))
    assert first_difference(graph, arrays, found, backend) is not None


def test_a_result_in_the_memory_of_an_input_is_checked_there() -> None:
    w = fw.ones(40)

    @fw.compile(check="always")
    def step(x: Any) -> None:
        w.add_(x * w)

    for _ in range(3):
        step(fw.ones(40))
    assert float(w.sum()) == 8 * 40


def test_compiled_code_is_not_given_the_arrays_that_it_is_compared_by() -> None:
    graph, arrays = KINDS["adam"].graph(33, fw.float32)
    before = [a.copy() for a in arrays]
    assert not differences(graph, arrays, compile_graph(graph)([a.copy() for a in arrays]))
    for a, b in zip(arrays, before):
        np.testing.assert_array_equal(a, b)
