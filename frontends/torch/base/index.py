"""Reads and writes elements in PyTorch's order of axes: integers of an index select first.

In NumPy, an integer beside a list or tensor is one of the indexed axes, which come first in the
result if they are not adjacent: `x[0, :, [1, 2]]` has the axis of `[1, 2]` first, in PyTorch last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....eager.core.tensor import Tensor as Plain

_SIMPLE = {int, slice, type(None), type(Ellipsis)}


def selected(x: Any, index: Any) -> tuple[Any, Any]:
    """(view, rest) with `x[index]` equal to `view[rest]`, whose integers are gone if it has lists
    or tensors beside them."""
    if type(index) is not tuple or _SIMPLE.issuperset(map(type, index)) \
            or all(map(_is_basic, index)) or not any(map(_is_integer, index)):
        return x, index
    first: list[Any] = []
    for item in index:
        first += [item] if _is_integer(item) or item is Ellipsis else [slice(None)] * _width(item)
    return Plain.__getitem__(x, tuple(first)), tuple(i for i in index if not _is_integer(i))


def _is_integer(item: Any) -> bool:
    if isinstance(item, Plain):
        return item.ndim == 0 and item.dtype.kind in "iu" and item.dtype != np.uint8
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _is_basic(item: Any) -> bool:
    return item is None or item is Ellipsis or isinstance(item, slice) or _is_integer(item)


def _width(item: Any) -> int:
    """The number of axes that an item of an index stands for."""
    if item is None:
        return 0
    return item.ndim if isinstance(item, Plain) and item.dtype.kind == "b" else 1
