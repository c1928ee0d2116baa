"""Defines the functions with which the source of If, Loop and Scan is written."""

from __future__ import annotations

from typing import Any

from .....eager.ops.create import zeros
from .....eager.ops.shape.join import stack
from ..runtime import limits, values
from ..runtime.table import Tensor
from .shapes import along

__all__: list[str] = []

_LIST_ENTRY_BYTES = 1 << 10  # counted for each element that an iteration adds to a list


def number(value: Any) -> Any:
    """A Python number: of a size, or a tensor with one element."""
    return values.number(value)


def iteration(lists: int = 0) -> None:
    """Starts a loop iteration, which adds an element to each of `lists` lists.

    Raises LimitError if the time is up or the lists need too much memory.
    """
    meter = limits.current()
    if meter is not None:
        meter.tick()
        meter.take(lists * _LIST_ENTRY_BYTES, "the list of scanned values")


def length(x: Any, axis: int = 0) -> Any:
    """The size of an axis."""
    return values.tensor_of(x).shape[axis]


def slices(x: Any, axis: int, backward: bool) -> list[Tensor]:
    """The slices of a tensor along an axis; from the last one on if `backward`."""
    x = values.tensor_of(x)
    indices = range(x.shape[axis])
    return [along(x, axis, i) for i in (reversed(indices) if backward else indices)]


def stacked(iterations: list[Any], axis: int, code: int, shape: tuple[int, ...]) -> Tensor:
    """The values of a loop's iterations, stacked along a new axis.

    Without iterations, an empty tensor of the type `code` and shape.
    """
    if not iterations:
        return zeros((0, *shape), dtype=values.type_name(code))
    return stack([values.tensor_of(t) for t in iterations], axis)


def result(value: Any) -> Any:
    """A value as an output of the model: sizes become tensors."""
    return [result(v) for v in value] if isinstance(value, list) else \
        value if values.is_texts(value) else values.tensor_of(value)
