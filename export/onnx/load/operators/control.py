"""What If, Loop and Scan are written with."""

from __future__ import annotations

from typing import Any

from .....eager.ops.create import zeros
from .....eager.ops.shape.join import stack
from ..runtime import limits, values
from ..runtime.table import Tensor
from .shapes import along

__all__: list[str] = []

_ENTRY = 1 << 10  # bytes that count for what an iteration adds to a list


def number(value: Any) -> Any:
    """A plain number of a size or a tensor with one element."""
    return values.number(value)


def iteration(lists: int = 0) -> None:
    """Begins an iteration of a loop, which adds to so many lists: LimitError where the model has
    taken too much by then."""
    meter = limits.current()
    if meter is not None:
        meter.tick()
        meter.take(lists * _ENTRY, "what iterations leave")


def length(x: Any, axis: int = 0) -> Any:
    """The size of an axis."""
    return values.tensor_of(x).shape[axis]


def slices(x: Any, axis: int, backward: bool) -> list[Tensor]:
    """The slices of a tensor along an axis, from the last one on where `backward`."""
    x = values.tensor_of(x)
    order = range(x.shape[axis])
    return [along(x, axis, i) for i in (reversed(order) if backward else order)]


def stacked(turns: list[Any], axis: int, code: int, shape: tuple[int, ...]) -> Tensor:
    """What the turns of a loop gave, along a new axis; of that type and shape where none ran."""
    if not turns:
        return zeros((0, *shape), dtype=values.type_name(code))
    return stack([values.tensor_of(t) for t in turns], axis)


def result(value: Any) -> Any:
    """A value as a model gives it: sizes become tensors."""
    return [result(v) for v in value] if isinstance(value, list) else \
        value if values.is_stored(value) else values.tensor_of(value)
