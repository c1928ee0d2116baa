"""The loader of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .....eager.utils import data as _plain
from ...base.tensor_class import retag

default_collate = _plain.default_collate


class DataLoader(_plain.DataLoader[Any]):
    """Iterates over batches of a data set; each pass over the loader is a pass over the data."""

    __module__ = "fusewire.torch.utils.data"

    def __iter__(self) -> Iterator[Any]:
        return map(retag, super().__iter__())
