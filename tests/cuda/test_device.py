"""A GPU through CuPy: what is asked of it, with something in CuPy's place that notes it."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from noting_cupy import FakeCupy

import fusewire as fw
from fusewire.codegen.cuda.module import CudaFunction
from fusewire.codegen.cuda.runtime.autotune import TimedChoice
from fusewire.codegen.cuda.runtime.device import CupyDevice, gpu
from fusewire.codegen.cuda.runtime.protocol import Device, MemoryRange
from fusewire.codegen.gpu.cost_model import CHIPS, CandidateChoice
from fusewire.codegen.ir.loop_ir import Kernel, KernelBuffer, Matrix, Product, Var
from fusewire.eager.cuda.device import CUDA
from fusewire.eager.settings import settings

needs_nvrtc = pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")

SOURCE = """
extern "C" __global__ void __launch_bounds__(32) doubled(const float* x, float* y) {
    y[threadIdx.x] = x[threadIdx.x] * 2.0f;
}
extern "C" __global__ void __launch_bounds__(32) wide(float* x) {
    extern __shared__ float row[];
    __shared__ float own[1024];
    row[threadIdx.x] = own[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = row[31 - threadIdx.x] + own[31 - threadIdx.x];
}
"""
FLOAT = np.dtype(np.float32)
ANY = Kernel("any", (), (), (), Var("task"), 1, ())  # whose loops no device looks at


@pytest.fixture
def cupy() -> FakeCupy:
    return FakeCupy()


@pytest.fixture
def device(cupy: FakeCupy) -> CupyDevice:
    return CupyDevice(cupy, 1)


def function(name: str = "doubled", grid: int = 4, block: int = 32,
             shared: int = 0) -> CudaFunction:
    return CudaFunction(name, (ANY,), grid, block, 0, shared)


@needs_nvrtc
def test_a_product_is_cublas(cupy: FakeCupy, device: CupyDevice) -> None:
    x, y, out = (KernelBuffer(name, FLOAT, size) for name, size in zip("xyo", (6, 8, 12)))
    product = Product(Matrix(x, 0, 0, 2, 1), Matrix(y, 0, 0, 1, 2), Matrix(out, 0, 0, 4, 1),
                      1, 3, 4, 2)  # the second one turned
    kernel = Kernel("product", (x, y), (out,), (), Var("task"), 1, (), product=product)
    module, arrays = device.load(SOURCE), [device.empty((b.size,), FLOAT) for b in (x, y, out)]
    cupy.calls.clear()
    module.launch(CudaFunction("doubled", (kernel,), 4, 32, 0),
                  [MemoryRange(a, 0, FLOAT, a.shape[0]) for a in arrays])
    (call,) = cupy.calls
    first, second, to = (a.data.ptr for a in arrays)
    assert call[:7] == ("multiply", "handle", 1, 0, 4, 3, 2)
    assert call[8:16] == (second, 0, 2, 0, first, 0, 2, 0)
    assert call[17:] == (to, 0, 4, 0, 1, 68, -1)


def test_a_gpu_tells_what_it_is(device: CupyDevice) -> None:
    found: Device = device
    assert found is device
    assert (device.arch, device.multiprocessors, device.shared_limit) == ("sm_90", 132, 227 << 10)
    assert device.name == "NVIDIA H100"


@needs_nvrtc
def test_a_source_is_loaded_once_on_its_gpu(cupy: FakeCupy, device: CupyDevice) -> None:
    held = device.load(SOURCE)
    assert device.load(SOURCE) is held and cupy.calls == [("load", "device 1")]
    assert set(held.resources) == {"doubled", "wide"}
    del held
    device.load(SOURCE)
    assert len(cupy.calls) == 2


@needs_nvrtc
def test_a_kernel_gets_addresses(cupy: FakeCupy, device: CupyDevice) -> None:
    module, x, arena = device.load(SOURCE), device.empty((32,), FLOAT), device.empty((512,), FLOAT)
    for _ in range(2):
        module.launch(function(), [MemoryRange(x, 0, FLOAT, 32),
                                   MemoryRange(arena, 256, FLOAT, 32)])
    assert cupy.calls[-2:] == [("doubled", (4,), (32,), 0, x.data.ptr, arena.data.ptr + 256)] * 2


@needs_nvrtc
@pytest.mark.parametrize(("shared", "asks"), [(0, False), (44 << 10, False), (45 << 10, True),
                                              (223 << 10, True)])
def test_much_shared_memory_is_asked_for(
    cupy: FakeCupy, device: CupyDevice, shared: int, asks: bool
) -> None:
    """The kernel has 4 KiB of its own, and 48 KiB need no leave."""
    device.load(SOURCE).launch(function("wide", shared=shared), [])
    assert cupy.calls[-1] == ("wide", (4,), (32,), shared)
    assert (("allow", 77, 8, shared) in cupy.calls) is asks


@needs_nvrtc
@pytest.mark.parametrize(("launched", "message"), [
    (function(grid=2**31), "doubled is launched with 2147483648 blocks of 32 threads"),
    (function(block=1025), "blocks of 1025 threads"),
    (function(block=0), "blocks of 0 threads"),
    (function("wide", shared=224 << 10), "wide needs 233472 bytes of shared memory; .* 232448"),
])
def test_what_no_gpu_takes_is_refused(
    device: CupyDevice, launched: CudaFunction, message: str
) -> None:
    with pytest.raises(fw.CodegenError, match=message):
        device.load(SOURCE).launch(launched, [])


@needs_nvrtc
def test_an_empty_grid_runs_nothing(cupy: FakeCupy, device: CupyDevice) -> None:
    """CuPy would run one block."""
    device.load(SOURCE).launch(function(grid=0), [])
    assert cupy.calls == [("load", "device 1")]


def test_a_graph_is_captured_on_a_stream_of_its_own(cupy: FakeCupy, device: CupyDevice) -> None:
    graph = device.capture(lambda: cupy.note("work", *cupy.inside), [])
    inside = "device 1", "stream"
    assert cupy.calls == [("begin", *inside), ("work", *inside), ("end",)]
    graph.launch()
    assert cupy.calls[-1] == ("graph", "device 1")


def test_a_capture_that_fails_ends(cupy: FakeCupy, device: CupyDevice) -> None:
    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        device.capture(work, [])
    assert cupy.calls[-1] == ("end",) and cupy.inside == []


def test_time_is_that_of_a_graph_between_events(cupy: FakeCupy, device: CupyDevice) -> None:
    """Of 20 turns, so that launches by Python are not part of it, after one that loads the code."""
    assert device.seconds(lambda: cupy.note("work", *cupy.inside[:1])) == 40e-3 / 20
    work = ("work", "device 1")
    assert cupy.calls[0] == work and cupy.calls.count(work) == 21
    timed = cupy.calls[cupy.calls.index(("end",)) + 1:]
    graph = ("graph", "device 1", "device 1")
    assert timed == [("event",), graph, ("event",), ("wait", "event")] * 3


def test_the_setting_says_whether_ways_are_timed(
    device: CupyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(device.choice, TimedChoice)
    monkeypatch.setattr(settings, "tune", False)
    assert device.choice == CandidateChoice(CHIPS[90])


def test_arrays_come_and_go(cupy: FakeCupy, device: CupyDevice) -> None:
    array = device.upload(np.ones((2, 3), FLOAT)[:, ::2])
    assert array.shape == (2, 2) == device.download(array).shape
    device.synchronize()
    assert cupy.calls[-1] == ("wait", "default")


def test_what_kernels_cannot_read_as_it_is_is_copied(device: CupyDevice) -> None:
    array = device.empty((8,), FLOAT)
    assert device.ready(array) is array
    array.flags.c_contiguous = False  # as one that is transposed
    assert device.ready(array) is not array
    slice = device.empty((8,), FLOAT)
    slice.data.ptr += 4  # as x[1:]
    assert device.ready(slice).data.ptr % 16 == 0


def test_without_a_gpu_the_error_says_what_is_missing() -> None:
    if CUDA.count():
        assert gpu().arch.startswith("sm_")
    else:
        with pytest.raises(fw.DeviceError, match=re.escape(CUDA.missing().why_not)):
            gpu()


def test_an_array_is_free_that_one_tensor_holds(device: CupyDevice) -> None:
    arrays = [device.empty((4,), FLOAT) for _ in range(4)]
    tensors = [fw.Tensor(a) for a in arrays]
    again, begin, memory = arrays[1], arrays[2].data, arrays[3].data.mem  # as views have them
    assert [device.is_free(arrays, i) for i in range(4)] == [True, False, False, False]
    del again, begin, memory
    assert [device.is_free(arrays, i) for i in range(4)] == [True] * 4
    assert len(tensors) == 4


def test_places_are_addresses_and_the_stream(device: CupyDevice) -> None:
    arrays = [device.empty((4,), FLOAT) for _ in range(2)]
    assert device.addresses(arrays) == (7, tuple(a.data.ptr for a in arrays))


def test_numbers_are_written_into_an_array(cupy: FakeCupy, device: CupyDevice) -> None:
    array = device.empty((2,), FLOAT)
    device.write(array, np.array([1.0, 2.0], FLOAT))
    assert cupy.calls[-1] == ("set", array.data.ptr, 1.0, 2.0)
