"""Emulates a GPU: runs CUDA C in the emulator, on memory of NumPy."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from plain_device import PlainDevice

from emulator.emulator import Module
from emulator.traffic import Traffic, traffic
from fusewire.codegen.cuda.module import CudaFunction, module_of
from fusewire.codegen.cuda.runtime import blas
from fusewire.codegen.cuda.runtime.protocol import MemoryRange
from fusewire.codegen.ir.loop_ir import Kernel, KernelBuffer
from fusewire.eager.arrays.dtypes import is_small


class EmulatedDevice(PlainDevice):
    """A device that runs modules in the emulator, with threads and blocks in the order `order`.
    `traced`: notes the memory traffic of the first block of each function in `moved`."""

    def __init__(self, order: int = 0, mode: str = "check", traced: bool = False) -> None:
        self.order, self.mode, self.traced = order, mode, traced
        self.moved: dict[str, list[Traffic]] = {}

    def load(self, source: str) -> _Loaded:
        return _Loaded(Module(source, self.mode), self)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Memory with meaningless contents, as on a GPU."""
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        return np.full(size, 0xCB, np.uint8).view(dtype).reshape(shape)

    def seconds(self, work: Callable[[], None], graph: bool = True) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    def ready(self, array: Any) -> Any:
        """The array, or a copy that owns its memory: the emulator checks bounds of memory."""
        return array if array.flags.c_contiguous and array.base is None else self.copy(array)


class _Loaded:
    def __init__(self, module: Module, device: EmulatedDevice) -> None:
        self._module, self._device = module, device

    def launch(self, function: CudaFunction, arguments: Sequence[MemoryRange]) -> None:
        launch = function.name, (function.grid,), (function.block,), \
            [_memory(a) for a in arguments], function.shared
        if self._device.traced:
            self._device.moved[function.name] = traffic(self._module, *launch)
        else:
            self._module.launch(*launch, order=self._device.order)
        if function.product is not None:
            _assert_a_library_gives_it(function, arguments)


def _memory(region: MemoryRange) -> Any:
    """The elements of a region as kernels see them; 16-bit floats are their bits."""
    dtype = "uint16" if is_small(region.dtype) else region.dtype
    data = np.ascontiguousarray(region.array).reshape(-1).view(np.uint8)
    end = region.offset + region.size * region.dtype.itemsize
    return data[region.offset:end].view(dtype)


def _assert_a_library_gives_it(function: CudaFunction, arguments: Sequence[MemoryRange]) -> None:
    """Asserts that cuBLAS, called as on a GPU, would compute the product that a kernel computed."""
    product = function.product
    assert product is not None
    memory = {b: _memory(a) for b, a in zip(function.arguments, arguments)}
    call = blas.blas_call_of(product, {b: a.ctypes.data for b, a in memory.items()})
    first = _seen(call.first, product.right.buffer, call.rows, call.depth, call.batch)
    second = _seen(call.second, product.left.buffer, call.depth, call.columns, call.batch)
    got = _seen(call.result, product.result.buffer, call.rows, call.columns, call.batch)
    np.testing.assert_allclose(got, first @ second, 1e-2, 1e-2 * np.sqrt(product.depth))


def _seen(operand: blas.BlasOperand, buffer: KernelBuffer, rows: int, columns: int,
          batch: int) -> Any:
    """The matrices that cuBLAS sees: column-major, and transposed if the call says so."""
    shape = (columns, rows) if operand.operation == blas.TRANSPOSED else (rows, columns)
    assert operand.pitch >= shape[0]
    step = buffer.dtype.itemsize
    size = (batch - 1) * operand.batch + (shape[1] - 1) * operand.pitch + shape[0]
    data = np.ctypeslib.as_array((ctypes.c_uint8 * (size * step)).from_address(operand.address))
    matrices = np.lib.stride_tricks.as_strided(
        data.view(buffer.dtype), (batch, *shape),
        (operand.batch * step, step, operand.pitch * step))
    return (matrices.mT if operand.operation == blas.TRANSPOSED else matrices).astype(np.float64)

def run_kernels(kernels: Sequence[Kernel], memory: Sequence[dict[KernelBuffer, Any]], order: int = 0
                ) -> str:
    """The source of a module of kernels, after running each on its arrays by buffer."""
    module = module_of([(f"k{n}", [k]) for n, k in enumerate(kernels)],
                       {k: frozenset(k.arguments) for k in kernels})
    loaded = EmulatedDevice(order).load(module.source)
    for function, arrays in zip(module.functions, memory, strict=True):
        arguments = [MemoryRange(arrays[b], 0, b.dtype, arrays[b].size) for b in function.arguments]
        if function.scratch:
            byte = np.dtype("uint8")
            arguments.append(MemoryRange(np.full(function.scratch, 0xCB, byte), 0, byte,
                                    function.scratch))
        loaded.launch(function, arguments)
    return module.source
