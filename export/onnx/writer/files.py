"""A model as files: one below 2 GB, which is what protobuf can hold, else another with its data."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIMIT = 2 ** 31 - 2 ** 20  # bytes of data in one protobuf message, with room for all else
_INSIDE = 1024  # bytes of a constant that stays in the model in any case
_PAGE = 4096  # where data begins: a runtime may map the file into memory


class Files:
    """The files of a model, beside where they shall be until they are put there."""

    def __init__(self, model: Any, path: str | os.PathLike[str]) -> None:
        self.model, self.target = model, Path(path)
        mark = f".{self.target.name}.{os.getpid()}.{threading.get_ident()}"
        self.folder = self.target.with_name(mark)
        self.apart = sum(len(t.raw_data) for t in model.graph.initializer) > LIMIT
        self.folder.mkdir()
        if self.apart:
            self._write_data()

    @property
    def file(self) -> Path:
        """The model where it is until then."""
        return self.folder / self.target.name

    @property
    def data(self) -> Path:
        """The file with its data, where there is one."""
        return self.folder / f"{self.target.name}.data"

    def loadable(self) -> bytes | str:
        """What a runtime loads."""
        if not self.apart:
            return bytes(self.model.SerializeToString(deterministic=True))
        self._write_model()
        return str(self.file)

    def put(self) -> int:
        """Puts the files in place, each in one step: a reader finds the old one or the new one,
        never half of it. The bytes that they have."""
        self._write_model()
        made = [self.data, self.file] if self.apart else [self.file]
        size = sum(f.stat().st_size for f in made)
        for file in made:
            os.replace(file, self.target.with_name(file.name))
        return size

    def _write_model(self) -> None:
        self.file.write_bytes(self.model.SerializeToString(deterministic=True))

    def _write_data(self) -> None:
        """Moves what is large from the model into a file of its own."""
        from onnx.external_data_helper import set_external_data

        with self.data.open("wb") as out:
            for tensor in self.model.graph.initializer:
                length = len(tensor.raw_data)
                if length < _INSIDE:
                    continue
                out.write(bytes(-out.tell() % _PAGE))
                set_external_data(tensor, self.data.name, out.tell(), length)
                out.write(tensor.raw_data)
                tensor.ClearField("raw_data")


@contextlib.contextmanager
def files(model: Any, path: str | os.PathLike[str]) -> Iterator[Files]:
    """A context that gives the files of a model; those not put in place are gone after it."""
    made = Files(model, path)
    try:
        yield made
    finally:
        shutil.rmtree(made.folder, ignore_errors=True)
