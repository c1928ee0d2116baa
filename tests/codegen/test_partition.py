"""Graphs of which only parts have kernels: native programs with library calls between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, recorded, tensors
from samples import ROWS, Row

import fusewire as fw
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.graph.text import parse, to_text
from fusewire.codegen.backend import lowering_on
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.partition import partition
from fusewire.codegen.partition.hybrid_executable import HybridExecutable, compile_hybrid
from fusewire.codegen.partition.partition import GraphPart, LibraryCall
from fusewire.codegen.program.executable import Executable
from fusewire.eager.core.op import OPS


@pytest.fixture
def eager_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that can have code gets some, however little it is."""
    monkeypatch.setattr(partition, "MAX_NODES_LEFT_TO_LIBRARY", 0)


def donating(text: str, donated: dict[int, int]) -> Graph:
    graph = parse(text)
    return Graph(graph.inputs, graph.outputs, donated)


def steps_of(graph: Graph) -> list[str]:
    """The steps of a graph in words: the op of a call, the ops of a part."""
    program = compile_graph(graph)
    assert isinstance(program, HybridExecutable)
    return [step.node.op if isinstance(step, LibraryCall) else "+".join(n.op for n in step.members)
            for step in program.steps]


def arrays_for(graph: Graph) -> list[Any]:
    rng = np.random.default_rng(0)
    return [np.asarray(rng.standard_normal(n.type.shape), n.type.dtype) for n in graph.inputs]


# ---- what runs where
def test_a_graph_that_has_code_is_one_native_program() -> None:
    graph = parse("""
        x = input()  # float32[4]
        v1 = exp(x)  # float32[4]
        return v1""")
    assert type(compile_graph(graph)) is Executable


def test_code_before_and_after_a_call(eager_to_compile: None) -> None:
    assert steps_of(parse("""
        x = input()  # float32[4]
        a = exp(x)  # float32[4]
        b = sort(a, axis=0, descending=False)  # float32[4]
        c = tanh(b)  # float32[4]
        d = multiply(c, a)  # float32[4]
        return d""")) == ["exp", "sort", "tanh+multiply"]


def test_calls_that_wait_for_nothing_come_first_and_leave_one_part(eager_to_compile: None) -> None:
    """exp needs neither of the two, but is computed beside what does."""
    assert steps_of(parse("""
        x = input()  # float32[4]
        y = input()  # float32[4]
        a = exp(x)  # float32[4]
        b = sort(x, axis=0, descending=False)  # float32[4]
        c = sort(y, axis=0, descending=False)  # float32[4]
        d = add(b, c)  # float32[4]
        e = multiply(d, a)  # float32[4]
        return e""")) == ["sort", "sort", "add+exp+multiply"]


def test_what_is_too_little_for_code_of_its_own_is_called() -> None:
    assert steps_of(parse("""
        x = input()  # float32[4]
        a = exp(x)  # float32[4]
        b = sort(a, axis=0, descending=False)  # float32[4]
        return b""")) == ["exp", "sort"]


def test_a_view_is_numpys_for_a_call_and_made_again_in_a_part(eager_to_compile: None) -> None:
    """Nothing is moved for it: the part reads `a` itself, not `b`."""
    program = compile_graph(parse("""
        x = input()  # float32[4, 3]
        a = exp(x)  # float32[4, 3]
        b = permute_dims(a, axes=(1, 0))  # float32[3, 4]
        c = sort(b, axis=0, descending=False)  # float32[3, 4]
        d = add(c, b)  # float32[3, 4]
        return d"""))
    assert isinstance(program, HybridExecutable)
    exp, view, _, last = program.steps
    assert isinstance(exp, GraphPart) and isinstance(view, LibraryCall) and isinstance(last,
                                                                                       GraphPart)
    assert {n.op for n in last.reads} == {"sort", "exp"}
    assert view.node.op == "permute_dims"


def test_a_composite_of_half_precision_runs_as_eager_runs_it() -> None:
    """As one call, which rounds once at its end, and not by the ops that it is made of."""
    graph = parse("""
        x = input()  # float16[4, 9]
        a = normalize(x, axes=(1,), eps=0.1, centred=True)  # float16[4, 9]
        return a""")
    assert steps_of(graph) == ["normalize"]
    arrays = arrays_for(graph)
    np.testing.assert_array_equal(compile_graph(graph)(arrays)[0], evaluate(graph, arrays)[0])


def test_inputs_constants_and_views_can_be_outputs() -> None:
    graph = parse("""
        x = input()  # complex64[2, 3]
        v1 = reshape(x, shape=(6,))  # complex64[6]
        v2 = full(shape=(2,), value=1.0, dtype=float16)  # float16[2]
        return x, v1, v2, float16(0.5), v1""")
    arrays = arrays_for(graph)
    for got, want in zip(compile_graph(graph)(list(arrays)), evaluate(graph, arrays)):
        assert_same(got, want)


def test_a_part_without_code_after_all_is_called(eager_to_compile: None) -> None:
    """The compiler has the last word on what it can do."""
    def refuses(part: GraphPart) -> Any:
        raise fw.CodegenError("not this one")

    graph = parse("""
        x = input()  # float32[4]
        a = exp(x)  # float32[4]
        return a""")
    program = compile_hybrid(graph, refuses, lowering_on)
    (step,) = program.steps
    assert isinstance(step, LibraryCall) and step.why == "not this one"
    np.testing.assert_array_equal(program([np.zeros(4, np.float32)])[0], np.ones(4))


# ---- values
OTHERS = [row for row in ROWS if OPS[row.op].kind == "opaque"
          and row.op not in ("true_indices", "repeats")]  # whose recording is no one graph


@pytest.mark.parametrize("row", OTHERS, ids=str)
def test_an_op_without_code_between_code(row: Row, eager_to_compile: None) -> None:
    """Native code makes its inputs and reads its result."""
    call = row.call  # not the row: its arrays would not be recorded

    def every(given: list[list[fw.Tensor]]) -> list[fw.Tensor]:
        outs = []
        for xs in given:
            out = call(*[x + 0.0 if x.dtype.kind == "f" else x for x in xs])
            outs.append(fw.where(out == out, out, out) if out.dtype.kind in "fiu" else out)
        return outs

    with np.errstate(all="ignore"):
        given = [tensors(xs) for xs in row.inputs(np.random.default_rng(0))]
        graph, arrays = recorded(every, given)
        program = compile_graph(graph)
        for got, want in zip(program(list(arrays)), evaluate(graph, arrays)):
            assert_same(got, want, row.tolerance / 2e-6)


def test_a_layer_in_a_dtype_without_code() -> None:
    x, w = (fw.from_numpy(np.random.default_rng(n).standard_normal((8, 8)).astype(np.float32))
            for n in (0, 1))
    given = [t.astype(fw.complex64) for t in (x, w)]

    def layer(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        return fw.tanh(x @ w + w.sum(axis=0)) * 2.0

    compiled = fw.compile(layer, fullgraph=True)
    for _ in range(2):
        assert_same(compiled(*given), layer(*given), 10)
    assert compiled.stats.replays == 1


UNARY: dict[str, Callable[[fw.Tensor], fw.Tensor]] = {
    "exp": lambda x: fw.exp(-fw.abs(x)), "tanh": fw.tanh, "turn": lambda x: x.T,
    "flat": lambda x: x.reshape(-1).reshape(x.shape[::-1]).T, "half": lambda x: x * 0.5,
    "sums": lambda x: fw.cumulative_sum(x, axis=0) * 0.1, "sort": lambda x: fw.sort(x, axis=1),
    "highest": lambda x: x - x.max(axis=1, keepdims=True),
    "short": lambda x: x.astype(fw.float16).astype(fw.float32),
    "spectrum": lambda x: fw.fft.ifft(fw.fft.fft(x)).real,
    "rows": lambda x: fw.take(x, fw.argsort(x[:, 0]), axis=0),
    "inverse": lambda x: x @ fw.linalg.inv(x.T @ x + 5.0 * fw.eye(5)) if x.shape[1] == 5 else x,
}
BINARY: dict[str, Callable[[fw.Tensor, fw.Tensor], fw.Tensor]] = {
    "add": lambda x, y: fw.tanh(x) + y, "product": lambda x, y: x * fw.tanh(y),
    "join": lambda x, y: fw.concat([x, y])[1:6], "matrix": lambda x, y: fw.tanh(x @ y.T) @ x,
}


def a_program(seed: int) -> Callable[..., list[fw.Tensor]]:
    """A function of two matrices: calls and code at random."""
    rng = np.random.default_rng(seed)
    names = rng.choice([*UNARY, *BINARY], 14).tolist()
    plan = list(zip(names, *rng.integers(99, size=(2, 14)).tolist()))

    def run(x: fw.Tensor, y: fw.Tensor) -> list[fw.Tensor]:
        pool = [x, y]
        for name, i, j in plan:
            a, b = pool[-1 - i % 3 % len(pool)], pool[j % len(pool)]
            made = UNARY[name](a) if name in UNARY else BINARY[name](a, b)
            pool.append(made if made.shape == x.shape else made.T)
        return pool[-3:]

    return run


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_with_calls_in_between(seed: int, eager_to_compile: None) -> None:
    rng = np.random.default_rng([seed, 1])
    given = [rng.standard_normal((5, 5)).astype(np.float32) for _ in range(2)]
    graph, arrays = recorded(a_program(seed), *map(fw.from_numpy, given))
    program = compile_graph(graph)
    for _ in range(2):
        for got, want in zip(program(list(arrays)), evaluate(graph, arrays)):
            assert_same(got, want, 100, to_text(graph))


def test_an_embedding_is_trained_compiled() -> None:
    def trained(compiles: bool) -> fw.nn.Module:
        fw.manual_seed(0)
        model = fw.nn.Sequential(fw.nn.Embedding(9, 4), fw.nn.Flatten(), fw.nn.Linear(12, 9))
        optimizer = fw.optim.Adam(model.parameters(), lr=0.1)

        def step(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = fw.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = fw.compile(step, fullgraph=True) if compiles else step
        for k in range(4):
            run((fw.arange(6).reshape(2, 3) * k) % 9, fw.arange(2) + k)
        assert not compiles or run.stats.replays == 3
        return model

    got, want = trained(True).state_dict(), trained(False).state_dict()
    for name, value in want.items():
        assert_same(got[name], value, 10, name)


# ---- memory, and errors that leave everything as it was
UPDATE = """
    p = input()  # float32[64]
    g = input()  # float32[64]
    a = {call}  # float32[64]
    b = multiply(a, float32(0.1))  # float32[64]
    c = exp(b)  # float32[64]
    d = subtract(p, c)  # float32[64]
    return {outputs}"""


def updated(text: str) -> tuple[bool, list[Any]]:
    """Whether the update of `p` took its memory, and the outputs."""
    graph = donating(text, {0: 0})
    held = [fw.Tensor(np.linspace(0, 1, 64, dtype=np.float32)) for _ in graph.inputs]
    expected = evaluate(graph, [t._data.copy() for t in held])
    place = held[0]._data.ctypes.data
    found = compile_graph(graph)([t._data for t in held])
    for got, want in zip(found, expected):
        assert_same(got, want)
    return found[0].ctypes.data == place, found


def test_the_last_part_writes_over_a_donated_input() -> None:
    text = UPDATE.format(call="sort(g, axis=0, descending=False)", outputs="d")
    assert updated(text)[0]


def test_an_input_that_a_later_call_reads_is_not_written_over() -> None:
    text = UPDATE.format(call="negative(g)", outputs="d, e").replace("    return", """
    s = add(d, p)  # float32[64]
    t = sort(s, axis=0, descending=False)  # float32[64]
    e = add(t, p)  # float32[64]
    return""")
    assert not updated(text)[0]


def test_an_array_that_somebody_else_holds_is_not_written_over() -> None:
    graph = donating(UPDATE.format(call="sort(g, axis=0, descending=False)", outputs="d"), {0: 0})
    p = np.ones(64, np.float32)
    tensor = fw.Tensor(p)
    compile_graph(graph)([tensor._data, np.ones(64, np.float32)])
    np.testing.assert_array_equal(p, 1)


FAILS_LATER = UPDATE.format(call="negative(g)", outputs="d, f").replace("    return", """
    s = sort(g, axis=0, descending=False)  # float32[64]
    k = multiply(s, {scale})  # float32[64]
    i = cast(k, dtype=int64)  # int64[64]
    f = take(d, i, axis=0)  # float32[64]
    return""")


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_an_index_out_of_range_leaves_everything_as_it_was(
    scale: float, eager_to_compile: None
) -> None:
    """The update comes first, but a computed index is looked at before anything is changed."""
    graph = donating(FAILS_LATER.format(scale=f"float32({scale})"), {0: 0})
    given = [np.ones(64, np.float32), np.linspace(0, 1, 64, dtype=np.float32)]
    program = compile_graph(graph)
    if scale > 1:
        tensor = fw.Tensor(given[0])
        del given[0]
        with pytest.raises(IndexError, match=r"take: index .* is out of range for size 64"):
            program([tensor._data, *given])
        np.testing.assert_array_equal(tensor._data, 1)
    else:
        for got, want in zip(program(list(given)), evaluate(graph, given)):
            assert_same(got, want)


def test_an_index_that_is_given_is_looked_at_first(eager_to_compile: None) -> None:
    graph = parse("""
        g = input()  # float32[3]
        i = input()  # int64[3]
        a = exp(g)  # float32[3]
        b = add_at(a, i, axis=0, size=4)  # float32[4]
        c = exp(b)  # float32[4]
        return c""")
    program = compile_graph(graph)
    values = np.ones(3, np.float32)
    assert_same(program([values, np.array([0, 3, 3])])[0],
                np.exp(np.array([np.e, 0, 0, 2 * np.e], np.float32)))
    with pytest.raises(IndexError, match="4 is out of range for size 4"):
        program([values, np.array([0, 4, 3])])


# ---- what it says
def test_calls_are_listed_with_line_and_reason() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        return fw.sort(fw.exp(fw.tanh(x) + 1.0), axis=0)

    graph, _ = recorded(f, fw.ones(7))
    program = compile_graph(graph)
    *_, call = program.rows()
    assert call["name"] == "call of sort" and "test_partition.py" in call["line"]
    assert call["why"].startswith("the code generator does not support sort")
    assert call["why"] in program.explain() and call["line"] in program.explain()
    assert call["why"] in program.code and "define" in program.code
