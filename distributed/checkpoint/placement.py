"""Says which part of a tensor a rank has, and cuts such parts into boxes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class Box(NamedTuple):
    """A box of a tensor's elements, which lie in a row in the memory of a part.

    `origin` and `shape` are those of the box in the whole tensor, `begin` is the position of its
    first element in the part.
    """

    origin: tuple[int, ...]
    shape: tuple[int, ...]
    begin: int

    @property
    def end(self) -> int:
        """The position behind the last element in the part."""
        return self.begin + math.prod(self.shape)

    def shared(self, other: Box) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
        """The elements that two boxes share, as indices of each of them; None if there are none."""
        low = [max(a, b) for a, b in zip(self.origin, other.origin)]
        high = [min(a + n, b + m) for a, n, b, m in zip(self.origin, self.shape, other.origin,
                                                        other.shape)]
        if any(a >= b for a, b in zip(low, high)):
            return None
        first, second = (tuple(slice(a - o, b - o) for a, b, o in zip(low, high, box.origin))
                         for box in (self, other))
        return first, second


@dataclass(frozen=True)
class Placement:
    """The part of a tensor of shape `whole` that one rank has.

    The part is the box at `origin` with `shape`. If `end` is not None, it is only the elements from
    `begin` to `end` of this box in a row.
    """

    whole: tuple[int, ...]
    origin: tuple[int, ...]
    shape: tuple[int, ...]
    begin: int = 0
    end: int | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape) if self.end is None else self.end - self.begin

    def boxes(self) -> list[Box]:
        """The part as boxes, in the order of its memory."""
        if self.end is None:
            return [Box(self.origin, self.shape, 0)] if self.size else []
        found, position = [], 0
        for start, shape in _boxes_of_range(self.shape, self.begin, self.end):
            origin = tuple(o + s for o, s in zip(self.origin, start))
            found.append(Box(origin, shape, position))
            position += math.prod(shape)
        return found

    def as_json(self) -> dict[str, Any]:
        """The fields, for an index."""
        return asdict(self)

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Placement:
        """The placement with these fields."""
        return Placement(tuple(fields["whole"]), tuple(fields["origin"]), tuple(fields["shape"]),
                         fields["begin"], fields["end"])


def whole_of(shape: Sequence[int]) -> Placement:
    """The placement of a tensor that a rank has whole."""
    return Placement(tuple(shape), (0,) * len(shape), tuple(shape))


def _boxes_of_range(shape: tuple[int, ...], begin: int, end: int
                    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Start and shape of boxes that together are the elements from `begin` to `end`, in order."""
    if begin >= end:
        return
    if len(shape) <= 1:
        yield (begin,) * len(shape), (end - begin,) * len(shape)
        return
    row = math.prod(shape[1:])
    first, last = -(-begin // row), end // row  # whole rows
    if first > last:  # all in one row
        yield from _in_row(shape, last, begin, end)
        return
    yield from _in_row(shape, first - 1, begin, first * row)
    if first < last:
        yield (first, *[0] * (len(shape) - 1)), (last - first, *shape[1:])
    yield from _in_row(shape, last, last * row, end)


def _in_row(shape: tuple[int, ...], number: int, begin: int, end: int
            ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    offset = number * math.prod(shape[1:])
    for start, inner in _boxes_of_range(shape[1:], begin - offset, end - offset):
        yield (number, *start), (1, *inner)
