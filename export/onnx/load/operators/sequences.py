"""Defines sequences, which are lists, and optionals, which are a value or None."""

from __future__ import annotations

from typing import Any

from .....eager.errors import DTypeError, IndexingError
from .....eager.ops.shape import view
from .....eager.ops.shape.join import concat, split, stack
from ..runtime.limits import need
from ..runtime.table import Number, Tensor, operator
from ..runtime.values import ints, is_plain, is_tensor, tensor_of

__all__: list[str] = []

_EMPTY_TENSOR_BYTES = 256


@operator("SequenceConstruct")
def _construct(*elements: Any) -> list[Any]:
    return [_member(x) for x in elements]


def _member(x: Any) -> Any:
    """A value as an element of a sequence."""
    if isinstance(x, list) or x is None:
        raise DTypeError("a sequence holds tensors, not sequences or optionals")
    return tensor_of(x) if is_plain(x) else x


@operator("SequenceEmpty")
def _empty(dtype: str | None = None) -> list[Any]:
    return []


@operator("SequenceInsert")
def _insert(sequence: list[Any], x: Any, position: Number = None) -> list[Any]:
    at = len(sequence) if position is None or position == len(sequence) else \
        _index(int(position), len(sequence))
    need(8 * len(sequence), "a sequence")
    return [*sequence[:at], _member(x), *sequence[at:]]


def _index(position: int, length: int) -> int:
    if not -length <= position < length:
        raise IndexingError(f"position {position} is out of range for a sequence of {length}")
    return position % length


@operator("SequenceAt")
def _at(sequence: list[Any], position: Number) -> Any:
    return sequence[_index(int(position), len(sequence))]


@operator("SequenceErase")
def _erase(sequence: list[Any], position: Number = None) -> list[Any]:
    at = _index(-1 if position is None else int(position), len(sequence))
    return [*sequence[:at], *sequence[at + 1:]]


@operator("SequenceLength")
def _length(sequence: list[Any]) -> int:
    return len(sequence)


@operator("SplitToSequence")
def _split_to_sequence(x: Tensor, split_: Any = None, axis: int = 0, keepdims: int = 1
                       ) -> list[Tensor]:
    n = x.shape[axis]
    need(_EMPTY_TENSOR_BYTES * int(n), "the result of SplitToSequence")
    if split_ is None:
        parts = split(x, [1] * n, axis)
        return [p if keepdims else view.squeeze(p, axis) for p in parts]
    if isinstance(split_, tuple) or (is_tensor(split_) and split_.ndim):
        return list(split(x, list(ints(split_)), axis))
    size = ints(split_)[0]
    sizes = [size] * (n // size) + ([n % size] if n % size else [])
    return list(split(x, sizes, axis))


@operator("ConcatFromSequence")
def _concat_from_sequence(sequence: list[Any], axis: int, new_axis: int = 0) -> Tensor:
    parts = [tensor_of(x) for x in sequence]
    return stack(parts, axis) if new_axis else concat(parts, axis)


# ---- optionals
@operator("Optional")
def _optional(x: Any = None, type: Any = None) -> Any:
    return x


@operator("OptionalHasElement")
def _has_element(x: Any = None) -> Any:
    return x is not None


@operator("OptionalGetElement")
def _element(x: Any) -> Any:
    if x is None:
        raise IndexingError("OptionalGetElement: the optional is empty")
    return x
