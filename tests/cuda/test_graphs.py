"""Steps launched as a whole: graphs of calls whose arrays lie where those of earlier calls lay."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from compiled_for_cuda import compile_on
from emulated import EmulatedDevice

import fusewire as fw
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.capture.graph.graph_builder import build
from fusewire.codegen.cuda.module import CudaFunction
from fusewire.codegen.cuda.runtime.device_executable import DeviceExecutable
from fusewire.codegen.cuda.runtime.protocol import BufferAddresses, MemoryRange
from fusewire.codegen.gpu.gemm import library_pattern
from fusewire.eager.arrays.shapes import TensorType

F32 = np.dtype("float32")
X = np.random.default_rng(0).normal(size=(64, 64)).astype(F32)


class Steady(EmulatedDevice):
    """A device that gives the same memory for results on each call, and makes graphs; `seen` has
    what was launched, one by one or as a graph."""

    stream = 0

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[Any, list[Any]] = {}
        self.next: dict[Any, int] = {}
        self.seen: list[Any] = []
        self.noted: list[Any] | None = None

    def begin(self) -> None:
        self.next, self.seen = {}, []

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        key = shape, np.dtype(dtype)
        number = self.next[key] = self.next.get(key, -1) + 1
        known = self.given.setdefault(key, [])
        if len(known) <= number:
            known.append(super().empty(shape, dtype))
        return known[number]

    def load(self, source: str) -> Any:
        module = super().load(source)

        def launch(function: CudaFunction, arguments: Sequence[MemoryRange]) -> None:
            if self.noted is None:
                self.seen.append(function.name)
                module.launch(function, arguments)
            else:
                self.noted.append((module, function, arguments))

        return SimpleNamespace(launch=launch)

    def addresses(self, arrays: Sequence[Any]) -> BufferAddresses:
        return BufferAddresses(self.stream, tuple(a.ctypes.data for a in arrays))

    def capture(self, work: Any, arrays: Sequence[Any]) -> Any:
        self.noted = []
        work()
        noted, self.noted = self.noted, None

        def launch() -> None:
            self.seen.append([function.name for _, function, _ in noted])
            for module, *how in noted:
                module.launch(*how)

        return SimpleNamespace(launch=launch)


def in_turn(x: fw.Tensor, scale: fw.Tensor) -> fw.Tensor:
    for _ in range(5):
        x = fw.softmax(x * scale, axis=-1).T
    return x


def products(x: fw.Tensor, scale: fw.Tensor) -> fw.Tensor:
    return in_turn(in_turn(x, scale) @ x, scale)


def compiled(fn: Any, device: Steady) -> DeviceExecutable:
    nodes = Nodes()
    inputs = nodes.input("x", TensorType(X.shape, F32)), nodes.input("s", TensorType((), F32))
    return compile_on(Graph(inputs, (build(nodes, fn, inputs, {}),)), device, numbers=[1])


def call(program: DeviceExecutable, x: Any, scale: float) -> tuple[Any, list[Any]]:
    """The result, and what was launched."""
    device: Any = program.device
    device.begin()
    (out,) = program([x, np.asarray(scale, F32)])
    return out, device.seen


def want(fn: Any, x: Any, scale: float) -> Any:
    return fn(fw.tensor(x), fw.tensor(scale)).numpy()


def test_what_is_met_again_is_one_graph_that_reads_new_numbers() -> None:
    program = compiled(in_turn, Steady())
    for n in range(4):
        out, seen = call(program, X, n + 1.0)
        np.testing.assert_allclose(out, want(in_turn, X, n + 1.0), 1e-5, 1e-6)
        names = [f.name for f in program.program.module.functions]
        steps = [names[s.function] for s in program.program.steps]
        assert seen == (steps if n == 0 else [steps])


def test_other_addresses_are_launched_one_by_one_first() -> None:
    program, other = compiled(in_turn, Steady()), X.copy()
    for x, graphs in [(X, False), (other, False), (X, True), (other, True), (X, True)]:
        out, seen = call(program, x, 2.0)
        assert (type(seen[0]) is list) == graphs
        np.testing.assert_allclose(out, want(in_turn, x, 2.0), 1e-5, 1e-6)


def test_each_stream_works_in_memory_of_its_own() -> None:
    device = Steady()
    program = compiled(in_turn, device)
    for device.stream in (0, 1) * 3:
        _, seen = call(program, X, 2.0)
    assert len(seen) == 1 and len(program._replay._memory) == 2


def test_a_library_stands_between_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_pattern, "MIN_LIBRARY_OPERATIONS", 0)
    program = compiled(products, Steady())
    steps = program.program.steps
    functions = [program.program.module.functions[s.function] for s in steps]
    (library,) = [i for i, f in enumerate(functions) if f.product is not None]
    names = [f.name for f in functions]
    for _ in range(3):
        out, seen = call(program, X, 3.0)
    assert seen == [names[:library], names[library], names[library + 1:]]
    np.testing.assert_allclose(out, want(products, X, 3.0), 1e-4, 1e-5)


def test_graphs_that_are_not_met_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(in_turn, Steady())
    graphs = program._replay._graphs
    graphs.policy = graphs.policy._replace(limit=2)
    arrays = [X.copy() for _ in range(3)]
    for x in [y for a in arrays for y in (a, a)]:
        call(program, x, 1.0)
    assert len(graphs) == 2 and graphs.evicted == 1
    for x in [y for a in [X.copy() for _ in range(3)] for y in (a,)]:
        assert type(call(program, x, 1.0)[1][0]) is str
