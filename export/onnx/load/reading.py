"""Files: the bytes of a model, and data that lie beside it, in its folder only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....eager.errors import ImportModelError


def read(model: Any) -> Any:
    """The ModelProto of a path or of bytes, with its external data."""
    folder = None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ImportModelError(f"{path} cannot be read: {error.strerror or error}",
                                   "load takes the path of an ONNX file") from error
        folder = path.parent
    elif isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
    else:
        raise ImportModelError(f"load takes a path, bytes or an onnx.ModelProto, not "
                               f"{type(model).__name__}")
    proto = _parsed(data)
    check_texts(proto)
    for tensor in _tensors(proto):
        if tensor.data_location == tensor.EXTERNAL:
            _with_data(tensor, folder)
    return proto


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


def check_texts(message: Any) -> None:
    """ImportModelError where a name in the file is no text."""
    for field in message.DESCRIPTOR.fields:
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue  # the data of tensors, which may be long
        found = getattr(message, field.name)
        if field.type == field.TYPE_MESSAGE and not _is_repeated(found):
            found = [found] if message.HasField(field.name) else []
        for value in found if _is_repeated(found) else [found]:
            if field.type == field.TYPE_MESSAGE:
                check_texts(value)
            elif not isinstance(value, str):
                raise ImportModelError(f"{field.name} is {value!r:.60}, which is no text",
                                       "the file is damaged")


def _is_repeated(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and hasattr(value, "__len__")


def _tensors(proto: Any) -> Iterator[Any]:
    """Every tensor of a model."""
    from onnx import external_data_helper

    yield from external_data_helper._get_all_tensors(proto)


def _with_data(tensor: Any, folder: Path | None) -> None:
    """Reads a tensor's data from the file that it names, which must lie below `folder`."""
    from onnx import external_data_helper

    where = {entry.key: entry.value for entry in tensor.external_data}
    location = where.get("location", "")
    if folder is None:
        raise ImportModelError(f"the data of tensor {tensor.name!r} lie in the file {location!r}",
                               "load the model by its path")
    _check_inside(tensor.name, location, folder)
    try:
        external_data_helper.load_external_data_for_tensor(tensor, str(folder))
    except Exception as error:  # its errors are of many kinds, all of them the file's fault
        raise ImportModelError(f"the data of tensor {tensor.name!r} cannot be read from "
                               f"{location!r}: {error}") from error
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
