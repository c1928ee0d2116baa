"""Reads the file format of MNIST, and data sets in it."""

from __future__ import annotations

import math
import struct

import numpy as np

import fusewire as fw
from fusewire.utils.data import TensorDataset

from .files import StrPath, damaged, first_existing, read_bytes

_DTYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: StrPath) -> fw.Tensor:
    """The tensor in an IDX file, with or without gzip, in the byte order of the machine.

    Source: the page of MNIST by LeCun, Cortes and Burges.

    Raises:
        FileError: the file is missing or damaged.

    Example:
        >>> import fusewire as fw, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "labels")
        >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
        >>> fw.data.read_idx(path)
        tensor([7, 9], dtype=uint8)
    """
    data = read_bytes(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _DTYPES:
        raise damaged(path, f"its first bytes {data[:4].hex(' ')} are not those of IDX")
    axes = data[3]
    if len(data) < 4 + 4 * axes:
        raise damaged(path, f"it ends inside of the {axes} sizes")
    shape = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
    dtype = np.dtype(_DTYPES[data[2]])
    wanted, found = math.prod(shape) * dtype.itemsize, len(data) - 4 - 4 * axes
    if wanted != found:
        raise damaged(path, f"it has {found} bytes of elements, the shape {shape} needs {wanted}")
    array = np.frombuffer(data, dtype, offset=4 + 4 * axes).reshape(shape)
    return fw.asarray(array.astype(dtype.newbyteorder("=")))


def mnist(folder: StrPath, train: bool = True) -> TensorDataset:
    """The images (n, 1, 28, 28) of uint8 and classes (n,) of int64 of MNIST.

    Data sets with the same file names, such as Fashion-MNIST, are read too. Nothing is downloaded.

    Args:
        folder: has train-images-idx3-ubyte, train-labels-idx1-ubyte and those of t10k, with or
            without .gz.
        train: the 60,000 images of the training set, or the 10,000 of the test set. Default True.

    Raises:
        FileError: a file is missing or damaged.

    Example:
        >>> import fusewire as fw
        >>> images, classes = fw.data.mnist("mnist")[0]  # doctest: +SKIP
    """
    part = "train" if train else "t10k"
    images, labels = (read_idx(first_existing(
        folder, [f"{part}-{kind}{dot}idx{axes}-ubyte{end}" for end in ("", ".gz")
                 for dot in ("-", ".")],
        "copy the files of MNIST there")) for kind, axes in (("images", 3), ("labels", 1)))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise damaged(folder, f"images {images.shape} and labels {labels.shape} do not fit")
    return TensorDataset(images.expand_dims(1), labels.astype(fw.int64))
