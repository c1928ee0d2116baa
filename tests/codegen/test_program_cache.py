"""Programs read from disk by the key of their graph: equal to compiled ones, never another's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import KINDS

import fusewire as fw
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.capture.graph.text import parse
from fusewire.codegen import compile
from fusewire.codegen.cache import program_cache as again
from fusewire.codegen.compile import compile_dynamic, compile_graph
from fusewire.codegen.runtime.target import host, named
from fusewire.eager.arrays import dtypes
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.core.op import OPS


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs that had to be lowered."""
    found: list[Graph] = []
    lower_graph = compile.lower_graph

    def noting(graph: Graph, *others: Any) -> Any:
        found.append(graph)
        return lower_graph(graph, *others)

    monkeypatch.setattr(compile, "lower_graph", noting)
    return found


def assert_same_bits(got: list[Any], want: list[Any]) -> None:
    assert [(a.shape, a.dtype, a.tobytes()) for a in got] == \
        [(a.shape, a.dtype, a.tobytes()) for a in want]
    assert all(a.dtype is dtypes.as_dtype(a.dtype) for a in got)  # much asks for the very object


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", KINDS)
def test_a_program_from_disk_gives_the_same_bits(name: str, dtype: str, disk: Path,
                                                 lowered: list[Graph]) -> None:
    graph, arrays = KINDS[name].graph(17, dtype)
    made = compile_graph(graph)
    wanted, count = made([*arrays]), len(lowered)
    graph, arrays = KINDS[name].graph(17, dtype)  # recorded again, as by another process
    found = compile_graph(graph)
    assert_same_bits(found([*arrays]), wanted)
    assert len(lowered) == count
    assert found.memory == made.memory


def test_what_is_shown_is_made_anew(disk: Path, lowered: list[Graph]) -> None:
    graph, _ = KINDS["softmax"].graph(33, "float32")
    made, found = compile_graph(graph), compile_graph(graph)
    assert len(lowered) == 1
    assert (found.code, found.assembly) == (made.code, made.assembly)
    times = {"seconds": 0.0}
    assert [r | times for r in found.rows()] == [r | times for r in made.rows()]
    assert len(lowered) == 2


def test_a_program_for_any_size(disk: Path, lowered: list[Graph]) -> None:
    graph = parse("x = input()  # float32[n, 20]\ny = input()  # float32[20]\n"
                  "a = multiply(x, y)  # float32[n, 20]\nb = exp(a)  # float32[n, 20]\nreturn b")
    made, found = (compile_dynamic(graph, {"n": 5}) for _ in range(2))
    assert len(lowered) == 1 and found.capacity == made.capacity
    for n in (1, 30):
        arrays = [np.ones((n, 20), np.float32), np.linspace(0, 1, 20, dtype=np.float32)]
        assert_same_bits(found.bind({"n": n})([*arrays]), made.bind({"n": n})([*arrays]))
    compile_dynamic(graph, {"n": 500})
    assert len(lowered) == 2


def test_indices_are_looked_at(disk: Path, lowered: list[Graph]) -> None:
    graph, (x, places) = KINDS["gather"].graph(7, "float32")
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range"):
            compile_graph(graph)([x, places + 7])
    assert len(lowered) == 1


def test_inputs_are_written_over(disk: Path, lowered: list[Graph]) -> None:
    nodes = Nodes()
    x = nodes.input("x", TensorType((50,), fw.float32))
    graph = Graph((x,), (nodes.apply("exp", (x,), {}),), {0: 0})
    for _ in range(2):
        own = [np.zeros(50, np.float32)]
        address = own[0].ctypes.data
        (out,) = compile_graph(graph)(own)
        assert out.ctypes.data == address and (out == 1).all()
    assert len(lowered) == 1


def test_a_program_whose_object_code_is_gone(disk: Path, lowered: list[Graph]) -> None:
    graph, arrays = KINDS["pointwise"].graph(9, "float32")
    wanted = compile_graph(graph)([*arrays])
    for entry in disk.glob("*.o"):
        entry.unlink()
    assert_same_bits(compile_graph(graph)([*arrays]), wanted)
    assert len(lowered) == 2


def test_a_training_step_from_disk(disk: Path) -> None:
    """Twice, each time recorded anew: the same losses, the second time without lowering."""
    def losses() -> tuple[list[float], Any]:
        fw.manual_seed(0)
        model = fw.nn.Sequential(fw.nn.Linear(6, 8), fw.nn.Dropout(), fw.nn.Linear(8, 3))
        optimizer = fw.optim.Adam(model.parameters())

        @fw.compile
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return [step(fw.ones(4, 6)).item() for _ in range(4)], step.stats.costs

    first, (again, costs) = losses(), losses()
    assert first[0] == again and costs.lowering == 0.0 and costs.from_disk > 0


# ---- what has another name
BASE = "x = input()  # float32[4, 6]\ny = input()  # float32[4, 6]\n" \
       "a = multiply(x, float32(2.0))  # float32[4, 6]\nb = add(a, y)  # float32[4, 6]\nreturn a, b"


def name(graph: Graph, target: Any = None, how: tuple[Any, ...] = ()) -> str:
    return again.entry_name(graph, target or host(), how)


@pytest.mark.parametrize("old, new", [
    ("float32(2.0)", "float32(-2.0)"), ("float32(2.0)", "float32(2.0000002)"),
    ("2.0", "0.0"), ("2.0", "-0.0"), ("2.0", "2"), ("2.0", "True"), ("2.0", "nan"), ("2.0", "inf"),
    ("multiply", "add"), ("add(a, y)", "add(y, a)"), ("add(a, y)", "add(a, x)"),
    ("4, 6", "4, 7"), ("4, 6", "24"), ("float32[", "float64["), ("return a, b", "return b, a"),
    ("return a, b", "return b"), ("y = input", "z = input"), ("4, 6", "n, 6"), ("4, 6", "m, 6"),
    ("4, 6", "n + 1, 6"),
])
def test_another_graph_has_another_name(old: str, new: str, disk: Path) -> None:
    changed = BASE.replace(old, new)
    changed = changed.replace(", y)", ", z)") if new.startswith("z") else changed
    names = {name(parse(BASE)), name(parse(changed)), name(parse(BASE))}
    assert len(names) == 2 and "" not in names


def test_numbers_are_told_apart_to_the_last_bit(disk: Path) -> None:
    values = ["0.0", "-0.0", "0", "False", "nan", "inf", "-inf", "1.0", "1", "True"]
    assert len({name(parse(BASE.replace("2.0", v))) for v in values}) == len(values)


def test_what_may_be_written_over_and_what_is_kept_count(disk: Path) -> None:
    graph = parse(BASE)
    others = [replace(graph, donated={0: 0}), replace(graph, donated={1: 0}),
              replace(graph, donated={0: 1}), replace(graph, persistent=frozenset({0})),
              replace(graph, persistent=frozenset({1})), replace(graph, inputs=graph.inputs[::-1])]
    assert len({name(g) for g in (graph, *others)}) == 7


def test_the_processor_and_how_loops_are_chosen_count(disk: Path) -> None:
    graph = parse(BASE)
    ways = [(None, ()), (None, (1,)), (named("x86-64-v3"), ()), (named("x86-64-v2"), ())]
    assert len({name(graph, *way) for way in ways}) == 4


def test_the_number_of_threads_counts(disk: Path, lowered: list[Graph]) -> None:
    graph, threads = KINDS["matmul"].graph(9, "float32")[0], fw.get_num_threads()
    try:
        for count in (1, 2, 1, 2):
            fw.set_num_threads(count)
            compile_graph(graph)
    finally:
        fw.set_num_threads(threads)
    assert len(lowered) == 2


def test_lines_of_the_user_do_not_count(disk: Path) -> None:
    def at(line: str) -> Graph:
        nodes = Nodes()
        x = nodes.input("x", TensorType((3,), fw.float32))
        return Graph((x,), (nodes.apply("exp", (x,), {}, line),))

    assert name(at("a.py:1")) == name(at("a.py:2"))


# ---- what has none
def test_an_op_that_is_not_ours(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse(BASE)
    monkeypatch.setitem(OPS, "add", replace(OPS["add"]))
    assert name(graph) == ""
    monkeypatch.setitem(OPS, "mine", OPS["add"])
    assert name(parse(BASE.replace("add(", "mine("))) == ""


def test_a_param_of_an_unknown_kind(disk: Path) -> None:
    nodes = Nodes()
    x = nodes.input("x", TensorType((3,), fw.float32))
    graph = Graph((x,), (nodes.make("exp", (x,), {"mode": frozenset()}, x.type),))
    assert name(graph) == ""


def test_every_kind_of_program_has_a_name(disk: Path) -> None:
    assert all(name(kind.graph(5, "float32")[0]) for kind in KINDS.values())


def test_nothing_is_named_where_nothing_is_kept() -> None:
    assert name(parse(BASE)) == ""


# ---- sources
def test_any_change_of_the_sources_counts(tmp_path: Path) -> None:
    for place in ("eager/ops/add.py", "capture/fold.py", "codegen/lower.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("MOST = 1")
    found = [again.source_digest_of(tmp_path)]
    for place in ("eager/ops/add.py", "capture/fold.py", "codegen/lower.py"):
        (tmp_path / place).write_text("MOST = 2")
        found.append(again.source_digest_of(tmp_path))
    (tmp_path / "codegen/lower.py").rename(tmp_path / "codegen/raise.py")
    found.append(again.source_digest_of(tmp_path))
    assert len(set(found)) == 5


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    assert again.source_digest_of(tmp_path) == ""
