"""Ops compiled for processors that this one can stand in for, in every layout, against NumPy in
float64. A sample of the rows; `FUSEWIRE_TEST_WHOLE=1` takes all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kinds import FLOATS
from loop_kernels import X86
from oracle import assert_same, tensors
from samples import ROWS, Row
from sampling import sample

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.cpu import loop_nest, lower
from fusewire.codegen.cpu.gemm import lower as contract
from fusewire.codegen.llvm import step_table
from fusewire.codegen.runtime.target import named
from fusewire.eager.core.op import OPS

CPUS = ["x86-64-v3", "x86-64"]
SIZES = [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33]  # around the widths of vectors
LAYOUTS: dict[str, Callable[[Any], Any]] = {  # of 12 * 10 numbers
    "transposed": lambda a: a.reshape(12, 10).T,
    "turned round": lambda a: a.reshape(12, 10)[::-1, ::-1],
    "every third": lambda a: a[1::3],
    "from inside": lambda a: a.reshape(12, 10)[1:, 3:],
    "spread": lambda a: np.broadcast_to(a[:10], (12, 10)),
}


@pytest.fixture
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels fall into as many tasks as they can, however small, and all threads take part."""
    split = loop_nest.split_into_tasks
    for module in (loop_nest, lower, contract):
        monkeypatch.setattr(module, "split_into_tasks",
                            lambda total, _, machine: split(total, 1, machine))
    monkeypatch.setattr(step_table, "_cost", lambda kernel: 1 << 30)
    before = fw.get_num_threads()
    yield
    fw.set_num_threads(before)


def inputs_of(row: Row) -> list[tuple[Any, ...]]:
    """The row's inputs; those of a pointwise op also in other sizes and layouts, some for each
    choice of dtypes."""
    own = row.inputs(np.random.default_rng(0))
    if OPS[row.op].kind != "pointwise" or not all(a.size for a in own[0]) or not any_size(row, own):
        return own
    usual = {tuple(a.dtype for a in xs): np.broadcast_arrays(*xs)
             for xs in own if all(a.size for a in xs)}
    return own + [xs for n, arrays in enumerate(usual.values()) for xs in variants(arrays, n)]


def any_size(row: Row, own: list[tuple[Any, ...]]) -> bool:
    """Whether the row and its reference take other shapes than their own."""
    try:
        usual = np.broadcast_arrays(*own[0])
        with np.errstate(all="ignore"):
            for shape in ((0,), (2, 3)):
                arrays = [np.resize(a, shape) for a in usual]
                row.call(*tensors(arrays))
                if np.shape(row.reference(*map(wide, arrays))) != shape:
                    return False
    except (ValueError, TypeError, IndexError, fw.FusewireError):
        return False
    return True


def variants(arrays: Any, number: int) -> Iterator[tuple[Any, ...]]:
    """The numbers of these arrays in several sizes and layouts; which ones, `number` says."""
    for size in SIZES[number % 3::3]:
        yield tuple(np.resize(a, size) for a in arrays)
    for layout in list(LAYOUTS.values())[number % 2::2]:
        first, *others = (np.resize(a, 120) for a in arrays)
        yield (layout(first), *map(layout, others))
        yield (layout(first), *(np.resize(a, layout(first).shape) for a in others))


def every_call(call: Callable[..., Any]) -> Callable[..., Any]:
    """Calls with each of the inputs, as one recording."""
    return lambda given: [call(*xs) for xs in given]


def assert_close(row: Row, inputs: tuple[Any, ...], got: Any) -> None:
    """The result is NumPy's in float64, within the row's tolerance."""
    with np.errstate(all="ignore"):
        expected = np.asarray(row.reference(*[wide(a) for a in inputs]))
        expected = expected.astype(got.dtype) if got.dtype.kind in "fc" else expected
    half = got.dtype.itemsize <= (8 if got.dtype.kind == "c" else 4)
    bound = row.tolerance if half else row.tolerance * 1e-5
    np.testing.assert_allclose(got, expected, bound, bound, err_msg=f"{row} {inputs}")


def wide(a: Any) -> Any:
    return a.astype({"f": np.float64, "c": np.complex128}.get(a.dtype.kind, a.dtype))


@pytest.mark.skipif(not X86, reason="this processor runs no code for x86")
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("row", sample(ROWS, 20), ids=str)
def test_ops_give_what_numpy_gives(
    row: Row, cpu: str, many_tasks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fw.settings, "cpu", cpu)
    inputs = inputs_of(row)
    given = [tensors(arrays) for arrays in inputs]
    compiled = fw.compile(every_call(row.call), fullgraph=True)
    compiled(given)  # records
    results = []
    for count in (1, 2):
        fw.set_num_threads(count)
        results.append([out.numpy() for out in compiled(given)])
    for arrays, one, two in zip(inputs, *results):
        assert_close(row, arrays, one)
        np.testing.assert_array_equal(one, two, "the number of threads changes the result")


@pytest.mark.skipif(not X86, reason="this processor runs no code for x86")
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", sample(list(FLOATS), 12))
def test_float16_with_instructions_for_it_and_without(name: str, cpu: str) -> None:
    graph, arrays = FLOATS[name].graph(33, "float16")
    wanted = evaluate(graph, arrays)
    for got, expected in zip(compile_graph(graph, named(cpu))(list(arrays)), wanted):
        assert_same(got, expected)
