"""Opens files of data, with errors that name the file and the fault."""

from __future__ import annotations

import gzip
import importlib
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fusewire as fw

StrPath = str | os.PathLike[str]


class FileError(fw.FusewireError, OSError):
    """Raised for a file of data that is missing or damaged; the message names the file."""


def existing(path: StrPath, help: str = "") -> Path:
    """The path of a file or folder that exists.

    Raises:
        FileError: there is none.
    """
    found = Path(path)
    if found.exists():
        return found
    parent = next((p for p in found.parents if p.exists()), Path())
    raise FileError(f"{found} does not exist; {parent} does", help or "correct the path")


def first_existing(folder: StrPath, names: Iterable[str], help: str) -> Path:
    """The first of several files that is in a folder.

    Raises:
        FileError: none is.
    """
    listed = list(names)
    for name in listed:
        if (existing(folder) / name).exists():
            return Path(folder) / name
    raise FileError(f"{folder} has none of {', '.join(listed)}", help)


def read_bytes(path: StrPath) -> bytes:
    """The contents of a file; a file of gzip is unpacked, also if its name does not end in .gz.

    Raises:
        FileError: there is no such file, or it is damaged.
    """
    found = existing(path)
    try:
        data = found.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(found, error) from error


def damaged(path: StrPath, reason: object) -> FileError:
    """An error for a file that cannot be read, with the reason."""
    text = str(reason).replace(str(path), "it").strip() or type(reason).__name__
    return FileError(f"{path} cannot be read: {text}",
                     "it is damaged or of another format: fetch it again")


def package(name: str, purpose: str) -> Any:
    """A package of the extra `data`.

    Raises:
        StateError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise fw.StateError(f"{purpose} need the package {name.partition('.')[0]}",
                            'pip install "fusewire[data]"') from None
