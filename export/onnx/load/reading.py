"""Reads the bytes of a model and its external data, which must lie in the model's folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ....eager.errors import ImportModelError
from .runtime.limits import Meter
from .runtime.tensors import bytes_of

_MAX_SHARING = 8  # bytes of tensors per byte of external data, which tensors may share


def read(model: Any, meter: Meter) -> Any:
    """The ModelProto of a path or of bytes, with its external data."""
    folder = None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        try:
            data = _bytes_in(path, meter)
        except OSError as error:
            raise ImportModelError(f"{path} cannot be read: {error.strerror or error}",
                                   "pass the path of an ONNX file") from error
        folder = path.parent
    elif isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
    else:
        raise ImportModelError(f"load takes a path, bytes or an onnx.ModelProto, not "
                               f"{type(model).__name__}", 'as in fw.onnx.load("model.onnx")')
    meter.room(len(data), "the model")
    proto = _parsed(data)
    check_texts(proto, meter)
    outside = [t for t in _tensors(proto) if t.data_location == t.EXTERNAL]
    parts = [_part(tensor, folder) for tensor in outside]
    held = sum({part.path: part.path.stat().st_size for part in parts}.values())
    if sum(part.length for part in parts) > _MAX_SHARING * held:
        raise ImportModelError(f"the model's tensors are more than {_MAX_SHARING} times as large "
                               f"as the external files with their data, which have {held} bytes")
    meter.room(len(data) + sum(part.length for part in parts), "the model with its data")
    for tensor, part in zip(outside, parts):
        meter.tick()
        _read_part(tensor, part)
    return proto


def _bytes_in(path: Path, meter: Meter) -> bytes:
    """The bytes of a file. Pipes and devices are rejected, as they may have no end."""
    with open(path, "rb", opener=_without_waiting) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ImportModelError(f"{path} is not a regular file", "read it, and load its bytes")
        meter.room(about.st_size, f"the file {path}")
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    """A file descriptor; opening a pipe without a writer does not block."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _parsed(data: bytes) -> Any:
    import onnx

    try:
        proto = onnx.ModelProto.FromString(data)
    except Exception as error:  # the exception type depends on the version of protobuf
        raise ImportModelError(f"this is not an ONNX model: {error}",
                               "the file is damaged, truncated, or of another format") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise ImportModelError("this is not an ONNX model: it has no graph or no opset import",
                               "the file is damaged, or of another format")
    return proto


def check_texts(message: Any, meter: Meter) -> None:
    """Raises ImportModelError if a string field is not valid text."""
    meter.tick()
    for field in message.DESCRIPTOR.fields:
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue  # skips the data of tensors, which may be long
        content = getattr(message, field.name)
        if field.type == field.TYPE_MESSAGE and not _is_repeated(content):
            content = [content] if message.HasField(field.name) else []
        for value in content if _is_repeated(content) else [content]:
            if field.type == field.TYPE_MESSAGE:
                check_texts(value, meter)
            elif not isinstance(value, str):
                raise ImportModelError(f"{field.name} is {value!r:.60}, which is not valid text",
                                       "the file is damaged")


def _is_repeated(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and hasattr(value, "__len__")


def _tensors(proto: Any) -> Iterator[Any]:
    """All tensors of a model."""
    from onnx import external_data_helper

    yield from external_data_helper._get_all_tensors(proto)


class _Part(NamedTuple):
    """The part of a file that holds a tensor's data."""

    path: Path
    offset: int
    length: int


def _part(tensor: Any, folder: Path | None) -> _Part:
    """The part of a file that holds a tensor's data; checked against the tensor's size."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    location = where.get("location", "")
    if folder is None:
        raise ImportModelError(f"the data of tensor {tensor.name!r} are in the file {location!r}",
                               "load the model by its path")
    path, length = folder / location, bytes_of(tensor)
    try:
        _check_inside(tensor.name, location, folder)
        size = path.stat().st_size if path.is_file() else None
    except OSError:  # too long a name, say
        size = None
    if size is None:
        raise ImportModelError(f"the data of tensor {tensor.name!r} cannot be read from "
                               f"{location!r:.200}, which is not a file")
    try:
        offset = int(where.get("offset", 0))
        stated_length = int(where.get("length", size - offset))
    except ValueError:
        offset = stated_length = -1
    if stated_length != length or not 0 <= offset <= size - length:
        raise ImportModelError(
            f"tensor {tensor.name!r} needs {length} bytes, but its entry points to "
            f"{where.get('length', 'all')} bytes at offset {where.get('offset', 0)} of "
            f"{location!r}, which has {size}",
            "the file is damaged, truncated, or belongs to another model")
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
        raise ImportModelError(f"the data of tensor {name!r} are outside of the model's folder or "
                               f"behind a link: {location!r}",
                               "data are read only from regular files in the model's folder")
