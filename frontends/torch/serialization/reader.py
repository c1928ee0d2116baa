"""Reads `.pt` files of PyTorch without running code of the file.

The file's pickle may name a few classes only: those of tensors, and containers.
"""

from __future__ import annotations

import errno
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ....eager.arrays import devices
from ....eager.core.tensor import Tensor as PlainTensor
from ....eager.errors import ImportModelError
from ..base.device import device as device_class
from ..base.size import Size
from ..base.tensor_class import Parameter, retag
from .storages import DTYPES


class _Storage:
    """The kind of a memory block."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


def _rebuild_tensor(block: Any, offset: int, size: Any, stride: Any, requires_grad: bool = False,
                    hooks: Any = None, metadata: Any = None) -> Any:
    width = block.itemsize
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride)) + 1 if all(size) else 0
    if offset < 0 or min(stride, default=0) < 0 or reach > block.size:
        raise ImportModelError("load: a tensor of the file reaches over its memory block",
                               "the file is damaged")
    view = np.lib.stride_tricks.as_strided(block[offset:], size, [s * width for s in stride])
    out = retag(PlainTensor(np.array(view, order="C")))
    return out.requires_grad_() if requires_grad else out


def _rebuild_parameter(data: Any, requires_grad: bool, hooks: Any) -> Any:
    return Parameter(data, requires_grad)


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch", "Size"): Size, ("torch", "device"): device_class,
    ("builtins", "set"): set, ("__builtin__", "set"): set,
    ("builtins", "frozenset"): frozenset, ("__builtin__", "frozenset"): frozenset,
    **{("torch", name): _Storage(dtype) for name, dtype in DTYPES.items()},
}


class _Unpickler(pickle.Unpickler):
    """Reads the containers of a file; names other than those above are errors."""

    def __init__(self, archive: zipfile.ZipFile, folder: str, swap: bool) -> None:
        super().__init__(archive.open(f"{folder}/data.pkl"), encoding="utf-8")
        self._archive, self._folder, self._swap = archive, folder, swap
        self._blocks: dict[str, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        """A class or function that files may name."""
        if (module, name) not in _ALLOWED:
            raise ImportModelError(f"load: the file names {module}.{name}; only tensors and "
                                   "containers are read",
                                   "save a state dict: torch.save(model.state_dict(), path)")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> Any:
        """A memory block."""
        _, kind, key, _, count = pid
        if key not in self._blocks:
            data = self._archive.read(f"{self._folder}/data/{key}")
            block = np.frombuffer(data, kind.dtype, count)
            self._blocks[key] = block.byteswap() if self._swap else block
        return self._blocks[key]


def load(f: Any, map_location: Any = None, *unused: Any, **ignored: Any) -> Any:
    """The object in a `.pt` file, with tensors on the device `map_location`.

    Raises:
        FileNotFoundError: there is no such file.
        ImportModelError: the file is no zip archive of `torch.save`, or holds other objects than
            tensors, numbers, text and containers.
    """
    if isinstance(f, (str, os.PathLike)) and not os.path.exists(f):
        raise FileNotFoundError(errno.ENOENT, "load: there is no such file", os.fspath(f))
    if not zipfile.is_zipfile(f):
        raise ImportModelError(f"load: {_named(f)} is no file of torch.save from PyTorch 1.6 on",
                               "safetensors files are read by fusewire.load")
    with zipfile.ZipFile(f) as archive:
        members = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(members) != 1:
            raise ImportModelError(f"load: {_named(f)} has {len(members)} members data.pkl, "
                                   "expected one", "TorchScript archives are not read")
        folder = members[0].removesuffix("/data.pkl")
        order = f"{folder}/byteorder"
        swap = order in archive.namelist() and archive.read(order).strip() == b"big"
        try:
            value = _Unpickler(archive, folder, swap).load()
        except (pickle.UnpicklingError, KeyError, ValueError, EOFError) as error:
            raise ImportModelError(f"load: {_named(f)} cannot be read: {error}",
                                   "the file is damaged") from None
    target = map_location if isinstance(map_location, str) else None
    return value if target in (None, devices.CPU) else _moved(value, lambda x: x.to(target))


def _named(f: Any) -> str:
    return str(f) if isinstance(f, (str, os.PathLike)) else "the file"


def _moved(value: Any, move: Callable[[Any], Any]) -> Any:
    if isinstance(value, PlainTensor):
        return move(value)
    if isinstance(value, dict):
        return type(value)((k, _moved(v, move)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(v, move) for v in value)
    return value
