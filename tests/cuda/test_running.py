"""Kernels on a device: values, memory, graphs; and what the driver says of them."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from compiled_for_cuda import compile_on
from emulated import EmulatedDevice
from gpus import GPU

import fusewire as fw
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.capture.graph.graph_builder import build
from fusewire.codegen.cuda.module import CudaFunction
from fusewire.codegen.cuda.runtime.device_executable import DeviceExecutable
from fusewire.codegen.cuda.runtime.protocol import MemoryRange
from fusewire.codegen.ir.loop_ir import Kernel, Var
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.cuda.cupy_kernels import cupy


class Emulated(EmulatedDevice):
    """The emulator with what programs on a GPU do beside calls."""

    launches: list[Any] | None = None  # of the graph that is made now

    def load(self, source: str) -> Any:
        return SimpleNamespace(launch=functools.partial(self._launch, super().load(source)))

    def _launch(self, module: Any, *how: Any) -> None:
        if self.launches is None:
            module.launch(*how)
        else:
            self.launches.append(functools.partial(module.launch, *how))

    def download(self, array: Any) -> Any:
        return array.copy()

    def capture(self, work: Any, arrays: Any) -> Any:
        self.launches = []
        work()
        noted, self.launches = self.launches, None
        return SimpleNamespace(launch=lambda: [launch() for launch in noted])


F32 = np.dtype("float32")
REVERSED = """
extern "C" __global__ void __launch_bounds__(1024) turned(float* x) {
    extern __shared__ float all[];
    for (int i = threadIdx.x; i < 40000; i += 1024) all[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < 40000; i += 1024) x[i] = all[39999 - i];
}
"""
NO_LOOPS = Kernel("turned", (), (), (), Var("task"), 1, ())
TURNED = CudaFunction("turned", (NO_LOOPS,), 1, 1024, 0, 160_000)


@pytest.fixture(scope="module")
def device(make_device: Any) -> Any:
    return Emulated(mode="fast") if make_device is EmulatedDevice else make_device()


def compiled(fn: Any, device: Any, *arrays: Any) -> DeviceExecutable:
    nodes = Nodes()
    inputs = tuple(nodes.input(f"x{i}", TensorType(a.shape, a.dtype)) for i, a in enumerate(arrays))
    return compile_on(Graph(inputs, (build(nodes, fn, inputs, {}),)), device)


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(F32)


FUNCTIONS: dict[str, Any] = {
    "pointwise": lambda x, w: fw.tanh(x) * 2 + x,
    "rows": lambda x, w: fw.softmax(x, axis=-1),
    "columns": lambda x, w: fw.sum(x * x, axis=0),
    "product": lambda x, w: fw.exp(x @ w * 0.1),
    "several": lambda x, w: fw.softmax(fw.softmax(x @ w, axis=-1) @ w, axis=-1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rows", [1, 33, 400])
def test_values_are_those_of_the_cpu(device: Any, name: str, rows: int) -> None:
    arrays = numbers(rows, 257), numbers(257, 257)
    program = compiled(FUNCTIONS[name], device, *arrays)
    wanted = FUNCTIONS[name](*map(fw.tensor, arrays)).numpy()
    found = [device.download(program([device.upload(a) for a in arrays])[0]) for _ in range(2)]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_large_products_in_every_layout(device: Any, turned: tuple[bool, bool]) -> None:
    """On a GPU, cuBLAS computes these."""
    def fn(x: Any, w: Any) -> Any:
        return (fw.matrix_transpose(x) if turned[0] else x) @ (
            fw.matrix_transpose(w) if turned[1] else w)

    shapes = [(257, 512), (512, 513)]
    x, w = (numbers(*(s[::-1] if t else s)) for s, t in zip(shapes, turned))
    program = compiled(fn, device, x, w)
    assert [s.product is not None for s in program.program.module.functions] == [True]
    wanted = (x.T if turned[0] else x).astype(np.float64) @ (w.T if turned[1] else w)
    found = device.download(program([device.upload(a) for a in (x, w)])[0])
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_inputs_may_lie_anywhere(device: Any) -> None:
    """Transposed, and at an address where no 16 bytes can be read at once."""
    arrays = numbers(256, 256), numbers(256, 256)
    program = compiled(lambda x, w: x - w, device, *arrays)
    turned = device.upload(arrays[0]).T
    behind = device.upload(numbers(256 * 256 + 1))[1:].reshape(256, 256)
    wanted = device.download(turned) - device.download(behind)
    np.testing.assert_array_equal(device.download(program([turned, behind])[0]), wanted)


def test_a_block_can_have_more_than_48_kib(device: Any) -> None:
    x = numbers(40000)
    array = device.upload(x)
    device.load(REVERSED).launch(TURNED, [MemoryRange(array, 0, F32, x.size)])
    np.testing.assert_array_equal(device.download(array), x[::-1])


def test_a_graph_runs_what_was_launched(device: Any) -> None:
    x = numbers(40000)
    array, module = device.upload(x), device.load(REVERSED)
    region = MemoryRange(array, 0, F32, x.size)
    module.launch(TURNED, [region])

    def three_times() -> None:
        for _ in range(3):
            module.launch(TURNED, [region])

    graph = device.capture(three_times, [array])
    np.testing.assert_array_equal(device.download(array), x[::-1])  # the capture ran nothing
    graph.launch()
    np.testing.assert_array_equal(device.download(array), x)
    graph.launch()
    np.testing.assert_array_equal(device.download(array), x[::-1])


@pytest.mark.parametrize("make_device", [GPU], indirect=True)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_driver_finds_what_the_compiler_said(device: Any, name: str) -> None:
    """How many registers a kernel takes, and so how many of its threads a block can have."""
    program = compiled(FUNCTIONS[name], device, numbers(400, 257), numbers(257, 257)).program
    loaded, driver = device.load(program.module.source), cupy().cuda.driver
    for function in program.module.functions:
        kernel, said = loaded._module.get_function(function.name), loaded.resources[function.name]
        found = {name: driver.funcGetAttribute(getattr(driver, f"CU_FUNC_ATTRIBUTE_{name}"),
                                               kernel.ptr)
                 for name in ("NUM_REGS", "MAX_THREADS_PER_BLOCK")}
        assert found["NUM_REGS"] == said.registers and said.spill_stores == 0, function.name
        assert found["MAX_THREADS_PER_BLOCK"] >= function.block
