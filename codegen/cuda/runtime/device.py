"""A GPU through CuPy: the only module in which generated kernels are passed to CuPy.

Kernels run on CuPy's current stream, one after the other. Only `download` and `synchronize`
wait for them. CuPy is imported when a GPU is first requested.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from ....eager.arrays import devices
from ....eager.core.tensor import Tensor
from ....eager.cuda.cupy_kernels import cupy
from ....eager.cuda.device import CUDA
from ....eager.errors import CodegenError
from ....eager.settings import settings
from ...gpu.cost_model import CandidateChoice, chip_of
from ...ir.loop_ir import KernelBuffer, Product
from ..module import CudaFunction
from . import blas, cubin_cache
from .autotune import TimedChoice
from .nvrtc import CompiledModule
from .protocol import Array, BufferAddresses, DeviceLaunch, MemoryRange

MAX_GRID_BLOCKS = 2**31 - 1  # of a grid
MAX_BLOCK_THREADS = 1024  # of a block
STATIC_SHARED_LIMIT = 48 << 10  # bytes of a block that need no leave
ALIGNMENT_BYTES = 16  # bytes that kernels move at once
TIMED_REPEATS = 20  # times that something runs to be timed


@functools.cache
def gpu(number: int = 0) -> CupyDevice:
    """The GPU of a number. Raises DeviceError, with what to install, if CuPy or a driver is
    missing."""
    devices.load(CUDA.name)
    return CupyDevice(cupy(), number)


class CupyDevice:
    """A GPU: its name, architecture (such as "sm_90"), multiprocessors, and limits.

    `shared_limit` is in bytes per block, `bandwidth` in bytes per second (memory transfers data
    on both clock edges)."""

    def __init__(self, cupy: Any, number: int = 0) -> None:
        self._cupy, self._device = cupy, cupy.cuda.Device(number)
        attributes = self._device.attributes
        self.name: str = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
        self.arch = f"sm_{self._device.compute_capability}"
        self.multiprocessors: int = attributes["MultiProcessorCount"]
        self.shared_limit: int = attributes["MaxSharedMemoryPerBlockOptin"]
        clock_khz, bus_bits = attributes["MemoryClockRate"], attributes["GlobalMemoryBusWidth"]
        self.bandwidth = 2e3 * clock_khz * bus_bits / 8
        self._cuda = cupy.cuda.runtime.driverGetVersion() // 1000
        self._modules: WeakValueDictionary[str, CupyModule] = WeakValueDictionary()

    @property
    def choice(self) -> CandidateChoice:
        """The policy that chooses between candidate kernels: measured times, unless the setting
        `tune` is off."""
        chip = chip_of(self.arch, self.multiprocessors)
        if not settings.tune:
            return CandidateChoice(chip)
        return TimedChoice(chip, device=self, name=self.name)

    def load(self, source: str) -> CupyModule:
        """The kernels of a source, compiled or cached; the module stays on the GPU while it is
        referenced. Raises CodegenError if the source is invalid."""
        module = self._modules.get(source)
        if module is None:
            compiled_module = CupyModule(self._cupy, self._device, self.shared_limit,
                                         cubin_cache.compile_cached(source, self.arch,
                                                                    newest=self._cuda))
            module = self._modules.setdefault(source, compiled_module)
        return module

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialized array in CuPy's memory pool, aligned to 512 bytes."""
        with self._device:
            return self._cupy.empty(shape, dtype)

    def upload(self, array: Any) -> Array:
        """A copy of a NumPy array on the GPU."""
        with self._device:
            return self._cupy.asarray(np.asarray(array, order="C"))

    def download(self, array: Array) -> Any:
        """A copy of a GPU array as a NumPy array, once it is computed."""
        with self._device:
            return self._cupy.asnumpy(array)

    def copy(self, array: Array) -> Array:
        """A copy of an array in memory of its own."""
        with self._device:
            return self._cupy.array(array, order="C")

    def write(self, array: Array, values: Any) -> None:
        """Copies a NumPy array into a GPU array, after all earlier launches."""
        with self._device:
            array.set(values)

    def is_free(self, arrays: list[Array], which: int) -> bool:
        """True if nothing but this list and one tensor refers to an array of the list or to its
        memory."""
        return _reference_counts(arrays, which) == self._unshared_counts

    @functools.cached_property
    def _unshared_counts(self) -> tuple[int, ...]:
        """The reference counts of an array that nothing else refers to."""
        arrays = [self.empty((1,), np.uint8)]
        _tensor = Tensor(arrays[0])
        return _reference_counts(arrays, 0)

    def addresses(self, arrays: Sequence[Array]) -> BufferAddresses:
        """CuPy's current stream and the addresses of arrays."""
        with self._device:
            stream = self._cupy.cuda.get_current_stream().ptr
        return BufferAddresses(stream, tuple([a.data.ptr for a in arrays]))

    def ready(self, array: Array) -> Array:
        """The array in the layout that kernels read: contiguous and aligned for vector accesses.
        Copies only if needed."""
        if array.flags.c_contiguous and array.data.ptr % ALIGNMENT_BYTES == 0:
            return array
        return self.copy(array)

    def seconds(self, work: DeviceLaunch, graph: bool = True) -> float:
        """The time that the GPU takes for the launches of `work`: the minimum of several
        measurements.

        The launches are repeated within one graph if possible, so that the GPU never waits for
        Python."""

        def repeat_work() -> None:
            for _ in range(TIMED_REPEATS):
                work()

        with self._device:
            work()  # loads the kernels that it launches
            launch = self.capture(repeat_work, []).launch if graph else repeat_work
            return min(self._elapsed(launch) for _ in range(3)) / TIMED_REPEATS

    def _elapsed(self, launch: DeviceLaunch) -> float:
        cuda = self._cupy.cuda
        begin, end = cuda.Event(), cuda.Event()
        begin.record()
        launch()
        end.record()
        end.synchronize()
        return float(cuda.get_elapsed_time(begin, end)) * 1e-3

    def synchronize(self) -> None:
        """Waits until all that was launched is done."""
        with self._device:
            self._cupy.cuda.get_current_stream().synchronize()

    def capture(self, work: DeviceLaunch, arrays: Sequence[Array]) -> CupyGraph:
        """The launches of `work` as a graph; nothing runs now.

        The graph uses the present addresses of the arguments and keeps `arrays` alive, which
        are all that it uses. `work` must only launch: an allocation made by it could be reused
        by others. All of its kernels must have been launched before."""
        with self._device:
            stream = self._cupy.cuda.Stream(non_blocking=True)  # the default stream cannot capture
            with stream:
                stream.begin_capture()
                try:
                    work()
                except BaseException:
                    with contextlib.suppress(Exception):  # work's own error says more
                        stream.end_capture()
                    raise
                return CupyGraph(self._device, stream.end_capture(), tuple(arrays))


class CupyModule:
    """Code loaded into a GPU, with the resources of each of its kernels."""

    def __init__(self, cupy: Any, device: Any, shared_limit: int, compiled: CompiledModule) -> None:
        self.resources = compiled.resources
        self._cupy, self._device = cupy, device
        self._driver, self._shared_limit = cupy.cuda.driver, shared_limit
        self._functions: dict[str, Any] = {}
        with device:
            self._module = cupy.cuda.Module()
            self._module.load(compiled.cubin)

    def launch(self, function: CudaFunction, arguments: Sequence[MemoryRange]) -> None:
        """Launches a function after all earlier launches. Raises CodegenError if it exceeds the
        limits of GPUs, since CuPy would truncate such sizes."""
        if function.grid == 0:  # CuPy would make it 1
            return
        with self._device:
            product = function.product
            if product is not None:
                addresses = dict(zip(function.arguments, map(_address_of, arguments)))
                self._multiply(product, addresses)
                return
            kernel = self._functions.get(function.name)
            if kernel is None:
                kernel = self._functions.setdefault(function.name, self._kernel(function))
            # CuPy hands Python's ints over as 8 bytes.
            kernel((function.grid,), (function.block,), [_address_of(a) for a in arguments],
                   function.shared)

    def _multiply(self, product: Product, addresses: dict[KernelBuffer, int]) -> None:
        """Computes a matrix product by cuBLAS."""
        handle = self._cupy.cuda.device.get_cublas_handle()
        arguments = blas.blas_call_of(product, addresses).arguments
        self._cupy.cuda.cublas.gemmStridedBatchedEx(handle, *arguments)

    def _kernel(self, function: CudaFunction) -> Any:
        """A function of the module, with the shared memory limit that its launch needs."""
        static_shared = self.resources[function.name].shared
        check_launch(function, static_shared, self._shared_limit)
        kernel = self._module.get_function(function.name)
        if static_shared + function.shared > STATIC_SHARED_LIMIT:
            attribute = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.funcSetAttribute(kernel.ptr, attribute, function.shared)
        return kernel


class CupyGraph(NamedTuple):
    """A captured graph, and the arrays that its launches use."""

    device: Any
    graph: Any
    arrays: tuple[Array, ...]

    def launch(self) -> None:
        """Launches the graph after all earlier launches."""
        with self.device:
            self.graph.launch()


def _reference_counts(arrays: list[Array], which: int) -> tuple[int, ...]:
    """The reference counts of an array of a list, of its pointer, and of its memory, which other
    arrays may share."""
    return (sys.getrefcount(arrays[which]), sys.getrefcount(arrays[which].data),
            sys.getrefcount(arrays[which].data.mem))


def check_launch(function: CudaFunction, static_shared: int, limit: int) -> None:
    """Raises CodegenError if a launch exceeds the limits of GPUs. `static_shared` is in the
    kernel's code, `limit` is the device's maximum per block."""
    if not 0 < function.grid <= MAX_GRID_BLOCKS or not 0 < function.block <= MAX_BLOCK_THREADS:
        raise CodegenError(f"{function.name} is launched with {function.grid} blocks of "
                           f"{function.block} threads; a GPU runs at most {MAX_GRID_BLOCKS} of "
                           f"{MAX_BLOCK_THREADS}")
    if static_shared + function.shared > limit:
        raise CodegenError(f"{function.name} needs {static_shared + function.shared} bytes of "
                           f"shared memory; a block has at most {limit}")


def _address_of(memory: MemoryRange) -> int:
    """The address of a range of memory on the GPU."""
    return int(memory.array.data.ptr) + memory.offset
