"""Reads and writes the files of a checkpoint: parts of tensors, other values, and an index.

A folder holds one checkpoint. The index names its files and is replaced last, so the folder has the
old checkpoint or the whole new one at any moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...eager.errors import StateError
from ...eager.files.atomic_files import replacing
from ...eager.files.safetensors_file import PartReader, write
from ...eager.front.serialization import load as load_file
from .placement import Box, Placement, whole_of

INDEX = "index.json"
_VERSION = 1
_OURS = re.compile(r"[0-9a-f]{12}\.(rank\d{5}|values)\.safetensors")


class StoredPart(NamedTuple):
    """A part of a tensor under `key` in a file: an array of the shape of its box, or a row of
    elements."""

    file: str
    key: str
    placement: Placement


class StoredCheckpoint:
    """A checkpoint in a folder: `tensors` has the parts of each tensor by name, `values` the rest.

    StateError if the folder has no checkpoint, or a later version wrote it.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        path = os.path.join(folder, INDEX)
        if not os.path.isfile(path):
            raise StateError(f"checkpoint: there is no checkpoint in {folder!r}",
                             f"give a folder to which checkpoint.save wrote: it has {INDEX!r}")
        with open(path, encoding="utf-8") as file:
            index = _checked(path, file.read())
        self.tensors = {name: [StoredPart(p["file"], p["key"], Placement.from_json(p["placement"]))
                               for p in parts] for name, parts in index["tensors"].items()}
        self.values: Any = load_file(os.path.join(folder, index["values"]))
        self._files: dict[str, PartReader] = {}  # open ones, by name

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a whole tensor."""
        return self.tensors[name][0].placement.whole

    def read(self, name: str, target: Box) -> Any:
        """The elements of a tensor in a box, from all files that have some of them."""
        found: Any = None
        for stored in self.tensors[name]:
            for box in stored.placement.boxes():
                shared = target.shared(box)
                if shared is not None:
                    data = self._read(stored, box, shared[1])
                    found = np.empty(target.shape, data.dtype) if found is None else found
                    found[shared[0]] = data
        return found

    def _read(self, stored: StoredPart, box: Box, index: tuple[slice, ...]) -> Any:
        if stored.file not in self._files:
            path = os.path.join(self.folder, stored.file)
            self._files[stored.file] = PartReader(path, repr(path))
        file = self._files[stored.file]
        if stored.placement.end is None:
            return file.read(stored.key, index)
        return file.read(stored.key, (slice(box.begin, box.end),)).reshape(box.shape)[index]


class LoadedFile:
    """A file that fw.save wrote on one process, with the interface of StoredCheckpoint.

    `numbers` has, for each entry that is an optimizer, the names of its parameters in order.
    """

    def __init__(self, path: str, modules: list[str], numbers: Mapping[str, list[str]]) -> None:
        held = load_file(path)
        if not isinstance(held, dict) or not all(isinstance(held.get(m), dict) for m in modules):
            raise StateError(f"checkpoint: {path!r} has no entries {modules}",
                             'save {"model": model.state_dict(), ...} under the names with which '
                             "you load it")
        self._arrays: dict[str, Any] = {}
        self.values: Any = {k: v for k, v in held.items() if k not in modules and k not in numbers}
        for entry in modules:
            self._arrays |= {f"{entry}.{name}": x for name, x in held[entry].items()}
        for entry, names in numbers.items():
            self._add_optimizer(path, entry, held.get(entry), names)
        self.tensors: dict[str, Any] = dict.fromkeys(self._arrays)

    def _add_optimizer(self, path: str, entry: str, saved: Any, names: list[str]) -> None:
        groups: list[Any] = saved.get("param_groups", []) if isinstance(saved, dict) else []
        if len(groups) != 1 or len(groups[0]["params"]) != len(names):
            raise StateError(
                f"checkpoint: {entry!r} of {path!r} must be the state of an optimizer with one "
                f"group of {len(names)} parameters, it has groups of "
                f"{[len(g['params']) for g in groups]}", "save it by checkpoint.save, which notes "
                "the names of parameters")
        for number, name in zip(groups[0]["params"], names):
            self._arrays |= {f"{entry}.{name}.{key}": value
                             for key, value in saved["state"].get(number, {}).items()}
        settings = {k: v for k, v in groups[0].items() if k != "params"}
        self.values[entry] = [{"settings": settings, "names": names}]

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self._arrays[name].shape)

    def read(self, name: str, target: Box) -> Any:
        """The elements of a tensor in a box."""
        array = self._arrays[name].numpy()
        (whole,) = whole_of(array.shape).boxes()
        shared = target.shared(whole)
        return None if shared is None else array[shared[1]]


def _checked(path: str, text: str) -> dict[str, Any]:
    """The contents of an index."""
    try:
        index: dict[str, Any] = json.loads(text)
        version = index["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"checkpoint: {path!r} is not the index of a checkpoint: {error!r}",
                         "give a folder to which checkpoint.save wrote") from None
    if version != _VERSION:
        raise StateError(f"checkpoint: {path!r} was written by another version, in format "
                         f"{version}", f"this version reads {_VERSION}: update fusewire")
    return index


def write_part_file(folder: str, name: str, arrays: Mapping[str, Any]) -> None:
    """Writes a file of parts of tensors, which no other file has the name of."""
    path = os.path.join(folder, name)
    write(path, arrays, {"format": "pt"})
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def write_index(folder: str, tensors: Mapping[str, list[StoredPart]], values: str) -> None:
    """Replaces the index of a folder: from now on it has the new checkpoint."""
    listed = {name: [{"file": p.file, "key": p.key, "placement": p.placement.as_json()}
                     for p in parts] for name, parts in tensors.items()}
    index = {"version": _VERSION, "values": values, "tensors": listed}
    with replacing(os.path.join(os.path.realpath(folder), INDEX)) as path, \
            open(path, "w", encoding="utf-8") as file:
        json.dump(index, file)


def remove_others(folder: str, save: str) -> None:
    """Removes the files of other saves, which the index no longer names."""
    for name in os.listdir(folder):
        if _OURS.fullmatch(name) and not name.startswith(save):
            with contextlib.suppress(OSError):
                os.remove(os.path.join(folder, name))
