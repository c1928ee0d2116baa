"""Launch plans, on a device that only notes them: what is launched in which order, where it reads
and writes, and in as many blocks of as many threads as there are tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled_for_cuda import compile_on
from fake_device import FakeDevice

import fusewire as fw
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.capture.graph.graph_builder import build
from fusewire.codegen.cuda.module import CudaFunction
from fusewire.codegen.cuda.runtime.protocol import MemoryRange
from fusewire.eager.arrays.shapes import TensorType

F32 = np.dtype("float32")
Noted = list[tuple[CudaFunction, list[MemoryRange]]]


def softmax_of_product(x: Any, w: Any) -> Any:
    return fw.softmax(fw.tanh(x @ w), axis=-1)


def two_products(x: Any, w: Any) -> Any:
    """Between its products is one temporary."""
    return fw.exp(x @ w) @ w


def in_turn(x: Any, w: Any) -> Any:
    for _ in range(4):
        y = x @ w
        x = y / fw.linalg.vector_norm(y, axis=-1, keepdims=True)
    return x


def table_lookup(x: Any, w: Any) -> Any:
    """It has a constant."""
    return x @ w + fw.tensor(np.arange(96, dtype=np.float32))


FUNCTIONS = [softmax_of_product, two_products, in_turn, table_lookup]
every = pytest.mark.parametrize("fn", FUNCTIONS)
INPUTS = [np.ones((64, 96), F32), np.ones((96, 96), F32)]


def noted(fn: Any) -> tuple[FakeDevice, list[Any], list[Any]]:
    """A device with the launches of a call, its constants, and its results."""
    nodes = Nodes()
    inputs = tuple(nodes.input(n, TensorType(a.shape, F32)) for n, a in zip("xw", INPUTS))
    device = FakeDevice()
    program = compile_on(Graph(inputs, (build(nodes, fn, inputs, {}),)), device)
    return device, program._constants, program(list(INPUTS))


def written(function: CudaFunction, regions: list[MemoryRange]) -> list[MemoryRange]:
    own = [(k, b) for k in function.kernels for b in k.arguments]
    return [r for (k, b), r in zip(own, regions) if b in k.outputs]


def read(function: CudaFunction, regions: list[MemoryRange]) -> list[MemoryRange]:
    own = [(k, b) for k in function.kernels for b in k.arguments]
    return [r for (k, b), r in zip(own, regions) if b in k.inputs]


def span(region: MemoryRange) -> tuple[int, int, int]:
    """The array, and the bytes in it from where to where."""
    return id(region.array), region.offset, region.offset + region.size * region.dtype.itemsize


def overlap(a: MemoryRange, b: MemoryRange) -> bool:
    (x, start, end), (y, first, last) = span(a), span(b)
    return x == y and start < last and first < end


@every
def test_what_is_read_was_given_or_written_before(fn: Any) -> None:
    device, constants, _ = noted(fn)
    known = {id(a): [(0, a.nbytes)] for a in [*INPUTS, *constants]}
    for function, regions in device.launches:
        for region in read(function, regions):
            array, start, end = span(region)
            assert any(a <= start and end <= b for a, b in known.get(array, [])), function.name
        for region in written(function, regions):
            array, start, end = span(region)
            known.setdefault(array, []).append((start, end))


@every
def test_all_lies_inside_of_its_array_and_starts_where_pieces_do(fn: Any) -> None:
    for function, regions in noted(fn)[0].launches:
        for region in regions:
            assert 0 <= region.offset and span(region)[2] <= region.array.nbytes, function.name
            assert region.offset % 16 == 0


@every
def test_a_launch_does_not_write_over_what_it_reads(fn: Any) -> None:
    """Each argument is another one, so those that overlap are two buffers in one place."""
    for function, regions in noted(fn)[0].launches:
        for out in written(function, regions):
            assert [r for r in regions if overlap(r, out)] == [out], function.name


@every
def test_inputs_are_left_alone_and_the_last_launch_gives_the_result(fn: Any) -> None:
    device, constants, (result,) = noted(fn)
    given = {id(a) for a in [*INPUTS, *constants]}
    for function, regions in device.launches:
        assert all(id(r.array) not in given for r in written(function, regions))
    last = written(*device.launches[-1])
    assert any(r.array is result or r.array is result.base for r in last)


@every
def test_there_are_threads_for_every_task(fn: Any) -> None:
    for function, _ in noted(fn)[0].launches:
        assert 1 <= function.block <= 1024 and function.block % 32 == 0
        tasks = sum(k.tasks for k in function.kernels)
        assert 1 <= function.grid <= tasks <= function.grid * function.block


def test_the_same_work_is_the_same_function() -> None:
    device, _, _ = noted(in_turn)
    names = [function.name for function, _ in device.launches]
    assert len(names) == 8 and len(set(names)) == 2 and names[:2] * 4 == names


def test_temporaries_take_each_others_places() -> None:
    """Four rounds need no more memory than one: two temporaries live at once."""
    device, _, _ = noted(in_turn)
    size = INPUTS[0].nbytes
    temporaries = {span(r)[1:] for f, regions in device.launches for r in written(f, regions)}
    arena = max((a for a in device.made if a.dtype == np.uint8), key=lambda a: a.nbytes)
    assert arena.nbytes <= 2 * size and len(temporaries) <= 3
