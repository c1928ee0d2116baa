"""Defines what a kind of devices provides to eager: its arrays, and ops that a library computes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from . import cpu_kernels
from .dtypes import bfloat16


class NotLoaded:
    """Stands for the class of a device's arrays until the device is loaded; no instances."""


class Missing(NamedTuple):
    """The reason why a device cannot be used, or "", and a help for the user."""

    why_not: str
    help: str = ""


class DeviceType:
    """A kind of devices, such as the GPUs "cuda:0", "cuda:1", ... of "cuda".

    `name`: the part of a device's name before the colon
    `library`: the library that computes ops without code, as errors name it
    `array_type`: the class of its arrays; a class without instances until `load`
    `modules`, `folders`: the library's top-level modules, and the folders of its files once it is
        loaded; a trace follows no code in them
    `packages`: the distributions that hold a package of the library, by its name
    `kernels`: the `k` and `xp` of ops: a module with NumPy's names for the device's arrays
    `fast_dtype`: the dtype of autocast, unless the user names one
    `dlpack_kind`: the number of this kind of devices in DLPack, or None
    """

    name = ""
    library = ""
    array_type: Any = NotLoaded
    modules: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    packages: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    kernels: Any = cpu_kernels
    fast_dtype: Any = bfloat16
    dlpack_kind: int | None = None

    # ---- which devices there are
    def missing(self) -> Missing:
        """The reason why there is none of these devices."""
        return Missing("")

    def count(self) -> int:
        """The number of devices; 0 if they cannot be used."""
        return 1

    def current(self) -> int:
        """The number of the device that the bare name means."""
        return 0

    def load(self) -> None:
        """Imports what the devices need and sets `array_type`. Raises DeviceError if it cannot."""

    # ---- arrays
    def number_of(self, array: Any) -> int:
        """The number of the device of an array."""
        raise NotImplementedError

    def upload(self, array: Any, number: int) -> Any:
        """A copy of a NumPy array, or of an array of these devices, on the device of a number."""
        raise NotImplementedError

    def download(self, array: Any) -> Any:
        """A copy of an array as a NumPy array, once it is computed."""
        raise NotImplementedError

    def activate(self, number: int) -> contextlib.AbstractContextManager[Any]:
        """A context in which new arrays are on the device of this number."""
        return contextlib.nullcontext()

    def from_dlpack(self, x: Any) -> Any:
        """An array of these devices over the memory of an array of another library."""
        raise NotImplementedError

    def extremes(self, array: Any) -> tuple[Any, Any]:
        """The least and the largest element of an array that has some."""
        values = self.download(array)
        return values.min(), values.max()

    # ---- ops
    def why_not_library(self, op: Any, arrays: Any, params: Mapping[str, Any]) -> str:
        """The reason why the library's result would differ from NumPy's, or an empty text."""
        return ""

    def prefers_code(self, op: Any) -> bool:
        """True if compiled code comes before the library, for ops that it computes as well."""
        return True

    def compute(self, op: Any, arrays: Any, params: Mapping[str, Any], number: int) -> Any:
        """The result of an op by the library, as an array of the device of this number, which is
        active."""
        raise NotImplementedError


class Cpu(DeviceType):
    """The CPU; its arrays are NumPy's, and eager calls NumPy without asking this object."""

    name, library, array_type, dlpack_kind = "cpu", "NumPy", np.ndarray, 1

    def number_of(self, array: Any) -> int:
        """0: there is one CPU."""
        return 0

    def upload(self, array: Any, number: int) -> Any:
        """A copy of the array."""
        return array.copy()

    def download(self, array: Any) -> Any:
        """A copy of the array."""
        return array.copy()
