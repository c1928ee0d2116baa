"""Functions that pad sequences of several lengths into one tensor, or pack them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arguments import check_choice, check_number, check_whole
from ...arrays import dtypes
from ...core.tensor import Tensor, from_numpy, tensor
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ops.elementwise.pointwise import astype, where
from ...ops.indexing.scatter import sorting
from ...ops.shape.join import stack
from ...ops.shape.take import take
from ...ops.shape.view import permute_dims, reshape, unslice

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

    `pack_sequence` and `pack_padded_sequence` build it.

    Args:
        data: the rows, (elements, *).
        batch_sizes: int64 (steps,), the number of sequences that are active at each step.
        sorted_indices: the permutation that sorts the sequences, the longest first. Default
            None: they are sorted.
        unsorted_indices: the inverse permutation. Default None: computed from sorted_indices.

    Example:
        >>> import fusewire as fw
        >>> packed = fw.nn.utils.rnn.pack_sequence([fw.tensor([1, 2]), fw.tensor([3])])
        >>> packed.data, packed.batch_sizes
        (tensor([1, 3, 2]), tensor([2, 1]))
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:  # called as PackedSequence((data, batch_sizes))
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """These sequences with `data` in another dtype or on another device."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """These sequences unchanged."""
        return self

    def pin_memory(self) -> PackedSequence:
        """These sequences unchanged: there is no pinned memory."""
        return self

    def double(self) -> PackedSequence:
        """These sequences in float64."""
        return self.to(dtypes.float64)

    def float(self) -> PackedSequence:
        """These sequences in float32."""
        return self.to(dtypes.float32)

    def half(self) -> PackedSequence:
        """These sequences in float16."""
        return self.to(dtypes.float16)

    def long(self) -> PackedSequence:
        """These sequences in int64."""
        return self.to(dtypes.int64)

    def int(self) -> PackedSequence:
        """These sequences in int32."""
        return self.to(dtypes.int32)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of `permutation` (n,), or None for None."""
    return None if permutation is None else astype(sorting(permutation, 0), permutation.dtype)


def _as_counts(name: str, lengths: Any) -> Any:
    """`lengths` as an int64 array; tensors become NumPy arrays since sizes depend on them."""
    if not isinstance(lengths, (Tensor, Iterable)):
        raise DTypeError(f"{name}: lengths are a tensor or a list, not {lengths!r:.80}")
    counts = lengths.numpy() if isinstance(lengths, Tensor) else \
        np.array([check_whole(name, "lengths", n) for n in lengths])
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise ShapeError(f"{name}: lengths are one whole number for each sequence, got "
                         f"{counts.dtype.name} of shape {counts.shape}")
    return counts.astype(np.int64)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """A PackedSequence of the first lengths[b] steps of each sequence of `input`.

    Args:
        input: the padded sequences, (steps, batch, *), or (batch, steps, *) with batch_first.
        lengths: (batch,) integers, a tensor or a list; each from 1 to steps.
        batch_first: axis 0 of input is the batch. Default False.
        enforce_sorted: True requires lengths that do not increase; False sorts the sequences.
            Default True.

    Raises:
        ShapeError: lengths is not one integer for each sequence, or input has fewer than two axes.
        ArgumentError: a length is outside 1 to steps, or lengths increase with enforce_sorted.

    Example:
        >>> import fusewire as fw
        >>> packed = fw.nn.utils.rnn.pack_padded_sequence(fw.tensor([[1, 3], [2, 0]]), [2, 1])
        >>> packed.data, packed.batch_sizes
        (tensor([1, 3, 2]), tensor([2, 1]))
    """
    counts = _as_counts("pack_padded_sequence", lengths)
    steps, batch = _sizes("pack_padded_sequence", input, batch_first)
    _check_lengths(counts, steps, batch, enforce_sorted)
    permutation = None if enforce_sorted else np.argsort(-counts, kind="stable")
    numbers = np.arange(batch) if permutation is None else permutation
    active = np.arange(counts.max())[:, None] < counts[numbers]
    step, position = active.nonzero()
    sequence = numbers[position]
    flat = sequence * steps + step if batch_first else step * batch + sequence
    data = take(reshape(input, (-1, *input.shape[2:])), tensor(flat, device=input.device), 0)
    return PackedSequence(data, from_numpy(active.sum(1)),
                          None if permutation is None else tensor(permutation, device=input.device))


def _sizes(name: str, input: Tensor, batch_first: bool) -> tuple[int, int]:
    """The numbers of steps and sequences of a padded batch."""
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
    """The sequences padded, (steps, batch, *), and their lengths (batch,), unsorted again.

    Args:
        sequence: the packed sequences.
        batch_first: the result is (batch, steps, *). Default False.
        padding_value: fills the steps after the end of a sequence. Default 0.0.
        total_length: the number of steps of the result. Default None: that of the longest sequence.

    Raises:
        ArgumentError: total_length is less than the longest sequence.

    Example:
        >>> import fusewire as fw
        >>> rnn = fw.nn.utils.rnn
        >>> rnn.pad_packed_sequence(rnn.pack_sequence([fw.tensor([1, 2]), fw.tensor([3])]))
        (tensor([[1, 3],
                [2, 0]]), tensor([2, 1]))
    """
    active = _as_counts("pad_packed_sequence", sequence.batch_sizes)
    steps, batch = len(active), int(active[0])
    if total_length is not None and check_whole(
            "pad_packed_sequence", "total_length", total_length) < steps:
        raise ArgumentError(f"pad_packed_sequence: total_length {total_length} is less than the "
                            f"longest sequence, {steps}")
    active = np.concatenate([active, np.zeros((total_length or steps) - steps, np.int64)])
    numbers = np.arange(batch)
    if sequence.unsorted_indices is not None:
        numbers = _as_counts("pad_packed_sequence", sequence.unsorted_indices)
    is_inside = numbers < active[:, None]
    rows = np.where(is_inside, (active.cumsum() - active)[:, None] + numbers, 0)
    if batch_first:
        is_inside, rows = is_inside.T, rows.T
    elements = take(sequence.data, tensor(rows, device=sequence.data.device), 0)
    mask = is_inside.reshape(*is_inside.shape, *(1,) * (elements.ndim - 2))
    lengths = is_inside.sum(1 if batch_first else 0)
    value = _number("pad_packed_sequence", padding_value, elements)
    padded = where(tensor(mask, device=elements.device), elements, value)
    return padded, from_numpy(lengths)


def _number(name: str, value: Any, like: Tensor) -> Any:
    """A padding value as a number of the kind that the tensor holds."""
    check_number(name, "padding_value", value, real=like.dtype.kind != "c")
    if like.dtype.kind not in "iu":
        return value
    if not math.isfinite(value):
        raise ArgumentError(f"{name}: padding_value {value!r} is no {like.dtype.name}")
    return int(value)


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors (length, *) padded to one length and stacked: (steps, batch, *).

    Args:
        sequences: tensors (length, *) which differ in length only.
        batch_first: the result is (batch, steps, *). Default False.
        padding_value: fills the added steps. Default 0.0.
        padding_side: "right" adds steps at the end, "left" at the beginning. Default "right".

    Raises:
        ArgumentError: padding_side is unknown.
        DTypeError: sequences is not iterable.
        ShapeError: sequences is empty, or its tensors differ in another axis than the first.

    Example:
        >>> import fusewire as fw
        >>> a, b = fw.tensor([1, 2, 3]), fw.tensor([4])
        >>> fw.nn.utils.rnn.pad_sequence([a, b], batch_first=True, padding_side="left")
        tensor([[1, 2, 3],
                [0, 0, 4]])
    """
    check_choice("pad_sequence", "padding_side", padding_side, ("right", "left"))
    if not isinstance(sequences, Iterable):
        raise DTypeError(f"pad_sequence: takes a list of tensors, not {type(sequences).__name__}")
    tensors = [*sequences]
    if not tensors or any(s.ndim < 1 or s.shape[1:] != tensors[0].shape[1:] for s in tensors):
        raise ShapeError("pad_sequence: takes tensors (length, *) that differ in length only, got "
                         f"shapes {[s.shape for s in tensors]}")
    steps = max(s.shape[0] for s in tensors)
    return stack([_padded_to(s, steps, padding_value, padding_side) for s in tensors],
                 0 if batch_first else 1)


def _padded_to(x: Tensor, steps: int, value: Any, side: str) -> Tensor:
    missing = steps - x.shape[0]
    if not missing:
        return x
    start = (missing if side == "left" else 0, *(0,) * (x.ndim - 1))
    fill = _number("pad_sequence", value, x)
    return unslice(x, (steps, *x.shape[1:]), start, (1,) * x.ndim, fill)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Any, batch_first: bool = False
) -> list[Tensor]:
    """A list of the first lengths[b] steps of each padded sequence: (lengths[b], *) each.

    Args:
        padded_sequences: (steps, batch, *), or (batch, steps, *) with batch_first.
        lengths: (batch,) integers from 0 to steps.
        batch_first: axis 0 is the batch. Default False.

    Raises:
        ShapeError: lengths is not one integer from 0 to steps for each sequence.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.utils.rnn.unpad_sequence(fw.tensor([[1, 3], [2, 0]]), [2, 1])
        [tensor([1, 2]), tensor([3])]
    """
    counts = _as_counts("unpad_sequence", lengths).tolist()
    steps, batch = _sizes("unpad_sequence", padded_sequences, batch_first)
    if len(counts) != batch or not all(0 <= n <= steps for n in counts):
        raise ShapeError(f"unpad_sequence: lengths {counts} for {batch} sequences of {steps} steps",
                         "give one for each, no more than the steps there are")
    rest = range(2, padded_sequences.ndim)
    x = padded_sequences if batch_first else permute_dims(padded_sequences, (1, 0, *rest))
    return [x[i, :n] for i, n in enumerate(counts)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """A PackedSequence of tensors (length, *).

    Args:
        sequences: tensors (length, *) which differ in length only.
        enforce_sorted: True requires lengths that do not increase; False sorts. Default True.

    Raises:
        ArgumentError: lengths increase with enforce_sorted, or a sequence is empty.
        ShapeError: the tensors differ in another axis than the first.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.utils.rnn.pack_sequence([fw.tensor([1, 2]), fw.tensor([3])]).data
        tensor([1, 3, 2])
    """
    lengths = [s.shape[0] for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """A list of the packed sequences, each (length, *), in their original order.

    Args:
        packed_sequences: the packed sequences.

    Example:
        >>> import fusewire as fw
        >>> rnn = fw.nn.utils.rnn
        >>> rnn.unpack_sequence(rnn.pack_sequence([fw.tensor([1, 2]), fw.tensor([3])]))
        [tensor([1, 2]), tensor([3])]
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True),
                          batch_first=True)
