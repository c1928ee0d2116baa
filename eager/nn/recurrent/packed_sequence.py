"""Sequences of several lengths in one tensor: padded, or packed for recurrent layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arguments import check_choice
from ...arrays import dtypes
from ...core.tensor import Tensor, from_numpy, tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops.elementwise.pointwise import astype, where
from ...ops.indexing.scatter import sorting
from ...ops.shape.join import stack
from ...ops.shape.view import permute_dims, reshape, take, unslice

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Packed):
    """Sequences without padding: the rows of all at step 0, then at step 1, the longest first.

    data: (elements, *); batch_sizes: how many sequences go on at each step. sorted_indices puts the
    sequences into that order, unsorted_indices back. Made by `pack_sequence` and
    `pack_padded_sequence`.
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:  # both in one: PackedSequence((data, batch_sizes))
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with `data` in another dtype or on a device."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """These sequences: the CPU is where they are."""
        return self

    def pin_memory(self) -> PackedSequence:
        """These sequences: there is no other memory that they would be copied to."""
        return self

    def double(self) -> PackedSequence:
        """The same sequences in float64."""
        return self.to(dtypes.float64)

    def float(self) -> PackedSequence:
        """The same sequences in float32."""
        return self.to(dtypes.float32)

    def half(self) -> PackedSequence:
        """The same sequences in float16."""
        return self.to(dtypes.float16)

    def long(self) -> PackedSequence:
        """The same sequences in int64."""
        return self.to(dtypes.int64)

    def int(self) -> PackedSequence:
        """The same sequences in int32."""
        return self.to(dtypes.int32)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The order that undoes the order `permutation` (n,)."""
    return None if permutation is None else astype(sorting(permutation, 0), permutation.dtype)


def _whole_numbers(name: str, lengths: Any) -> Any:
    """Lengths as an array; a tensor leaves for NumPy, since sizes depend on its values."""
    found = lengths.numpy() if isinstance(lengths, Tensor) else np.array([*map(int, lengths)])
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ShapeError(f"{name}: lengths are one whole number for each sequence, got "
                         f"{found.dtype.name} of shape {found.shape}")
    return found.astype(np.int64)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The first lengths[b] steps of each sequence of `input` (steps, batch, *), packed.

    batch_first: input is (batch, steps, *). enforce_sorted: an error unless lengths fall; otherwise
    the sequences are sorted.

    >>> import fusewire as fw
    >>> packed = fw.nn.utils.rnn.pack_padded_sequence(fw.tensor([[1, 3], [2, 0]]), [2, 1])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 3, 2]), tensor([2, 1]))
    """
    counts = _whole_numbers("pack_padded_sequence", lengths)
    steps, batch = _sizes("pack_padded_sequence", input, batch_first)
    _check_lengths(counts, steps, batch, enforce_sorted)
    order = None if enforce_sorted else np.argsort(-counts, kind="stable")
    numbers = np.arange(batch) if order is None else order
    going = np.arange(counts.max())[:, None] < counts[numbers]
    step, place = going.nonzero()
    sequence = numbers[place]
    flat = sequence * steps + step if batch_first else step * batch + sequence
    data = take(reshape(input, (-1, *input.shape[2:])), tensor(flat, device=input.device), 0)
    return PackedSequence(data, from_numpy(going.sum(1)),
                          None if order is None else tensor(order, device=input.device))


def _sizes(name: str, input: Tensor, batch_first: bool) -> tuple[int, int]:
    """How many steps and sequences a padded batch has."""
    if input.ndim < 2:
        raise ShapeError(f"{name}: a padded batch has an axis of steps and one of sequences, got "
                         f"shape {input.shape}")
    first, second = input.shape[:2]
    return (second, first) if batch_first else (first, second)


def _check_lengths(counts: Any, steps: int, batch: int, falling: bool) -> None:
    if len(counts) != batch:
        raise ShapeError(f"pack_padded_sequence: {len(counts)} lengths for {batch} sequences",
                         "is batch_first right for this input?")
    if not batch or counts.min() < 1 or counts.max() > steps:
        raise ArgumentError(f"pack_padded_sequence: lengths go from 1 to the {steps} steps there "
                            f"are, got {counts.tolist()}")
    if falling and (np.diff(counts) > 0).any():
        raise ArgumentError(f"pack_padded_sequence: lengths {counts.tolist()} do not fall",
                            "pass enforce_sorted=False, or the longest sequence first")


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The sequences padded, (steps, batch, *), and their lengths (batch,), in the first order.

    total_length: so many steps instead of as many as the longest sequence has.

    >>> import fusewire as fw
    >>> rnn = fw.nn.utils.rnn
    >>> rnn.pad_packed_sequence(rnn.pack_sequence([fw.tensor([1, 2]), fw.tensor([3])]))
    (tensor([[1, 3],
            [2, 0]]), tensor([2, 1]))
    """
    going = _whole_numbers("pad_packed_sequence", sequence.batch_sizes)
    steps, batch = len(going), int(going[0])
    if total_length is not None and total_length < steps:
        raise ArgumentError(f"pad_packed_sequence: total_length {total_length} is less than the "
                            f"longest sequence, {steps}")
    going = np.concatenate([going, np.zeros((total_length or steps) - steps, np.int64)])
    numbers = np.arange(batch)
    if sequence.unsorted_indices is not None:
        numbers = _whole_numbers("pad_packed_sequence", sequence.unsorted_indices)
    inside = numbers < going[:, None]
    places = np.where(inside, (going.cumsum() - going)[:, None] + numbers, 0)
    if batch_first:
        inside, places = inside.T, places.T
    found = take(sequence.data, tensor(places, device=sequence.data.device), 0)
    mask = inside.reshape(*inside.shape, *(1,) * (found.ndim - 2))
    lengths = inside.sum(1 if batch_first else 0)
    padded = where(tensor(mask, device=found.device), found, _number(padding_value, found))
    return padded, from_numpy(lengths)


def _number(value: Any, like: Tensor) -> Any:
    """A padding value as a number of the kind that the tensor holds."""
    return int(value) if like.dtype.kind in "iu" else value


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors (length, *) of several lengths in one, (steps, batch, *), filled up at a side.

    >>> import fusewire as fw
    >>> a, b = fw.tensor([1, 2, 3]), fw.tensor([4])
    >>> fw.nn.utils.rnn.pad_sequence([a, b], batch_first=True, padding_side="left")
    tensor([[1, 2, 3],
            [0, 0, 4]])
    """
    check_choice("pad_sequence", "padding_side", padding_side, ("right", "left"))
    if not isinstance(sequences, Iterable):
        raise DTypeError(f"pad_sequence: takes a list of tensors, not {type(sequences).__name__}")
    given = [*sequences]
    if not given or any(s.ndim < 1 or s.shape[1:] != given[0].shape[1:] for s in given):
        raise ShapeError("pad_sequence: takes tensors (length, *) that differ in length only, got "
                         f"shapes {[s.shape for s in given]}")
    steps = max(s.shape[0] for s in given)
    return stack([_filled_up(s, steps, padding_value, padding_side) for s in given],
                 0 if batch_first else 1)


def _filled_up(x: Tensor, steps: int, value: Any, side: str) -> Tensor:
    missing = steps - x.shape[0]
    if not missing:
        return x
    start = (missing if side == "left" else 0, *(0,) * (x.ndim - 1))
    return unslice(x, (steps, *x.shape[1:]), start, (1,) * x.ndim, _number(value, x))


def unpad_sequence(
    padded_sequences: Tensor, lengths: Any, batch_first: bool = False
) -> list[Tensor]:
    """The first lengths[b] steps of each sequence of a padded batch (steps, batch, *)."""
    counts = _whole_numbers("unpad_sequence", lengths).tolist()
    steps, batch = _sizes("unpad_sequence", padded_sequences, batch_first)
    if len(counts) != batch or not all(0 <= n <= steps for n in counts):
        raise ShapeError(f"unpad_sequence: lengths {counts} for {batch} sequences of {steps} steps",
                         "give one for each, no more than the steps there are")
    rest = range(2, padded_sequences.ndim)
    x = padded_sequences if batch_first else permute_dims(padded_sequences, (1, 0, *rest))
    return [x[i, :n] for i, n in enumerate(counts)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors (length, *) of several lengths, packed.

    >>> import fusewire as fw
    >>> fw.nn.utils.rnn.pack_sequence([fw.tensor([1, 2]), fw.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = [s.shape[0] for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, each (length, *)."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True),
                          batch_first=True)
