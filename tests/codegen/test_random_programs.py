"""Programs made at random give the same eager, by graph and compiled, gradients included.

Each program is a list of steps over a pool of tensors. Where one disagrees, steps are taken away
while it still does, and what is left is printed.
"""

from __future__ import annotations

import dataclasses
import os

import pytest
from oracle import assert_same, interpreted, recorded
from random_programs import Step, inputs_of, printed, program, run

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.compile import compile_graph

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "150"))


def difference(steps: list[Step], seed: int) -> str:
    """How the ways to run a program differ; an empty text where they agree."""
    try:
        given = inputs_of(seed)
        expected = run(steps, given)
        after = list(given.values())
    except (KeyError, fw.FusewireError):
        return ""  # a step whose operand was taken away
    compiled = fw.compile(run, fullgraph=True)
    try:
        graph, arrays = recorded(run, steps, inputs_of(seed))
        by_node = evaluate(graph, arrays)
        if seed % 5 == 0 and sum(n.type.size for n in graph.nodes()) < 2000:
            for got, want in zip(interpreted(graph, arrays), by_node):
                assert_same(got, want, 10, "interpreted")
        for label in ("recorded", "compiled"):
            given = inputs_of(seed)
            out = compiled(steps, given)
            for n, (got, want) in enumerate(zip([*out, *given.values()], [*expected, *after])):
                if (got is None) != (want is None):
                    return f"{label}: value {n} is {got}, eager {want}"
                if got is not None:
                    assert_same(got, want, 10, f"{label}: value {n}")
        native = compile_graph(graph)(list(arrays))
        for got, want in zip(native, by_node):
            assert_same(got, want, 10, "graph")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def smallest(steps: list[Step], seed: int) -> list[Step]:
    """Steps taken away, one at a time, as long as the program still differs."""
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(steps))):
            fewer = steps[:i] + steps[i + 1:]
            if fewer and difference(fewer, seed):
                steps, changed = fewer, True
    return steps


@pytest.mark.parametrize("start", range(0, PROGRAMS, 10))
def test_programs(start: int) -> None:
    for seed in range(start, min(start + 10, PROGRAMS)):
        steps = program(seed)
        if steps and difference(steps, seed):
            least = smallest(steps, seed)
            pytest.fail(f"{printed(least, seed)}\n{difference(least, seed)}")


def test_a_wrong_program_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a multiplication that forgets to multiply, only that step is left."""
    seed = next(s for s in range(99) if sum(" * " in t.text for t in program(s)) == 1)
    steps = program(seed)
    state = {"calls": 0}
    wrong = next(s for s in steps if " * " in s.text)

    def forgets(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        state["calls"] += 1
        return x if state["calls"] % 2 else wrong.fn(x, y)

    bad = [dataclasses.replace(s, fn=forgets) if s is wrong else s for s in steps]
    assert difference(bad, seed)
