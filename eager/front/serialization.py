"""Saves and loads checkpoints as safetensors files.

Tensors of nested dicts and lists become arrays under dotted names, for any reader of the format.
The remaining structure, with numbers, texts and the names of tensors, is JSON in the file's
metadata. A dict of tensors alone keeps its names. A file holds no pickle and cannot run code.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays.devices import CPU, host, is_elsewhere, name_of
from ..arrays.dtypes import as_dtype
from ..core.tensor import Tensor, from_numpy
from ..errors import DTypeError, StateError
from ..files import safetensors_file
from ..files.atomic_files import replacing
from ..nn.base.parameter import is_lazy

__all__ = ["load", "save"]

_TREE = "fusewire"  # the key of the structure in the metadata
_VERSION = 1
_PLAIN = (bool, int, float, str, type(None))


def save(obj: Any, f: Any) -> None:
    """Writes `obj` to a safetensors file.

    A path has the old file or the whole new one at any moment, also after a crash. The next save of
    the path removes the temporary files of a killed save.

    Args:
        obj: tensors, numbers, texts, None, dtypes, and dicts, lists and tuples of these: a state
            dict, or a checkpoint such as {"model": model.state_dict(), "epoch": 3}.
        f: path, or binary file object.

    Raises:
        DTypeError: `obj` holds an object of another type, holds itself or is nested too deeply, or
            a tensor is complex128.
        StateError: a parameter of a lazy module has no shape yet.

    Example:
        >>> import fusewire as fw, io
        >>> file = io.BytesIO()
        >>> fw.save({"model": {"weight": fw.ones(2)}, "epoch": 3}, file)
        >>> fw.load(io.BytesIO(file.getvalue()))
        {'model': {'weight': tensor([1., 1.])}, 'epoch': 3}
    """
    try:
        arrays, metadata = _parts(obj)
    except RecursionError:
        raise DTypeError("save: the object is nested too deeply",
                         "save a flat dict or list instead of nested ones") from None
    if hasattr(f, "write"):
        with _beside() as new_file:
            safetensors_file.write(new_file, arrays, metadata)
            with open(new_file, "rb") as file:
                shutil.copyfileobj(file, f)
        return
    with replacing(os.path.realpath(f)) as new_file:
        safetensors_file.write(new_file, arrays, metadata)


def _parts(obj: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and the metadata of the file for an object."""
    if _is_flat(obj):
        arrays = {name: _array(x, name) for name, x in obj.items()}
        encoded: Any = {"$dict": [(name, {"$tensor": name}) for name in obj]}  # in sequence
    else:
        tree = _Tree()
        encoded = tree.encoded(obj, (), ())
        arrays = tree.arrays
    # names and layouts are PyTorch's: some readers ask for this "format"
    return arrays, {_TREE: json.dumps({"version": _VERSION, "tree": encoded}), "format": "pt"}


@contextlib.contextmanager
def _beside() -> Iterator[str]:
    """The path of a temporary file, since the library reads and writes files only."""
    with tempfile.TemporaryDirectory() as folder:
        yield os.path.join(folder, "stream.safetensors")


def load(f: Any, map_location: Any = None, *, weights_only: bool = True) -> Any:
    """The object that `save` wrote, or a dict of the tensors of any safetensors file.

    Args:
        f: path, or binary file object. A path to the JSON index of a model in several files gives
            the tensors of all files.
        map_location: name of the device of the tensors. Default the CPU.
        weights_only: no effect. Loading never runs code of the file.

    Raises:
        StateError: the file is not a complete safetensors file; the message names other formats.
        DTypeError: a tensor has a dtype that fusewire lacks.
        DeviceError: the device is not available.

    Example:
        >>> import fusewire as fw, io
        >>> model, file = fw.nn.Linear(2, 1), io.BytesIO()
        >>> fw.save(model.state_dict(), file)
        >>> model.load_state_dict(fw.load(io.BytesIO(file.getvalue())))
        <All keys matched successfully>
    """
    device = name_of(map_location) if isinstance(map_location, str) else CPU
    if hasattr(f, "read"):
        return _of_stream(f, device)
    path = os.fspath(f)
    if os.path.isdir(path):
        raise StateError(f"{path} is a folder", _files_in(path))
    if str(path).endswith(".json"):
        return _of_several(path, device)
    return _decoded(path, repr(path), device)


def _of_stream(f: Any, device: str) -> Any:
    with _beside() as copy:
        with open(copy, "wb") as file:
            shutil.copyfileobj(f, file)
        return _decoded(copy, "the file", device)


def _files_in(folder: str) -> str:
    names = sorted(n for n in os.listdir(folder) if n.endswith((".safetensors", ".index.json")))
    return f"load one of its files: {', '.join(names)}" if names else "it holds no safetensors file"


def _of_several(path: str, device: str) -> dict[str, Tensor]:
    """The tensors of all files in an index {"weight_map": {name: file}}."""
    files = _listed(path)
    tensors: dict[str, Tensor] = {}
    for name in dict.fromkeys(files.values()):
        part = os.path.join(os.path.dirname(path), name)
        held = _decoded(part, repr(part), device)
        if not _is_flat(held):
            raise StateError(f"{path!r} lists {name!r}, which holds more than tensors by name",
                             "load that file by itself: it is a checkpoint")
        tensors.update(held)
    absent = [name for name in files if name not in tensors]
    if absent:
        raise StateError(f"{path!r} lists {absent[0]!r} in {files[absent[0]]!r}, which lacks it",
                         "the files do not belong together: get all of them again")
    return {name: tensors[name] for name in files}


def _listed(path: str) -> dict[str, str]:
    """The file of each tensor according to the index at `path`."""
    with open(path, "rb") as file:
        try:
            files: dict[str, str] = json.load(file)["weight_map"]
            outside = [f for f in files.values() if os.path.isabs(f) or ".." in Path(f).parts]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StateError(f"{path!r} is not an index of safetensors files: {error!r}",
                             'it holds {"weight_map": {name of a tensor: file}}') from None
    if outside:
        raise StateError(f"{path!r} lists {outside[0]!r}, a file outside of its folder",
                         "put the files of a model and their index into one folder")
    return files


def _decoded(path: str, shown: str, device: str) -> Any:
    arrays, metadata = safetensors_file.read(path, shown)
    tensors = {name: from_numpy(array) for name, array in arrays.items()}
    if device != CPU:
        tensors = {name: x.to(device) for name, x in tensors.items()}
    text = metadata.get(_TREE)
    if text is None:
        return tensors
    try:
        held = json.loads(text)
        if held["version"] == _VERSION:
            return _object(held["tree"], tensors)
    except RecursionError:
        raise StateError(f"{shown} is a broken checkpoint: its objects are nested too deeply",
                         "fw.save does not write such files: get another copy") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{shown} is a broken checkpoint: {error!r}",
                         "write it again, or get another copy") from None
    raise StateError(f"{shown} was written by a later version, in format {held['version']}",
                     f"this version reads {_VERSION}: update fusewire")


# ---- objects as JSON, with names of tensors
def _is_flat(obj: Any) -> bool:
    return isinstance(obj, dict) and bool(obj) and safetensors_file.METADATA not in obj and all(
        isinstance(k, str) and isinstance(x, (Tensor, np.ndarray)) for k, x in obj.items())


class _Tree:
    """Encodes an object as JSON and collects its tensors by name in `arrays`.

    Types that JSON lacks become a dict with one key that begins with "$": {"$tuple": [1, 2]}.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self._names: dict[int, str] = {}  # by identity of an array: tied weights are written once

    def encoded(self, x: Any, path: tuple[Any, ...], above: tuple[int, ...]) -> Any:
        if isinstance(x, _PLAIN) and not isinstance(x, np.generic):
            return x  # an enum of numbers or texts becomes a number or a text
        if isinstance(x, (Tensor, np.ndarray)):
            return {"$tensor": self._named(x, path)}
        if isinstance(x, np.dtype) or (isinstance(x, type) and issubclass(x, np.generic)):
            return {"$dtype": as_dtype(x).name}
        if isinstance(x, np.generic):
            return self.encoded(x.item(), path, above)
        if not isinstance(x, (dict, list, tuple)) or id(x) in above:
            raise _unfit(x, path, id(x) in above)
        above = (*above, id(x))
        if isinstance(x, dict):
            return self._dict(x, path, above)
        items = [self.encoded(v, (*path, i), above) for i, v in enumerate(x)]
        return items if isinstance(x, list) else {"$tuple": items}

    def _dict(self, x: Mapping[Any, Any], path: tuple[Any, ...], above: tuple[int, ...]) -> Any:
        items = [(k, self.encoded(v, (*path, k), above)) for k, v in x.items()]
        if all(type(k) is str and not k.startswith("$") for k in x):
            return dict(items)
        for k in x:
            if type(k) not in _PLAIN:
                raise _unfit(k, path, key=True)
        return {"$dict": items}

    def _named(self, x: Any, path: tuple[Any, ...]) -> str:
        array = _array(x, _shown(path))
        held = x._data if isinstance(x, Tensor) else x
        if id(held) not in self._names:
            name = base = ".".join(map(str, path)) or "tensor"
            count = 1
            while name in self.arrays or name == safetensors_file.METADATA:
                name, count = f"{base}#{count}", count + 1
            self._names[id(held)] = name
            self.arrays[name] = array
        return self._names[id(held)]


def _array(x: Any, where: str) -> Any:
    if is_lazy(x):
        raise StateError(f"save: {where} has no shape yet", "call the lazy module once first")
    if isinstance(x, Tensor):
        return host(x._data) if is_elsewhere(x._data) else x.numpy()
    as_dtype(x.dtype)
    return x


def _unfit(x: Any, path: tuple[Any, ...], cycle: bool = False, key: bool = False) -> DTypeError:
    what = "holds itself" if cycle else f"is of type {type(x).__name__}"
    if key:
        what = f"has a key {x!r:.40} of type {type(x).__name__}"
    help = "checkpoints hold tensors, numbers, texts, None, and dicts, lists and tuples of these"
    if hasattr(x, "state_dict"):
        help = "pass its state: .state_dict()"
    return DTypeError(f"save: {_shown(path)} {what}", help)


def _shown(path: tuple[Any, ...]) -> str:
    return "obj" + "".join(f"[{k!r}]" for k in path) if path else "the object"


def _object(x: Any, tensors: dict[str, Tensor]) -> Any:
    """The object that `_Tree.encoded` turned into `x`."""
    if isinstance(x, list):
        return [_object(v, tensors) for v in x]
    if not isinstance(x, dict):
        return x
    held: Any
    mark, held = next(iter(x.items())) if len(x) == 1 else ("", x)
    if mark == "$tensor":
        return tensors[held].detach()
    if mark == "$dtype":
        return as_dtype(held)
    if mark == "$tuple":
        return tuple(_object(v, tensors) for v in held)
    pairs = held if mark == "$dict" else x.items()
    return {k: _object(v, tensors) for k, v in pairs}
