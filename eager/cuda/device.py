"""Provides NVIDIA's GPUs to eager: their arrays are CuPy's, and CuPy computes ops without code.

CuPy is imported, and CUDA starts, at the first use of a GPU.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..arrays.device_type import DeviceType, Missing, NotLoaded
from ..arrays.dtypes import bfloat16, float16
from ..errors import DeviceError
from . import cupy_kernels, driver
from .cupy_kernels import cupy

# Why CuPy's result would differ from NumPy's, by op.
DIFFERS = {
    **dict.fromkeys(("floor_divide", "remainder"), "CuPy takes the floor of a rounded quotient"),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"),
                    "on a GPU a shift by all bits or more is undefined"),
    **dict.fromkeys(("poisson", "binomial"),
                    "rejected numbers are drawn again until all are accepted"),
    "gammainc": "its loops run until they converge",
    "lu": "its rows are exchanged one by one",
    "matrix_exp": "its loops depend on the values",
}
# CuPy adds values at indices in no fixed order, or in many passes over them.
SLOW = ("add_at", "scatter")


class CudaGpus(DeviceType):
    """NVIDIA's GPUs: "cuda:0", "cuda:1", ...; "cuda" is CuPy's current one."""

    name, library, modules, dlpack_kind = "cuda", "CuPy", ("cupy", "cupyx"), 2
    fast_dtype = float16  # as in PyTorch
    kernels, packages = cupy_kernels, MappingProxyType({"cupy": driver.PACKAGES})

    def missing(self) -> Missing:
        """The reason why tensors cannot be on a GPU, with what to install."""
        state = driver.probe()
        return Missing(state.why_not, state.help)

    def count(self) -> int:
        """The number of GPUs for tensors."""
        state = driver.probe()
        return 0 if state.why_not else state.gpus

    def current(self) -> int:
        """The number of CuPy's current GPU."""
        return int(cupy().cuda.runtime.getDevice())

    def load(self) -> None:
        """Imports CuPy. DeviceError, which says what to install, if it cannot be used."""
        missing = self.missing()
        if missing.why_not:
            raise DeviceError(f'device "cuda" is not available: {missing.why_not}', missing.help)
        try:
            module = importlib.import_module("cupy")
        except ImportError as error:
            raise DeviceError(f'device "cuda" is not available: CuPy cannot be imported: {error}',
                              "see https://docs.cupy.dev/en/stable/install.html") from None
        # those of CuPy and of cupyx beside it
        self.folders = (os.path.dirname(str(module.__file__)).replace("\\", "/"),)
        self.array_type = module.ndarray

    def forget(self) -> None:
        """Undoes `load`."""
        self.array_type, self.folders = NotLoaded, ()

    # ---- arrays
    def number_of(self, array: Any) -> int:
        """The number of the GPU of an array."""
        return int(array.device.id)

    def upload(self, array: Any, number: int) -> Any:
        """A copy of an array on the current GPU."""
        return cupy().array(array, copy=True)

    def download(self, array: Any) -> Any:
        """A copy of a GPU's array as a NumPy array, once the GPU has computed it."""
        return array.get()

    def activate(self, number: int) -> Any:
        """A context in which a GPU is CuPy's current one."""
        return cupy().cuda.Device(number)

    def from_dlpack(self, x: Any) -> Any:
        """CuPy's array over the memory of another library's array."""
        return cupy().from_dlpack(x)

    def extremes(self, array: Any) -> tuple[Any, Any]:
        """The least and the largest element of an array; two numbers are copied."""
        return array.min().get()[()], array.max().get()[()]

    # ---- ops
    def why_not_library(self, op: Any, arrays: Any, params: Mapping[str, Any]) -> str:
        """The reason why CuPy's result would differ from NumPy's, or an empty text."""
        if params.get("dtype") == bfloat16 or any(getattr(a, "dtype", None) == bfloat16
                                                  for a in arrays):
            return "CuPy has few functions for bfloat16"
        if op.kind == "scan" and op.meaning.combine not in cupy_kernels.SCAN:
            return "CuPy has no such scan"
        if op.kind == "pointwise" and _drops_fraction(arrays, params):
            return "CuPy converts nan and floats out of range to other integers than NumPy"
        return DIFFERS.get(op.name, "")

    def prefers_code(self, op: Any) -> bool:
        """True if compiled code comes first although CuPy has the function."""
        return op.draws or op.kind == "composite" or op.name in SLOW

    def compute(self, op: Any, arrays: Any, params: Mapping[str, Any], number: int) -> Any:
        """The result of an op by CuPy, on the current GPU."""
        if op.kind == "reduce" and op.meaning.combine in cupy_kernels.REDUCE:
            return cupy_kernels.reduce(op.meaning.combine, *arrays, **params)
        with cupy_kernels.failing():
            return op.impl(cupy_kernels, *arrays, **params)


def _drops_fraction(arrays: Any, params: Mapping[str, Any]) -> bool:
    """True for a cast of floats to integers."""
    target = params.get("dtype")
    return target is not None and target.kind in "iu" and arrays[0].dtype.kind in "fc"


CUDA = CudaGpus()
