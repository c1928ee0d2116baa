"""Reads and writes safetensors files, and explains other formats.

The format: https://github.com/huggingface/safetensors#format. A file cannot run code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays.dtypes import (
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
)
from ..errors import DTypeError, FusewireError, StateError

METADATA = "__metadata__"  # the one name that no array can have
# Dtypes that the format lacks, and what to save in their place.
LACKING = {"complex128": "fw.real(x) and fw.imag(x), or x.astype(fw.complex64)",
           "float4_e2m1fn": "x.astype(fw.float8_e4m3fn), which holds the same numbers",
           **dict.fromkeys(("int4", "uint4", "int2", "uint2"),
                           "x.astype(fw.int8), which holds the same numbers")}
# Dtypes that the library writes and does not read, by their names in files.
_FLOATS8 = {"F8_E4M3": float8_e4m3fn, "F8_E5M2": float8_e5m2, "F8_E4M3FNUZ": float8_e4m3fnuz,
            "F8_E5M2FNUZ": float8_e5m2fnuz, "F8_E8M0": float8_e8m0fnu}


def write(path: str, arrays: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Writes a file with `arrays` and the texts of `metadata`."""
    from safetensors.numpy import save_file

    for name, array in arrays.items():
        if array.dtype.name in LACKING:
            raise DTypeError(
                f"save: tensor {name!r} is {array.dtype.name}, which the format does not have",
                f"save {LACKING[array.dtype.name]}")
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    save_file(whole, path, dict(metadata))


def _float8(path: str, key: str) -> Any:
    """The array of a tensor of 8-bit floats, from its bytes in a file that the library accepts."""
    with open(path, "rb") as file:
        start = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(start))[key]
    begin, end = entry["data_offsets"]
    codes = np.fromfile(path, np.uint8, end - begin, offset=8 + start + begin)
    return codes.view(_FLOATS8[entry["dtype"]]).reshape(entry["shape"])


def read(path: str, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and the metadata of a file; `name` stands for it in errors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return ({key: _array(file, path, key, name) for key in file.keys()},
                    file.metadata() or {})
    except (SafetensorError, ValueError) as error:  # ValueError: a shape that NumPy cannot have
        raise unreadable(path, name, str(error)) from None


class PartReader:
    """Reads parts of the arrays of one file; `name` stands for the file in errors."""

    def __init__(self, path: str, name: str) -> None:
        from safetensors import SafetensorError, safe_open

        self._path, self._name = path, name
        try:
            self._file = safe_open(path, framework="numpy")
        except SafetensorError as error:
            raise unreadable(path, name, str(error)) from None

    def read(self, key: str, index: tuple[slice, ...]) -> Any:
        """The elements at `index` of one array; no others are read."""
        from safetensors import SafetensorError

        try:
            return _array(self._file, self._path, key, self._name, index)
        except (SafetensorError, ValueError) as error:
            raise unreadable(self._path, self._name, str(error)) from None


def _array(file: Any, path: str, key: str, name: str, index: Any = None) -> Any:
    try:
        if file.get_slice(key).get_dtype() in _FLOATS8:
            whole = _float8(path, key)
            return whole if index is None else whole[index]
        return file.get_tensor(key) if not index else file.get_slice(key)[index]
    except OverflowError as error:
        raise ValueError(f"tensor {key!r}: {error}") from None
    except (TypeError, AttributeError):  # a dtype that NumPy does not know
        raise DTypeError(f"{name}: tensor {key!r} is {file.get_slice(key).get_dtype()}, which is "
                         "no dtype here", "cast it where the file was written") from None


# ---- other formats
_TORCH = ("convert it where PyTorch is: safetensors.torch.save_file(torch.load(file, "
          "weights_only=True), 'model.safetensors')")
_KINDS = (  # first bytes, bytes near the start, name of the format, advice
    (b"PK\x03\x04", b"data.pkl", "PyTorch's own (a zip with a pickle)", _TORCH),
    (b"PK\x03\x04", b".npy", "NumPy's .npz", "read it with np.load, and fw.tensor each array"),
    (b"PK\x03\x04", b"", "a zip", ""),
    (b"\x80", b"", "a pickle, perhaps PyTorch's own", _TORCH),
    (b"\x93NUMPY", b"", "NumPy's .npy", "read it with fw.tensor(np.load(file))"),
    (b"\x89HDF", b"", "HDF5", ""), (b"GGUF", b"", "GGUF", ""),
    (b"version https://git-lfs", b"", "a pointer of Git LFS", "get the file itself: git lfs pull"),
    (b"<", b"", "HTML or XML", "the download is a web page, not the file: get the file itself"),
)


def unreadable(path: str, name: str, what: str) -> FusewireError:
    """The error for a file that the library cannot read, for the reason `what`."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if head[8:9] == b"{":  # a header with a valid start
        return StateError(f"{name} is a broken or incomplete safetensors file: {what}",
                          "if it was copied or downloaded, get it again")
    kind, help = _kind_of(head)
    return StateError(f"{name} is not a safetensors file" + (f": it is {kind}" if kind else ""),
                      help or "fw.load reads files that fw.save or safetensors wrote")


def _kind_of(head: bytes) -> tuple[str, str]:
    for begin, part, kind, help in _KINDS:
        if head.startswith(begin) and part in head:
            return kind, help
    return ("cut off" if head else "empty", "") if len(head) < 9 else ("", "")
