"""Random control-flow graphs: their text, the verifier, and all executors against plain Python.

More graphs, for a night: `FUSEWIRE_TEST_PROGRAMS=20000 pytest tests/capture/test_cfg_random.py`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from random_cfgs import NUMBERS, SIZE, TENSORS, Builder, Statement, Untraced, draw, evaluate, shown

import fusewire as fw
from fusewire.capture.cfg.interpret import interpret
from fusewire.capture.cfg.ir import Block, walk
from fusewire.capture.cfg.segment_planner import SegmentPlanner, segments_of
from fusewire.capture.cfg.text import to_text
from fusewire.capture.cfg.text_parser import parse
from fusewire.capture.cfg.trace_exit import TraceExit
from fusewire.capture.cfg.verify import verify
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate as evaluate_graph
from fusewire.capture.guards.guards import PathCodegen
from fusewire.capture.heap.access_path import Path
from fusewire.capture.replay.python_backend import SCOPE, NoFastPath, PythonBackend
from fusewire.capture.trace.value_table import ValueTable
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.control_vm.native_control import lower_control

GRAPHS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "1000")) // 10
CHUNK = 25
NATIVE = GRAPHS // 5  # compiled ones
LARGEST_GRAPH = 400  # blocks: the executors take no larger one
FIRST = 1000  # the seed of the first graph: those below served to write this file


class Case(NamedTuple):
    """A random program, its graph with segments, and the table of its values."""

    seed: int
    program: list[Statement]
    root: Block
    names: ValueTable


def case(seed: int, backend: Any, native: bool = False) -> Case | None:
    """The graph of a random program; None if it is too large. `native`: native code can run it."""
    program, names = draw(seed, native), ValueTable()
    root = Builder(names).whole(program)
    if sum(1 for _ in walk(root)) > LARGEST_GRAPH:
        return None
    verify(root, names, "building", planned=False)
    SegmentPlanner(names, None, backend).plan(root)  # type: ignore[arg-type]
    return Case(seed, program, root, names)


def cases(first: int, count: int, backend: Any, **options: Any) -> Iterator[Case]:
    made = (case(FIRST + seed, backend, **options) for seed in range(first, first + count))
    return (each for each in made if each is not None)


def by_numpy(graph: Graph) -> Callable[[list[Any]], list[Any]]:
    """A graph that NumPy evaluates."""
    return lambda arrays: evaluate_graph(graph, arrays)


def calls(seed: int) -> Iterator[dict[str, Any]]:
    """The values of the variables in some calls."""
    rng = random.Random(seed)
    for _ in range(6):
        values: dict[str, Any] = {
            v: np.array([float(rng.randrange(-8, 8)) for _ in range(SIZE)]) for v in TENSORS}
        yield values | {v: rng.randrange(7) for v in NUMBERS}


def expected(program: list[Statement], values: dict[str, Any]) -> list[Any] | None:
    """The variables after a program in Python; None if the graph leaves its path out."""
    try:
        end = evaluate(program, values)
    except Untraced:
        return None
    return [end[v] for v in (*TENSORS, *NUMBERS)]


def arguments(values: dict[str, Any]) -> tuple[Any, ...]:
    return tuple([fw.tensor(v) if isinstance(v, np.ndarray) else v for v in values.values()])


class Numbers:
    """Gives a recipe the numbers of a call."""

    def __init__(self, numbers: dict[Any, Any]) -> None:
        self.number = numbers.__getitem__


def check(of: Case, values: dict[str, Any], trace_exit: TraceExit | None, outputs: Any,
          numbers: dict[Any, Any]) -> None:
    """Compares what an executor computes with Python."""
    want = expected(of.program, values)
    where = f"seed {of.seed}, {values}:\n{shown(of.program)}"
    assert (trace_exit is None) == (want is None), where
    if trace_exit is not None and want is not None:
        got = trace_exit.result(outputs, Numbers(numbers))  # type: ignore[arg-type]
        for a, b in zip(got, want, strict=True):
            assert type(a) is type(b) and np.array_equal(a, b), where


# ---- executors: each returns the exit, its outputs, and its numbers
Executed = tuple[TraceExit | None, Any, dict[Any, Any]]


def by_reference(of: Case, args: tuple[Any, ...]) -> Executed:
    end = interpret(of.root, args, {})
    if end is None:
        return None, (), {}
    return end.trace_exit, end.outputs, dict(zip(end.trace_exit.formulas, end.numbers))


def inputs_of(of: Case) -> dict[Path, int]:
    paths = dict.fromkeys(p for segment in segments_of(of.root) for p in segment.paths)
    return {path: i for i, path in enumerate(paths)}


def arrays_of(of: Case, args: tuple[Any, ...]) -> list[Any]:
    return [args[path.key.value]._data for path in inputs_of(of)]


def python_code(of: Case) -> tuple[Callable[..., Any], list[TraceExit]] | None:
    """The generated Python of a graph, and its exits; None for a graph that has none."""
    source = PathCodegen(None, of.names.held)
    backend = PythonBackend(inputs_of(of), {}, source, checked=True)
    try:
        lines = backend.lines(of.root)
    except NoFastPath:
        return None
    body = [*source.lines, *[f"    {line}" for line in ["values = {}", *lines]],
            "    return found, end, values"]
    scope: dict[str, Any] = {**source.constants, **SCOPE, "NOT_TRACED": None}
    exec("\n".join(["def direct(arrays, args, kwargs):", *body]), scope)
    return scope["direct"], backend.ends


def test_the_generator_makes_all_kinds_of_blocks() -> None:
    kinds = {type(block).__name__ for of in cases(0, 40, by_numpy) for block in walk(of.root)}
    assert kinds == {"Branch", "LoopHeader", "BackEdge", "IfMerge", "Yield", "Exit"}


@pytest.mark.parametrize("first", range(0, GRAPHS, CHUNK))
def test_reference_interpreter(first: int) -> None:
    for of in cases(first, CHUNK, by_numpy):
        for values in calls(of.seed):
            check(of, values, *by_reference(of, arguments(values)))


@pytest.mark.parametrize("first", range(0, GRAPHS, CHUNK))
def test_text_parses_back(first: int) -> None:
    """The parsed graph prints equally, is well formed, and computes the same."""
    for of in cases(first, CHUNK, by_numpy):
        text, names = to_text(of.root, of.names), ValueTable()
        root = parse(text, names, by_numpy)  # type: ignore[arg-type]
        again = of._replace(root=root, names=names)
        assert to_text(verify(again.root, names, "parsing"), names) == text
        for values in calls(of.seed):
            args = arguments(values)
            end, other = interpret(of.root, args, {}), interpret(again.root, args, {})
            assert (end is None) == (other is None)
            if end is not None and other is not None:
                assert np.array_equal(end.outputs, other.outputs) and end.numbers == other.numbers


@pytest.mark.parametrize("first", range(0, GRAPHS, CHUNK))
def test_python_back_end(first: int) -> None:
    taken = 0
    for of in cases(first, CHUNK, by_numpy):
        code = python_code(of)
        if code is None:
            continue
        taken += 1
        for values in calls(of.seed):
            args = arguments(values)
            result = code[0](arrays_of(of, args), args, {})
            found, end, numbers = (None, -1, {}) if result is None else result
            check(of, values, code[1][end] if end >= 0 else None, found, numbers)
    assert taken > CHUNK // 2


def test_native_control() -> None:
    taken = 0
    for of in cases(0, NATIVE, compile_graph, native=True):
        for segment in segments_of(of.root):
            segment.compile()
        native = lower_control(of.root, inputs_of(of), lambda path: int)
        if isinstance(native, str):
            continue
        taken += 1
        for values in calls(of.seed):
            args = arguments(values)
            numbers = [args[path.key.value] for path in native.arguments]
            outputs, end, computed = native(arrays_of(of, args), None, numbers)
            check(of, values, native.ends[end] if end >= 0 else None, outputs, computed)
    assert taken > NATIVE // 2
