"""Writes and reads files of saved programs: safetensors with a digest and the processor's features.

Any reader of the format finds the tensors of the state under their names. Object code and
constants are tensors, too. All other data is JSON in the metadata.
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
from ...eager.files import safetensors_file
from ...eager.files.atomic_files import replacing

FORMAT = 9
"""The number of the format. Raise it if other versions would read new files wrongly, such as after
a change of the description or of the calling convention of object code (see
docs/how_to/deploy/saved_programs.md)."""

_DIGEST_PREFIX = b"sha256:"
_BLANK_DIGEST = _DIGEST_PREFIX + b"0" * 64
_HELP = "save it again, or get another copy"


def write(path: Any, arrays: Mapping[str, Any], description: Any, target: Target, version: str
          ) -> None:
    """Writes a file atomically."""
    facts = {"format": FORMAT, "version": version, "triple": target.triple, "cpu": target.cpu,
             "needs": sorted(target.needs)}
    metadata = {"fusewire.saved": json.dumps(facts), "fusewire.digest": _BLANK_DIGEST.decode(),
                "fusewire.program": json.dumps(description)}
    with replacing(os.path.realpath(path)) as temporary:
        safetensors_file.write(temporary, arrays, metadata)
        seal(temporary)


def seal(path: str) -> None:
    """Writes the digest of a file into the file."""
    with open(path, "rb+") as file:
        raw = bytearray(file.read())
        offset = _digest_offset(raw)
        raw[offset:offset + len(_BLANK_DIGEST)] = _BLANK_DIGEST
        file.seek(offset)
        file.write(_DIGEST_PREFIX + hashlib.sha256(raw).hexdigest().encode())


def _digest_offset(raw: bytes | bytearray) -> int:
    """The offset of the digest in a file. ValueError if the file has none."""
    end = 8 + int.from_bytes(raw[:8], "little")
    offset = raw.index(b'"fusewire.digest":"' + _DIGEST_PREFIX, 8, end)
    return offset + len(b'"fusewire.digest":"')


def read(path: Any) -> tuple[dict[str, Any], Any]:
    """The arrays of a file, each as its bytes, and the description. ImportModelError if the file is
    damaged, or is for another version or machine."""
    with open(path, "rb") as file:
        raw = file.read()
    label = repr(os.fspath(path))
    try:
        end = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:end])
        offset = _digest_offset(raw)
        facts = json.loads(header[safetensors_file.METADATA]["fusewire.saved"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _no_program(path, label, raw) from None
    blank = raw[:offset] + _BLANK_DIGEST + raw[offset + len(_BLANK_DIGEST):]
    digest = _DIGEST_PREFIX + hashlib.sha256(blank).hexdigest().encode()
    if raw[offset:offset + len(_BLANK_DIGEST)] != digest:
        raise ImportModelError(f"{label} is damaged: its digest does not match its contents",
                               _HELP)
    _check(facts, label)
    data = np.frombuffer(raw, np.uint8)
    arrays = {name: data[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]].copy()
              for name, entry in header.items() if name != safetensors_file.METADATA}
    return arrays, json.loads(header[safetensors_file.METADATA]["fusewire.program"])


def _no_program(path: Any, label: str, raw: bytes) -> Exception:
    if raw[8:9] == b"{" and b'"fusewire.digest"' not in raw[:1 << 20] and b'"__metadata__"' in raw:
        return ImportModelError(f"{label} is a safetensors file, but no saved program",
                                "fw.load reads checkpoints; f.save(path) writes programs")
    if raw[8:9] == b"{":
        return ImportModelError(f"{label} is damaged or incomplete", _HELP)
    return safetensors_file.unreadable(os.fspath(path), label, "no header")


def _check(facts: Mapping[str, Any], label: str) -> None:
    """Raises ImportModelError if this version or this machine cannot run a file."""
    if facts["format"] != FORMAT:
        raise ImportModelError(
            f"{label} was saved by fusewire {facts['version']} in format {facts['format']}; this "
            f"version reads format {FORMAT}", "save it again with this version")
    here = host()
    if facts["triple"] != here.triple:
        raise ImportModelError(f"{label} was saved for {facts['triple']} ({facts['cpu']}); this "
                               f"machine is {here.triple} ({here.cpu})",
                               "save it on a machine of this kind")
    lacking = sorted(set(facts["needs"]) - features_here())
    if lacking:
        raise ImportModelError(
            f"{label} was saved for the processor {facts['cpu']}; this one, {here.cpu}, lacks "
            f"{', '.join(lacking)}", "save it with FUSEWIRE_CPU=x86-64-v3, or another processor "
            "whose features all machines have")
