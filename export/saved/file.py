"""A saved program as a file: safetensors, with a digest of all of it and what it needs to run.

The tensors of the state are there under their names, for any reader of the format; object code and
constants are tensors as well; all else is JSON in the metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...codegen.runtime.target import Target, features_here, host
from ...eager.errors import ImportModelError
from ...eager.front import safetensors_file
from ...eager.front.atomic_files import replacing

FORMAT = 2
"""The number of the format. It changes with anything that an older or a newer version would read
wrongly: the description, and how object code is called (see docs/saved.md)."""

_MARK = b"sha256:"
_BLANK = _MARK + b"0" * 64
_AGAIN = "save it again, or get another copy"


def write(path: Any, arrays: Mapping[str, Any], description: Any, target: Target, version: str
          ) -> None:
    """Writes a file, as a whole or not at all."""
    about = {"format": FORMAT, "version": version, "triple": target.triple, "cpu": target.cpu,
             "needs": sorted(target.needs)}
    metadata = {"fusewire.saved": json.dumps(about), "fusewire.digest": _BLANK.decode(),
                "fusewire.program": json.dumps(description)}
    with replacing(os.path.realpath(path)) as made:
        safetensors_file.write(made, arrays, metadata)
        seal(made)


def seal(path: str) -> None:
    """Writes the digest of a file into it."""
    with open(path, "rb+") as file:
        raw = bytearray(file.read())
        place = _place(raw)
        raw[place:place + len(_BLANK)] = _BLANK
        file.seek(place)
        file.write(_MARK + hashlib.sha256(raw).hexdigest().encode())


def _place(raw: bytes | bytearray) -> int:
    """Where in a file its digest is; ValueError where there is none."""
    end = 8 + int.from_bytes(raw[:8], "little")
    place = raw.index(b'"fusewire.digest":"' + _MARK, 8, end)
    return place + len(b'"fusewire.digest":"')


def read(path: Any) -> tuple[dict[str, Any], Any]:
    """The arrays of a file, each as its bytes, and the description. ImportModelError where the file
    is damaged, or not for this version or this machine."""
    with open(path, "rb") as file:
        raw = file.read()
    shown = repr(os.fspath(path))
    try:
        end = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:end])
        place = _place(raw)
        about = json.loads(header[safetensors_file.METADATA]["fusewire.saved"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _no_program(path, shown, raw) from None
    blank = raw[:place] + _BLANK + raw[place + len(_BLANK):]
    found = _MARK + hashlib.sha256(blank).hexdigest().encode()
    if raw[place:place + len(_BLANK)] != found:
        raise ImportModelError(f"{shown} is damaged: its digest is not that of what it holds",
                               _AGAIN)
    _check(about, shown)
    whole = np.frombuffer(raw, np.uint8)
    arrays = {name: whole[end + at["data_offsets"][0]:end + at["data_offsets"][1]].copy()
              for name, at in header.items() if name != safetensors_file.METADATA}
    return arrays, json.loads(header[safetensors_file.METADATA]["fusewire.program"])


def _no_program(path: Any, shown: str, raw: bytes) -> Exception:
    if raw[8:9] == b"{" and b'"fusewire.digest"' not in raw[:1 << 20] and b'"__metadata__"' in raw:
        return ImportModelError(f"{shown} is a safetensors file, but no saved program",
                                "fw.load reads checkpoints, f.save(path) writes programs")
    if raw[8:9] == b"{":
        return ImportModelError(f"{shown} is damaged or incomplete", _AGAIN)
    return safetensors_file.unreadable(os.fspath(path), shown, "no header")


def _check(about: Mapping[str, Any], shown: str) -> None:
    """Raises what keeps a file from being run here."""
    if about["format"] != FORMAT:
        raise ImportModelError(
            f"{shown} was saved by fusewire {about['version']} in format {about['format']}; this "
            f"version reads format {FORMAT}", "save it again with this version, from its source")
    here = host()
    if about["triple"] != here.triple:
        raise ImportModelError(f"{shown} was saved for {about['triple']} ({about['cpu']}); this "
                               f"machine is {here.triple} ({here.cpu})",
                               "save it on a machine of this kind")
    lacking = sorted(set(about["needs"]) - features_here())
    if lacking:
        raise ImportModelError(
            f"{shown} was saved for the processor {about['cpu']}; this one, {here.cpu}, lacks "
            f"{', '.join(lacking)}", "save it with FUSEWIRE_CPU=x86-64-v3, or another processor "
            "that all machines have in common")
