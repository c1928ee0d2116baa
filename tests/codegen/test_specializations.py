"""One graph for all sizes: sizes that are used again get code."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from oracle import assert_same
from unknown_sizes import recorded

import fusewire as fw
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.text import parse
from fusewire.codegen.compile import compile_dynamic, compile_graph
from fusewire.codegen.dynamic import specializations
from fusewire.codegen.dynamic.specializations import DynamicExecutable, find_size_bindings

ROWS = """
    x = input()  # float32[n, 3]
    v1 = exp(x)  # float32[n, 3]
    v2 = sum(v1, axis=(0,), keepdims=False)  # float32[3]
    return v2"""


def program_of(graph: Graph) -> DynamicExecutable:
    found = compile_graph(graph)
    assert isinstance(found, DynamicExecutable)
    return found


def size_by_size(graph: Graph) -> DynamicExecutable:
    """A program as it is where no code can be for any size."""
    return DynamicExecutable(graph, compile_graph)


def random(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def test_the_second_size_makes_a_program_for_any() -> None:
    program = program_of(parse(ROWS))
    for n in (2, 2, 3, 1, 64, 2):
        x = random(n, 3)
        assert_same(program([x])[0], np.exp(x).sum(axis=0))
    assert [(v.sizes["n"], v.compiled, v.dynamic_program is program.dynamic_program)
            for v in program.specializations] == \
        [(2, True, False), (3, False, True), (1, False, True), (64, False, True)]
    assert program.dynamic_program is not None and program.dynamic_program.capacity == {"n": 64}


def test_a_larger_size_makes_a_program_for_twice_that() -> None:
    program, capacities = program_of(parse(ROWS)), []
    for n in (1, 2, 3, 100, 200, 201, 5):
        x = random(n, 3)
        assert_same(program([x])[0], np.exp(x).sum(axis=0))
        capacities.append(program.dynamic_program and program.dynamic_program.capacity["n"])
    assert capacities == [None, 64, 64, 200, 200, 402, 402]


def test_where_the_program_cannot_grow_it_goes_on_for_smaller_sizes() -> None:
    program = DynamicExecutable(parse(ROWS), compile_graph, lambda graph, least: compile_dynamic(
        graph, least) if least["n"] < 100 else _refuse())
    for n in (1, 2, 100, 3, 4):
        x = random(n, 3)
        assert_same(program([x])[0], np.exp(x).sum(axis=0))
    dynamic = [v for v in program.specializations if v.dynamic_program is not None]
    assert [v.sizes["n"] for v in dynamic] == [2, 3, 4]
    assert program.refusal == "too large"


def _refuse() -> Any:
    raise fw.CodegenError("too large")


def test_a_size_met_very_often_has_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specializations, "SPECIALIZE_DYNAMIC_AFTER_CALLS", 10)
    program = program_of(parse(ROWS))
    program([random(7, 3)])
    for call in range(1, 15):
        program([random(8, 3)])
        assert [v.compiled for v in program.specializations if v.sizes["n"] == 8] == [call >= 12]


def test_the_second_meeting_with_a_size_makes_code() -> None:
    program = size_by_size(parse(ROWS))
    for n in (1, 2, 3, 2, 2, 3):
        x = random(n, 3)
        assert_same(program([x])[0], np.exp(x).sum(axis=0))
    assert [(v.sizes["n"], v.uses, v.compiled) for v in program.specializations] == \
        [(2, 3, True), (3, 2, True), (1, 1, False)]


def test_sizes_that_are_met_once_compile_nothing() -> None:
    program = size_by_size(parse(ROWS))
    for n in range(1, 65):
        program([random(n, 3)])
    assert not any(v.compiled for v in program.specializations) and program.compile_seconds == 0


def test_what_is_spent_on_further_sizes_is_counted() -> None:
    f = fw.compile(lambda x: fw.exp(x).sum(), dynamic=True)
    f(fw.ones(3)), f(fw.ones(4))
    before = f.stats.compile_seconds
    f(fw.ones(4)), f(fw.ones(4))
    assert f.stats.compile_seconds > before


def test_the_more_sizes_have_code_the_more_often_another_one_must_be_met() -> None:
    """All of twelve sizes in turn: four get code in the second round, four in the third."""
    program, compiled = size_by_size(parse(ROWS)), []
    for _ in range(4):
        for n in range(1, 13):
            program([random(n, 3)])
        compiled.append(sum(v.compiled for v in program.specializations))
    assert compiled == [0, 4, 8, 12]


def test_the_least_used_sizes_make_room() -> None:
    program = program_of(parse(ROWS))
    program._states.policy = program._states.policy._replace(limit=3)
    for n in (1, 1, 2, 2, 3, 4, 5, 1, 2):
        program([random(n, 3)])
    assert [v.sizes["n"] for v in program.specializations] == [1, 2, 5]


@pytest.mark.parametrize("fn", [
    lambda x, y: fw.softmax(x @ y, axis=-1) / x.shape[0],
    lambda x, y: fw.concat([x, y.T])[::2].reshape(-1),
    lambda x, y: (x - x.mean(axis=0)).sum() * (x.shape[0] + x.shape[1] * 2),
    lambda x, y: fw.pad(x, [(1, x.shape[0] // 2), (0, 0)]) + fw.arange(x.shape[1]),
    lambda x, y: fw.sort(x, axis=0) + fw.broadcast_to(y.sum(axis=1), x.shape),
    lambda x, y: fw.full(x.shape, 2.0) * x,
])
def test_a_recording_with_symbols_is_right_for_all_sizes(fn: Any) -> None:
    program = program_of(recorded(fn, ("n", "m"), ("m", 4), n=5, m=3))
    for n, m in ((5, 3), (2, 7), (1, 1), (5, 3), (2, 7), (1, 1), (33, 2)):
        x, y = random(n, m), random(m, 4)
        assert_same(program([x, y])[0], fn(fw.from_numpy(x), fw.from_numpy(y)), 10, f"{n} {m}")


def test_code_writes_over_a_donated_input() -> None:
    graph = parse("""
        x = input()  # float32[n]
        v1 = multiply(x, float32(2.0))  # float32[n]
        return v1""")
    program = program_of(Graph(graph.inputs, graph.outputs, {0: 0}))
    program([random(5)])
    arrays = [random(5)]
    place, expected = arrays[0].ctypes.data, arrays[0] * 2
    (found,) = program(arrays)
    np.testing.assert_array_equal(found, expected)
    assert found.ctypes.data == place


# ---- where sizes are found
def text_of(*shapes: str) -> Graph:
    lines = [f"x{i} = input()  # float32[{shape}]" for i, shape in enumerate(shapes)]
    return parse("\n".join([*lines, "return " + ", ".join(f"x{i}" for i in range(len(shapes)))]))


def test_an_axis_that_is_the_size_tells_it() -> None:
    places = find_size_bindings(text_of("2*n + 1, 4", "3, n", "n", "m, m"))
    assert places == {"n": (1, 1, 1, 0), "m": (3, 0, 1, 0)}


def test_or_one_that_it_follows_from() -> None:
    program = program_of(text_of("2*n + 1, n*m", "m"))
    assert program.sizes_of([random(7, 12), random(4)]) == {"n": 3, "m": 4}


@pytest.mark.parametrize("shapes", [[(8, 12), (4,)], [(7, 11), (4,)], [(1, 0), (4,)]])
def test_shapes_that_contradict_each_other_are_refused(shapes: list[tuple[int, ...]]) -> None:
    program = program_of(text_of("2*n + 1, n*m", "m"))
    with pytest.raises(fw.GraphError, match=r"input 0 has shape .*, where .* float32\[2\*n \+ 1"):
        program([random(*shape) for shape in shapes])


def test_a_size_that_no_input_tells_is_refused() -> None:
    with pytest.raises(fw.CodegenError, match="no input's shape determines the size m"):
        compile_graph(text_of("n", "n*m"))


def test_an_index_is_looked_at_in_every_way_to_run() -> None:
    program = program_of(parse("""
        x = input()  # float32[n]
        i = input()  # int64[2]
        v2 = take(x, i, axis=0)  # float32[2]
        return v2"""))
    for bad in (3, -1, 3, 7):
        with pytest.raises(IndexError, match=r"out of range|out of bounds"):
            program([random(3), np.array([0, bad])])
    x = random(3)
    np.testing.assert_array_equal(program([x, np.array([0, 2])])[0], x[[0, 2]])


def test_threads_share_what_is_compiled() -> None:
    program, x, wrong = program_of(parse(ROWS)), random(9, 3), []
    expected = np.exp(x).sum(axis=0)

    def calls() -> None:
        for _ in range(20):
            if not np.allclose(program([x])[0], expected):
                wrong.append(1)

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    (variant,) = program.specializations
    assert not wrong and variant.compiled


def test_it_says_which_sizes_have_code() -> None:
    program = program_of(parse(ROWS))
    for n in (8, 8, 2):
        program([random(n, 3)])
    text = program.explain()
    assert "n = 8: 2 calls, specialized program" in text
    assert "n = 2: 1 call, dynamic-shape program, capacity n = 64" in text
    assert "define" in program.code
    assert [row["sizes"] for row in program.rows()] == [{"n": 8}, {"n": 64}]


def test_it_says_why_there_is_no_code_for_any_size() -> None:
    program = program_of(recorded(lambda x: fw.argsort(x, axis=0), ("n", 3), n=5))
    for n in (8, 2):
        program([random(n, 3)])
    assert "cannot sort rows of a length known at run time only" in program.explain()
    assert "n = 2: 1 call, op by op" in program.explain()


def test_sizes_that_must_be_equal_are_one() -> None:
    program = program_of(recorded(lambda x, y: x.sum(axis=1) + y, ("n", 3), ("m",), n=5, m=5))
    for n in (4, 2, 7):
        x, y = random(n, 3), random(n)
        assert_same(program([x, y])[0], x.sum(axis=1) + y)
    assert program.dynamic_program is not None and program.refusal == ""
