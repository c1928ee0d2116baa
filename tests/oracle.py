"""Runs a function or a graph by NumPy or by the loop interpreter, and compares results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fusewire as fw
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate_node
from fusewire.capture.replay.trace_call import record
from fusewire.capture.trace.value_table import ValueTable
from fusewire.codegen.compile import lower_graph
from fusewire.codegen.ir.loop_ir import KernelBuffer
from fusewire.codegen.ir.loop_ir_interpreter import run
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.lowering.lowering_table import CPU, LoweringTable

RELATIVE = {2: 4e-3, 4: 1e-5, 8: 1e-12}  # by size of the real dtype


def recorded(fn: Callable[..., Any], *args: Any) -> tuple[Graph, list[Any]]:
    """The graph of fn(*args), and the arrays of its inputs, in order."""
    names = ValueTable()
    trace = record(fn, args, {}, names)
    assert trace.exit is not None, trace.refusal
    assert not trace.path, f"a decision at {trace.path[0].site}"
    trace.exit.prepare(names, fn, frozenset(), lambda graph: graph)
    segment = trace.exit.segment
    return segment.graph, [t._data for t in segment.gather(args, {})[0]]


def interpreted(graph: Graph, arrays: Sequence[Any], machine: Machine | None = None,
                kinds: LoweringTable = CPU) -> list[Any]:
    """The graph's outputs, with its kernels run by the interpreter, tasks in reverse order."""
    plan, launches = lower_graph(graph, machine or Machine(), kinds=kinds)
    memory: dict[Any, Any] = {}
    for node, array in zip(plan.graph.inputs, arrays):
        memory[plan.buffers[node]] = np.array(array, order="C").reshape(-1)
    for node in plan.constants:
        memory[plan.buffers[node]] = np.ascontiguousarray(evaluate_node(node, [])).reshape(-1)
    for buffer in (*plan.buffers.values(), *(p.buffer for x in launches for p in x.views)):
        if buffer not in memory:
            memory[buffer] = np.full(buffer.size, 77, buffer.dtype)
    for kernel, views in ((x.kernel, x.views) for x in launches):
        arrays = {b: part(memory[p.buffer], p.offset, b) for b,
                  p in zip(kernel.arguments, views)}
        run(kernel, arrays, order=range(kernel.tasks - 1, -1, -1))
    outputs = plan.graph.outputs[:plan.output_count]
    return [memory[plan.buffers[node]].reshape(shape) for node, shape in zip(outputs, plan.shapes)]


def part(array: Any, offset: int, buffer: KernelBuffer) -> Any:
    """The elements of a buffer that is stored in an array at an offset in elements."""
    start, size = offset * array.itemsize, buffer.size * buffer.dtype.itemsize
    return array.view(np.uint8)[start:start + size].view(buffer.dtype)


def assert_same(got: Any, expected: Any, loose: float = 1.0, where: str = "") -> None:
    """Asserts equal shapes, dtypes and values; floats may differ as much as reordered sums do."""
    got, expected = (np.asarray(x._data if isinstance(x, fw.Tensor) else x)
                     for x in (got, expected))
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype), where
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected, where)
        return
    relative = RELATIVE[got.real.dtype.itemsize] * loose
    finite = np.abs(expected[np.isfinite(expected)])
    near = relative * 0.1 * max(1.0, float(np.median(finite)) if finite.size else 0.0)
    np.testing.assert_allclose(got, expected, relative, near, err_msg=where)


def units_apart(got: Any, expected: Any) -> Any:
    """The distances of two arrays of a 16-bit float, in representable numbers; 0 between nans."""
    def counted(a: Any) -> Any:
        bits = np.atleast_1d(a).view(np.int16).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFF), bits)

    nans = np.isnan(got), np.isnan(expected)
    apart = np.abs(counted(got) - counted(expected)).reshape(np.shape(got))
    return np.where(nans[0] & nans[1], 0, np.where(nans[0] | nans[1], 1 << 16, apart))


def tensors(arrays: Sequence[Any], requires_grad: bool = False) -> list[fw.Tensor]:
    """Tensors over arrays. `requires_grad` is set for those of floats."""
    return [fw.from_numpy(a).requires_grad_(requires_grad and a.dtype.kind == "f") for a in arrays]
