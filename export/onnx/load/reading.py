"""Files: the bytes of a model, and data that lie beside it, in its folder only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ....eager.errors import ImportModelError
from .runtime.limits import Meter
from .runtime.tensors import bytes_of

_SHARED = 8  # how many tensors may lie in the same place, on the average


def read(model: Any, meter: Meter) -> Any:
    """The ModelProto of a path or of bytes, with its external data."""
    folder = None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        try:
            data = _bytes_in(path, meter)
        except OSError as error:
            raise ImportModelError(f"{path} cannot be read: {error.strerror or error}",
                                   "load takes the path of an ONNX file") from error
        folder = path.parent
    elif isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
    else:
        raise ImportModelError(f"load takes a path, bytes or an onnx.ModelProto, not "
                               f"{type(model).__name__}")
    meter.room(len(data), "the model")
    proto = _parsed(data)
    check_texts(proto, meter)
    outside = [t for t in _tensors(proto) if t.data_location == t.EXTERNAL]
    parts = [_part(tensor, folder) for tensor in outside]
    held = sum({part.path: part.path.stat().st_size for part in parts}.values())
    if sum(part.length for part in parts) > _SHARED * held:
        raise ImportModelError(f"the model's tensors are larger than {_SHARED} times the files "
                               f"where their data are said to lie, of {held} bytes together")
    meter.room(len(data) + sum(part.length for part in parts), "the model with its data")
    for tensor, part in zip(outside, parts):
        meter.tick()
        _read_part(tensor, part)
    return proto


def _bytes_in(path: Path, meter: Meter) -> bytes:
    """All of a file; of a pipe or a device nothing, which may have no end."""
    with open(path, "rb", opener=_without_waiting) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ImportModelError(f"{path} is no file", "read it, and load its bytes")
        meter.room(about.st_size, f"the file {path}")
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    """Opens a file; a pipe too, though nobody writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _parsed(data: bytes) -> Any:
    import onnx

    try:
        proto = onnx.ModelProto.FromString(data)
    except Exception as error:  # of protobuf, which has several, by version
        raise ImportModelError(f"this is no ONNX model: {error}",
                               "the file is damaged, was cut off, or is of another kind") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise ImportModelError("this is no ONNX model: it has no graph, or names no version of "
                               "operators", "the file is damaged, or of another kind")
    return proto


def check_texts(message: Any, meter: Meter) -> None:
    """ImportModelError where a name in the file is no text."""
    meter.tick()
    for field in message.DESCRIPTOR.fields:
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue  # the data of tensors, which may be long
        found = getattr(message, field.name)
        if field.type == field.TYPE_MESSAGE and not _is_repeated(found):
            found = [found] if message.HasField(field.name) else []
        for value in found if _is_repeated(found) else [found]:
            if field.type == field.TYPE_MESSAGE:
                check_texts(value, meter)
            elif not isinstance(value, str):
                raise ImportModelError(f"{field.name} is {value!r:.60}, which is no text",
                                       "the file is damaged")


def _is_repeated(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and hasattr(value, "__len__")


def _tensors(proto: Any) -> Iterator[Any]:
    """Every tensor of a model."""
    from onnx import external_data_helper

    yield from external_data_helper._get_all_tensors(proto)


class _Part(NamedTuple):
    """Where in a file the data of a tensor lie."""

    path: Path
    offset: int
    length: int


def _part(tensor: Any, folder: Path | None) -> _Part:
    """Where a tensor's data lie, in a file below `folder` that is long enough."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    location = where.get("location", "")
    if folder is None:
        raise ImportModelError(f"the data of tensor {tensor.name!r} lie in the file {location!r}",
                               "load the model by its path")
    path, length = folder / location, bytes_of(tensor)
    try:
        _check_inside(tensor.name, location, folder)
        size = path.stat().st_size if path.is_file() else None
    except OSError:  # too long a name, say
        size = None
    if size is None:
        raise ImportModelError(f"the data of tensor {tensor.name!r} cannot be read from "
                               f"{location!r:.200}, which is no file")
    try:
        offset = int(where.get("offset", 0))
        given = int(where.get("length", size - offset))
    except ValueError:
        offset = given = -1
    if given != length or not 0 <= offset <= size - length:
        raise ImportModelError(
            f"tensor {tensor.name!r} takes {length} bytes, which are said to be those of "
            f"{location!r} from {where.get('offset', 0)} on, {where.get('length', 'all')} of its "
            f"{size}", "the file is damaged, was cut off, or belongs to another model")
    return _Part(path, offset, length)


def _read_part(tensor: Any, part: _Part) -> None:
    try:
        with part.path.open("rb") as file:
            file.seek(part.offset)
            tensor.raw_data = file.read(part.length)
    except OSError as error:
        raise ImportModelError(f"the data of tensor {tensor.name!r} cannot be read from "
                               f"{part.path.name!r}: {error.strerror or error}") from error
    tensor.data_location = tensor.DEFAULT
    del tensor.external_data[:]


def _check_inside(name: str, location: str, folder: Path) -> None:
    path = Path(location)
    inside = location and not path.is_absolute() and ".." not in path.parts and \
        not any(c in location for c in "\0\\:")
    steps = [folder.joinpath(*path.parts[:i + 1]) for i in range(len(path.parts))] if inside else []
    if not inside or any(step.is_symlink() for step in steps):
        raise ImportModelError(f"the data of tensor {name!r} are said to lie in {location!r}",
                               "data are read from the folder of the model, not through links")
