"""Writes `.pt` files, which PyTorch reads with `weights_only=True`.

A file is a zip archive: a pickle of the containers, in which a tensor refers to a memory block, and
a member for each block.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np

from ....eager.core.tensor import Tensor as PlainTensor
from ....eager.errors import DTypeError
from ....eager.nn.base.parameter import Parameter as PlainParameter
from ..base.device import device as device_class
from ..base.size import Size
from .storages import NAMES

_CONTAINERS = (dict, OrderedDict, list, tuple, set, frozenset)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class _Name:
    """A function or class of PyTorch, which the pickle names."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


_REBUILD_TENSOR = _Name("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_SIZE = _Name("torch", "Size")
_DEVICE = _Name("torch", "device")


class _Block:
    """A memory block of the file."""

    def __init__(self, key: str, array: Any) -> None:
        self.key, self.array = key, array


_PythonPickler: Any = pickle._Pickler  # type: ignore[attr-defined]  # whose parts can be replaced


class _Pickler(_PythonPickler):  # type: ignore[misc]
    """Writes containers, and tensors as references to blocks. DTypeError for other objects."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, protocol=2)
        self.blocks: list[_Block] = []

    def persistent_id(self, value: Any) -> Any:
        """The reference to a block; None for other values."""
        if not isinstance(value, _Block):
            return None
        return ("storage", _Name("torch", NAMES[value.array.dtype]), value.key, "cpu",
                value.array.size)

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Writes one object."""
        if isinstance(obj, _Name):
            self.write(f"c{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, PlainTensor):
            self.save_reduce(*self._tensor(obj), obj=obj)
        elif type(obj) is Size:
            self.save_reduce(_SIZE, (tuple(obj),), obj=obj)
        elif type(obj) is device_class:
            self.save_reduce(_DEVICE, (str(obj),), obj=obj)
        elif type(obj) is OrderedDict:
            super().save(OrderedDict(obj), save_persistent_id)  # without attributes
        elif isinstance(obj, np.generic):
            self.save(obj.item(), save_persistent_id)
        elif isinstance(obj, (*_CONTAINERS, *_PLAIN, _Block)) or obj is OrderedDict or \
                obj in (set, frozenset):
            super().save(obj, save_persistent_id)
        else:
            raise DTypeError(f"save: cannot save a {type(obj).__name__}",
                             "save what its state_dict() returns" if hasattr(obj, "state_dict")
                             else "it takes dicts, lists and tuples of tensors, numbers and text")

    def save_reduce(self, func: Any, args: Any, *more: Any, obj: Any = None, **others: Any) -> None:
        """Writes a call of a function of PyTorch."""
        if not isinstance(func, _Name):
            super().save_reduce(func, args, *more, obj=obj, **others)
            return
        self.save(func)
        self.save(args)
        self.write(pickle.REDUCE)
        if obj is not None:
            self.memoize(obj)

    def _tensor(self, x: Any) -> tuple[Any, ...]:
        array = np.ascontiguousarray(x.detach().cpu().numpy()).reshape(x.shape)
        block = _Block(str(len(self.blocks)), array)
        self.blocks.append(block)
        strides = tuple(n // array.itemsize for n in array.strides)
        plain: tuple[Any, ...] = (block, 0, tuple(int(n) for n in array.shape), strides,
                 bool(x.requires_grad), OrderedDict())
        if not isinstance(x, PlainParameter):
            return _REBUILD_TENSOR, plain
        data = PlainTensor(array)
        self.blocks.pop()
        return _REBUILD_PARAMETER, (data, bool(x.requires_grad), OrderedDict())


def save(obj: Any, f: Any, *unused: Any, **ignored: Any) -> None:
    """Writes nested containers of tensors, numbers and text to a path or a file.

    Raises:
        DTypeError: `obj` holds something else, such as a module.
    """
    pickled = io.BytesIO()
    pickler = _Pickler(pickled)
    pickler.dump(obj)
    name = os.path.splitext(os.path.basename(f))[0] if isinstance(f, (str, os.PathLike)) else \
        "archive"
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", pickled.getvalue())
        archive.writestr(f"{name}/byteorder", sys.byteorder)
        for block in pickler.blocks:
            archive.writestr(f"{name}/data/{block.key}", block.array.tobytes())
        archive.writestr(f"{name}/version", "3\n")
