"""A GPU through CuPy: the only place where generated kernels meet it.

Kernels run on CuPy's current stream, one after the other, and nothing here waits for them but
`download` and `synchronize`. Nothing imports CuPy before somebody asks for a GPU.
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
from ....eager.errors import CodegenError
from ....eager.settings import settings
from ...gpu.cost_model import Choice, chip_of
from ...ir.loop_ir import Buffer, Product
from ..module import CudaFunction
from . import blas, cubin_cache
from .autotune import TimedChoice
from .nvrtc import CompiledModule
from .protocol import Array, BufferPlaces, Launch, Region

_BLOCKS = 2**31 - 1  # of a grid
_THREADS = 1024  # of a block
_SHARED = 48 << 10  # bytes of a block that need no leave
_ALIGN = 16  # bytes that kernels move at once
_TIMED = 20  # times that something runs to be timed


@functools.cache
def gpu(number: int = 0) -> CupyDevice:
    """The GPU of a number. DeviceError, with what to install, where CuPy or a driver is missing."""
    return CupyDevice(devices.cupy(), number)


class CupyDevice:
    """A GPU by its number: its name, its architecture (such as "sm_90"), its multiprocessors, the
    bytes of shared memory that a block can have, and those that its memory, which works on both
    edges of its clock, can move in a second."""

    def __init__(self, cupy: Any, number: int = 0) -> None:
        self._cupy, self._device = cupy, cupy.cuda.Device(number)
        about = self._device.attributes
        self.name: str = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
        self.arch = f"sm_{self._device.compute_capability}"
        self.multiprocessors: int = about["MultiProcessorCount"]
        self.shared_limit: int = about["MaxSharedMemoryPerBlockOptin"]
        self.bandwidth = 2e3 * about["MemoryClockRate"] * about["GlobalMemoryBusWidth"] / 8
        self._cuda = cupy.cuda.runtime.driverGetVersion() // 1000
        self._modules: WeakValueDictionary[str, CupyModule] = WeakValueDictionary()

    @property
    def choice(self) -> Choice:
        """What decides between ways to compute the same: times on this GPU, unless the setting
        `tune` forbids it."""
        chip = chip_of(self.arch, self.multiprocessors)
        if not settings.tune:
            return Choice(chip)
        return TimedChoice(chip, device=self, name=self.name)

    def load(self, source: str) -> CupyModule:
        """The kernels of a source, compiled now or before; they stay on the GPU for as long as
        anybody holds the module. CodegenError where it is not valid."""
        found = self._modules.get(source)
        if found is None:
            made = CupyModule(self._cupy, self._device, self.shared_limit,
                              cubin_cache.compiled(source, self.arch, newest=self._cuda))
            found = self._modules.setdefault(source, made)
        return found

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of undefined elements, in memory of CuPy's pool, which begins at a multiple of
        512 bytes."""
        with self._device:
            return self._cupy.empty(shape, dtype)

    def upload(self, array: Any) -> Array:
        """An array of NumPy's, copied to the GPU."""
        with self._device:
            return self._cupy.asarray(np.asarray(array, order="C"))

    def download(self, array: Array) -> Any:
        """An array of the GPU's, copied into one of NumPy's once it is computed."""
        with self._device:
            return self._cupy.asnumpy(array)

    def copy(self, array: Array) -> Array:
        """An array of the same elements, in memory of its own."""
        with self._device:
            return self._cupy.array(array, order="C")

    def write(self, array: Array, values: Any) -> None:
        """Copies an array of NumPy's into one of the GPU's, after all launched before."""
        with self._device:
            array.set(values)

    def is_free(self, arrays: list[Array], which: int) -> bool:
        """Whether nobody but this list and one tensor holds an array of it, and its memory."""
        return _holders(arrays, which) == self._alone

    @functools.cached_property
    def _alone(self) -> tuple[int, ...]:
        """What `_holders` gives where there are no others."""
        arrays = [self.empty((1,), np.uint8)]
        _tensor = Tensor(arrays[0])
        return _holders(arrays, 0)

    def places(self, arrays: Sequence[Array]) -> BufferPlaces:
        """Where arrays are: CuPy's current stream, and their addresses."""
        with self._device:
            stream = self._cupy.cuda.get_current_stream().ptr
        return BufferPlaces(stream, tuple([a.data.ptr for a in arrays]))

    def ready(self, array: Array) -> Array:
        """The array as kernels read it, itself where it is so: its elements one after the other, in
        memory that begins where they may move several at once."""
        if array.flags.c_contiguous and array.data.ptr % _ALIGN == 0:
            return array
        return self.copy(array)

    def seconds(self, work: Launch, graph: bool = True) -> float:
        """How long the GPU takes for what `work` launches, the least of some times. It is launched
        as a graph of many turns, so that the GPU never waits for Python, if it can be."""

        def turns() -> None:
            for _ in range(_TIMED):
                work()

        with self._device:
            work()  # loads what it launches
            launch = self.capture(turns, []).launch if graph else turns
            return min(self._elapsed(launch) for _ in range(3)) / _TIMED

    def _elapsed(self, launch: Launch) -> float:
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

    def capture(self, work: Launch, arrays: Sequence[Array]) -> CupyGraph:
        """What `work` launches, as a graph; nothing of it runs now.

        The graph has the places of arguments that they have now, and keeps `arrays`, all that are
        among them. `work` does nothing but launch, least of all ask for memory, which others would
        be given as well; each of its kernels was launched before.
        """
        with self._device:
            stream = self._cupy.cuda.Stream(non_blocking=True)  # the default one has no captures
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
    """Code loaded into a GPU, with what each of its kernels takes."""

    def __init__(self, cupy: Any, device: Any, shared_limit: int, compiled: CompiledModule) -> None:
        self.resources = compiled.resources
        self._cupy, self._device = cupy, device
        self._driver, self._limit = cupy.cuda.driver, shared_limit
        self._functions: dict[str, Any] = {}
        with device:
            self._module = cupy.cuda.Module()
            self._module.load(compiled.cubin)

    def launch(self, function: CudaFunction, arguments: Sequence[Region]) -> None:
        """Has a function run, after all launched before. CodegenError for a launch that no GPU
        takes; CuPy would cut its numbers off."""
        if function.grid == 0:  # CuPy would make it 1
            return
        with self._device:
            product = function.product
            if product is not None:
                places = dict(zip(function.arguments, map(_address, arguments)))
                self._multiply(product, places)
                return
            kernel = self._functions.get(function.name)
            if kernel is None:
                kernel = self._functions.setdefault(function.name, self._kernel(function))
            # CuPy hands Python's ints over as 8 bytes.
            kernel((function.grid,), (function.block,), [_address(a) for a in arguments],
                   function.shared)

    def _multiply(self, product: Product, addresses: dict[Buffer, int]) -> None:
        """Has cuBLAS compute a product."""
        handle = self._cupy.cuda.device.get_cublas_handle()
        arguments = blas.call_of(product, addresses).arguments
        self._cupy.cuda.cublas.gemmStridedBatchedEx(handle, *arguments)

    def _kernel(self, function: CudaFunction) -> Any:
        """A function of the module, with leave for as much shared memory as it is launched with."""
        own = self.resources[function.name].shared
        check_launch(function, own, self._limit)
        kernel = self._module.get_function(function.name)
        if own + function.shared > _SHARED:
            most = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.funcSetAttribute(kernel.ptr, most, function.shared)
        return kernel


class CupyGraph(NamedTuple):
    """Launches that are launched as a whole, and the arrays that they read and write."""

    device: Any
    graph: Any
    arrays: tuple[Array, ...]

    def launch(self) -> None:
        """Has all of them run, after all launched before."""
        with self.device:
            self.graph.launch()


def _holders(arrays: list[Array], which: int) -> tuple[int, ...]:
    """How many references there are to an array of a list, to where it begins, and to its memory:
    what other arrays may share."""
    return (sys.getrefcount(arrays[which]), sys.getrefcount(arrays[which].data),
            sys.getrefcount(arrays[which].data.mem))


def check_launch(function: CudaFunction, own: int, limit: int) -> None:
    """CodegenError where no GPU takes a launch: `own` bytes of shared memory are the kernel's from
    the start, and `limit` is how many a block can have."""
    if not 0 < function.grid <= _BLOCKS or not 0 < function.block <= _THREADS:
        raise CodegenError(f"{function.name} is launched in {function.grid} blocks of "
                           f"{function.block} threads, and a GPU takes at most {_BLOCKS} of "
                           f"{_THREADS}")
    if own + function.shared > limit:
        raise CodegenError(f"{function.name} takes {own + function.shared} bytes of shared memory, "
                           f"and a block has at most {limit}")


def _address(region: Region) -> int:
    """Where a region begins on the GPU."""
    return int(region.array.data.ptr) + region.offset
