"""Reads and writes safetensors files, and explains other formats.

The format: https://github.com/huggingface/safetensors#format. A file cannot run code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import DTypeError, FusewireError, StateError

METADATA = "__metadata__"  # the one name that no array can have
LACKING = ("complex128",)  # dtypes that the format lacks


def write(path: str, arrays: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Writes a file with `arrays` and the texts of `metadata`."""
    from safetensors.numpy import save_file

    for name, array in arrays.items():
        if array.dtype.name in LACKING:
            raise DTypeError(
                f"save: tensor {name!r} is {array.dtype.name}, which the format does not have",
                "save fw.real(x) and fw.imag(x), or x.astype(fw.complex64)")
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    save_file(whole, path, dict(metadata))


def read(path: str, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and the metadata of a file; `name` stands for it in errors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return {key: _array(file, key, name) for key in file.keys()}, file.metadata() or {}
    except (SafetensorError, ValueError) as error:  # ValueError: a shape that NumPy cannot have
        raise unreadable(path, name, str(error)) from None


def _array(file: Any, key: str, name: str) -> Any:
    try:
        return file.get_tensor(key)
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
