"""Rows added at indices known only at run time: in order, in kernels of the program itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.program import native_threads
from fusewire.codegen.program.executable import Executable
from fusewire.eager.ops.shape.take import add_at

SHAPES = [  # values, indices, size, axis
    ((10, 7), (10,), 5, 0), ((3, 10, 7), (10,), 4, 1), ((6, 300), (6,), 9, 0), ((50,), (50,), 7, 0),
    ((2, 3, 4, 5), (3, 4), 6, 1), ((8, 9, 20), (20,), 11, 2), ((0, 4), (0,), 3, 0),
    ((5, 40, 3), (40,), 1, 1), ((7,), (), 3, 0), ((4, 0), (4,), 3, 0), ((1, 1, 1), (1,), 1, 1)]


def numbers(*shape: int, dtype: str = "float32") -> fw.Tensor:
    drawn = np.random.default_rng(len(shape)).integers(0, 20, shape)
    return fw.from_numpy(drawn.astype(dtype))


def indices(*shape: int, below: int) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(1).integers(0, below, shape))


def assert_equal(function: Callable[..., Any], *args: Any) -> Executable:
    """Compiled, and interpreted for a small machine: the numbers of NumPy."""
    graph, arrays = recorded(function, *args)
    program, wanted = compile_graph(graph), evaluate(graph, arrays)
    assert isinstance(program, Executable)  # no library call
    for results in program(list(arrays)), interpreted(graph, arrays, Machine(8, 8)):
        for got, want in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(got, want)
    return program


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8",
                                   "bool"])
@pytest.mark.parametrize(("values", "rows", "size", "axis"), SHAPES)
def test_rows_of_every_shape(values: tuple[int, ...], rows: tuple[int, ...], size: int, axis: int,
                             dtype: str) -> None:
    assert_equal(lambda v, i: add_at(v, i, size, axis), numbers(*values, dtype=dtype),
                 indices(*rows, below=size))


def test_rows_are_computed_where_they_are_added() -> None:
    program = assert_equal(lambda v, i: add_at(v * 2 - 3, i, 5) + 1,
                           numbers(100, 64), indices(100, below=5))
    names = [row["name"] for row in program.rows()]
    assert len(names) == 3, names  # they clear, add, and add 1 to the sums


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_no_rounding(threads: int,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x = fw.from_numpy(rng.standard_normal((400, 3000)).astype(np.float32))
    i = indices(400, below=3)
    want = np.zeros((3, 3000), np.float32)
    np.add.at(want, i.numpy(), x.numpy())
    before = native_threads.get_num_threads()
    native_threads.set_num_threads(threads)
    try:
        compiled = fw.compile(lambda x, i: add_at(x, i, 3))
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x, i).numpy(), want)
    finally:
        native_threads.set_num_threads(before)


def test_bfloat16_is_added_up_in_float32() -> None:
    x = fw.full((300, 2), 1.0, dtype=fw.bfloat16)
    compiled = fw.compile(lambda x, i: add_at(x, i, 2))
    for _ in range(2):
        assert compiled(x, fw.zeros(300, dtype=fw.int64)).tolist() == [[300.0] * 2, [0.0] * 2]


def test_indices_out_of_range_raise_as_in_eager() -> None:
    compiled = fw.compile(lambda x, i: add_at(x, i, 3))
    compiled(fw.ones(2, 2), fw.tensor([0, 2]))
    for bad in [0, 3], [-1, 0]:
        with pytest.raises(IndexError, match="add_at: index"):
            compiled(fw.ones(2, 2), fw.tensor(bad))


def test_any_number_of_rows() -> None:
    compiled = fw.compile(lambda x, i: add_at(x * 2, i, 4), dynamic=True)
    for n in (3, 1, 8, 17, 0, 5):
        x, i = numbers(n, 6), indices(n, below=4)
        assert_same(compiled(x, i), add_at(x * 2, i, 4))
    assert compiled.stats.recordings <= 2


def test_a_training_step_of_an_embedding_is_one_program() -> None:
    fw.manual_seed(0)
    table = fw.nn.Parameter(fw.randn(50, 16))

    def step(tokens: fw.Tensor) -> fw.Tensor:
        loss = (F.embedding(tokens, table).tanh() ** 2).mean()
        loss.backward()
        with fw.no_grad():
            table.sub_(table.grad * 0.1)
        table.grad = None
        return loss.detach()

    compiled = fw.compile(step, fullgraph=True)
    tokens = indices(4, 9, below=50)
    losses = [compiled(tokens).item() for _ in range(6)]
    assert losses == sorted(losses, reverse=True)
    (program,) = compiled.programs
    assert [type(s.executable) for s in program.segments() if s.executable] == [Executable]
