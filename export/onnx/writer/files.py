"""Writes a model as one file, or above protobuf's limit of 2 GB as a file and a data file."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIMIT = 2 ** 31 - 2 ** 20  # bytes of data in one protobuf message, with room for the rest
_MIN_EXTERNAL_BYTES = 1024  # smaller constants always stay in the model
_PAGE = 4096  # alignment of data in the file, so that a runtime may map it into memory


class Files:
    """The files of a model, in a temporary folder beside their target until `publish`."""

    def __init__(self, model: Any, path: str | os.PathLike[str]) -> None:
        self.model, self.target = model, Path(path)
        name = f".{self.target.name}.{os.getpid()}.{threading.get_ident()}"
        self.folder = self.target.with_name(name)
        self.has_data_file = sum(len(t.raw_data) for t in model.graph.initializer) > LIMIT
        self.folder.mkdir()
        if self.has_data_file:
            self._write_data()

    @property
    def file(self) -> Path:
        """The temporary file of the model."""
        return self.folder / self.target.name

    @property
    def data(self) -> Path:
        """The temporary file of its data, if it has one."""
        return self.folder / f"{self.target.name}.data"

    def loadable(self) -> bytes | str:
        """A form that runtimes load: the model's bytes, or the path of its temporary file."""
        if not self.has_data_file:
            return bytes(self.model.SerializeToString(deterministic=True))
        self._write_model()
        return str(self.file)

    def publish(self) -> int:
        """Moves each file to its target atomically, and returns their total size in bytes.

        A reader finds the old file or the new one, never a part of it.
        """
        self._write_model()
        files = [self.data, self.file] if self.has_data_file else [self.file]
        size = sum(f.stat().st_size for f in files)
        for file in files:
            os.replace(file, self.target.with_name(file.name))
        return size

    def _write_model(self) -> None:
        self.file.write_bytes(self.model.SerializeToString(deterministic=True))

    def _write_data(self) -> None:
        """Moves large constants from the model into the data file."""
        from onnx.external_data_helper import set_external_data

        with self.data.open("wb") as out:
            for tensor in self.model.graph.initializer:
                length = len(tensor.raw_data)
                if length < _MIN_EXTERNAL_BYTES:
                    continue
                out.write(bytes(-out.tell() % _PAGE))
                set_external_data(tensor, self.data.name, out.tell(), length)
                out.write(tensor.raw_data)
                tensor.ClearField("raw_data")


@contextlib.contextmanager
def files(model: Any, path: str | os.PathLike[str]) -> Iterator[Files]:
    """A context with the files of a model; files that were not published are deleted after it."""
    unpublished = Files(model, path)
    try:
        yield unpublished
    finally:
        shutil.rmtree(unpublished.folder, ignore_errors=True)
