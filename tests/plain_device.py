"""Provides the base of test devices, with memory of NumPy and without graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusewire.codegen.cuda.runtime.protocol import BufferAddresses
from fusewire.codegen.gpu.cost_model import FIRST_CANDIDATE, CandidateChoice


class PlainDevice:
    """A device whose arrays are NumPy's."""

    choice: CandidateChoice = FIRST_CANDIDATE
    bandwidth = 1e9

    def upload(self, array: Any) -> Any:
        return np.array(array, order="C")

    copy = upload

    def write(self, array: Any, values: Any) -> None:
        array[...] = values

    def is_free(self, arrays: list[Any], which: int) -> bool:
        return False

    def addresses(self, arrays: Sequence[Any]) -> BufferAddresses | None:
        return None

    def capture(self, work: Callable[[], None], arrays: Sequence[Any]) -> Any:
        raise NotImplementedError
