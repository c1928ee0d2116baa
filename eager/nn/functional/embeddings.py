"""Tensors of class and token numbers, and the vectors that belong to them."""

from __future__ import annotations

from typing import Any

from ...arguments import check_choice, check_number, check_whole, names_itself
from ...arrays import dtypes
from ...core.dispatch import apply
from ...core.tape import no_grad
from ...core.tensor import Tensor, as_tensor
from ...errors import ArgumentError, IndexingError, ShapeError
from ...linalg.norm import vector_norm
from ...ops.create import full, iota, ones_like, zeros
from ...ops.elementwise.pointwise import astype, cast, equal, maximum, not_equal, where
from ...ops.indexing.index_put import index_put
from ...ops.indexing.scatter import scatter
from ...ops.indexing.search import searchsorted
from ...ops.range_checks import check_index
from ...ops.reduction.reduce import max as largest
from ...ops.reduction.reduce import sum
from ...ops.shape.take import add_at, take_op
from ...ops.shape.view import broadcast_to, expand_dims, reshape
from ...tensor_methods.methods import update
from .inputs import check_integers

__all__ = ["embedding", "embedding_bag", "one_hot"]


@names_itself
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (*tensor.shape, num_classes): 1 where the last index is the number in `tensor`, else 0.

    Args:
        tensor: class numbers, integers of any shape. A number outside of the classes gives zeros.
        num_classes: the number of classes; -1 (default) takes the largest number plus 1.

    Raises:
        DTypeError: `tensor` does not hold integers.
        ShapeError: `tensor` is empty and `num_classes` is -1.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.one_hot(fw.tensor([2, 0]))
        tensor([[0, 0, 1],
                [1, 0, 0]])
    """
    check_whole("one_hot", "num_classes", num_classes, -1)
    check_integers("one_hot", "class numbers", tensor)
    count = int(tensor.max()) + 1 if num_classes == -1 else num_classes
    shape = (*tensor.shape, count)
    numbers = iota(shape, -1, tensor.dtype, tensor.device)
    hit = equal(numbers, broadcast_to(expand_dims(tensor, -1), shape))
    return astype(hit, dtypes.int64)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    sparse: bool = False,  # gradients are always dense
) -> Tensor:
    """The rows of `weight` at the indices `input`: (*input.shape, dim).

    Args:
        input: indices of rows, integers of any shape.
        weight: (rows, dim).
        padding_idx: the index of a row that gets no gradient; negative ones count from the end.
            Default None.
        max_norm: rows in use with a larger norm are first scaled to it, in `weight` itself.
            Default None: no limit.
        norm_type: the order of that norm. Default 2.
        scale_grad_by_freq: True divides the gradient of a row by its number of uses in `input`.
            Default False.
        sparse: has no effect, gradients are dense.

    Raises:
        DTypeError: `input` does not hold integers.
        ShapeError: `weight` is not a matrix.
        IndexingError: an index is negative or not below the number of rows.
        ArgumentError: `padding_idx` is not a row.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.functional.embedding(fw.tensor([2, 0]), fw.tensor([[1.0], [2.0], [3.0]]))
        tensor([[3.],
                [1.]])
    """
    check_number("embedding", "norm_type", norm_type)
    input, weight = _checked("embedding", input, weight)
    padding = padding_row("embedding", padding_idx, weight.shape[0])
    return _vectors("embedding", input, weight, padding, max_norm, norm_type, scale_grad_by_freq)


def _checked(name: str, input: Any, weight: Any) -> tuple[Tensor, Tensor]:
    input, weight = as_tensor(name, input), as_tensor(name, weight)
    if weight.ndim != 2:
        raise ShapeError(f"{name}: the weight must be (rows, dim), got shape {weight.shape}",
                         "the input comes first, then the weight" if input.ndim == 2 else "")
    check_integers(name, "the numbers of rows", input)
    return input, weight


def padding_row(name: str, index: int | None, rows: int) -> int | None:
    """The row of a padding_idx in a table of `rows`, counted from the front; None for None."""
    if index is not None:
        check_whole(name, "padding_idx", index)
    if index is not None and not -rows <= index < rows:
        raise ArgumentError(f"{name}: padding_idx {index} is none of the {rows} rows",
                            f"it goes from {-rows} to {rows - 1}")
    return index if index is None or index >= 0 else index + rows


def _vectors(
    name: str, input: Tensor, weight: Tensor, padding: int | None, max_norm: float | None,
    norm_type: float, by_frequency: bool,
) -> Tensor:
    if max_norm is not None:
        _limit_norms(name, input, weight, max_norm, norm_type)
    rows = _rows(name, input, weight)
    if not rows.requires_grad:
        return rows
    if by_frequency:
        rows = _shared_out(input, rows, weight.shape[0])
    if padding is not None:
        rows = where(expand_dims(equal(input, padding), -1), rows.detach(), rows)
    return rows


def _rows(name: str, input: Tensor, weight: Tensor) -> Tensor:
    """`take` along axis 0; negative indices raise an IndexingError."""
    try:
        return apply(take_op, (weight, input), {"axis": 0})
    except IndexingError as error:
        raise IndexingError(f"{name}: {error.message.partition(': ')[2]}",
                            f"the weight has a row for each of 0 to {weight.shape[0] - 1}; is the "
                            "vocabulary larger than num_embeddings?") from None


def _limit_norms(name: str, input: Tensor, weight: Tensor, most: float, norm_type: float) -> None:
    """Scales the rows of `weight` in use to a norm of at most `most`, in place and off the tape."""
    check_number(name, "max_norm", most)
    check_number(name, "norm_type", norm_type)
    indices, edge = reshape(input, (-1,)), weight.edge
    with no_grad():
        rows = _rows(name, indices, weight)
        norms = vector_norm(rows, 1, keepdims=True, ord=norm_type)
        rows = where(norms > most, rows * (most / (norms + 1e-7)), rows)
        update(weight, index_put(weight, rows, indices))
    weight.edge = edge  # a weight that was computed still gets its gradient


def _shared_out(input: Tensor, rows: Tensor, count: int) -> Tensor:
    """`rows` with gradients divided by the number of uses of each row."""
    uses = add_at(ones_like(input, dtype=rows.dtype), input, count)
    share = 1 / expand_dims(apply(take_op, (uses, input), {"axis": 0}), -1)
    still = rows.detach()
    return still + (rows - still) * share


# ---- bags: sums, means and maxima of several rows
@names_itself
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False,  # gradients are always dense
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of `weight` in each bag of indices: (bags, dim).

    An empty bag gives 0.

    Args:
        input: indices of rows: (bags, n), or (n,) with `offsets`.
        weight: (rows, dim).
        offsets: the start of each bag in `input`, beginning with 0: (bags,). Default None.
        max_norm: rows in use with a larger norm are first scaled to it, in `weight` itself.
            Default None: no limit.
        norm_type: the order of that norm. Default 2.
        scale_grad_by_freq: True divides the gradient of a row by its number of uses in `input`.
            Default False.
        mode: "sum", "mean" (default) or "max".
        sparse: has no effect, gradients are dense.
        per_sample_weights: a factor for each index, of the shape of `input`, for mode "sum".
            Default None.
        include_last_offset: True if the last offset is n, the end of the last bag.
            Default False.
        padding_idx: indices of this row do not count. Default None.

    Raises:
        DTypeError: `input` does not hold integers.
        ShapeError: the shapes do not fit.
        IndexingError: an index or an offset is out of range, or the first offset is not 0.
        ArgumentError: `mode` is unknown or does not fit other arguments, or `padding_idx` is not
            a row.

    Example:
        >>> import fusewire as fw
        >>> weight = fw.tensor([[1.0], [2.0], [3.0]])
        >>> fw.nn.functional.embedding_bag(fw.tensor([0, 2, 1]), weight, fw.tensor([0, 2]))
        tensor([[2.],
                [2.]])
    """
    check_number("embedding_bag", "norm_type", norm_type)
    input, weight = _checked("embedding_bag", input, weight)
    check_choice("embedding_bag", "mode", mode, ("sum", "mean", "max"))
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ArgumentError("embedding_bag: mode 'max' has no scale_grad_by_freq and no sparse")
    bags = _bags(input, offsets, include_last_offset)
    padding = padding_row("embedding_bag", padding_idx, weight.shape[0])
    valid = None if padding is None else expand_dims(not_equal(input, padding), -1)
    rows = _vectors("embedding_bag", input, weight, padding, max_norm, norm_type,
                    scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * expand_dims(_factors(input, per_sample_weights, mode), -1)
    return _REDUCED[mode](bags, rows, valid)


def _factors(input: Tensor, factors: Tensor, mode: str) -> Tensor:
    if mode != "sum":
        raise ArgumentError(f"embedding_bag: per_sample_weights are for mode 'sum', not {mode!r}")
    if factors.shape != input.shape:
        raise ShapeError(f"embedding_bag: per_sample_weights {factors.shape} and input "
                         f"{input.shape} differ in shape", "give one weight for each index")
    return factors


class _Even:
    """Bags of one size: axis 1 of rows (bags, n, dim) holds the rows of a bag."""

    def sum(self, rows: Tensor) -> Tensor:
        return sum(rows, 1)

    def max(self, rows: Tensor) -> Tensor:
        return largest(rows, 1) if rows.shape[1] else zeros(rows.shape[0], *rows.shape[2:],
                                                            dtype=rows.dtype, device=rows.device)


class _Ragged:
    """Bags of several sizes: `numbers` holds the bag of each of the rows (n, dim)."""

    def __init__(self, numbers: Tensor, count: Any) -> None:
        self.numbers, self.count = numbers, count

    def sum(self, rows: Tensor) -> Tensor:
        return add_at(rows, self.numbers, self.count)

    def max(self, rows: Tensor) -> Tensor:
        least = full((self.count, *rows.shape[1:]), -float("inf"), rows.dtype, rows.device)
        numbers = broadcast_to(expand_dims(self.numbers, -1), rows.shape)
        return scatter(least, 0, numbers, rows, "amax")


def _bags(input: Tensor, offsets: Any, closed: bool) -> _Even | _Ragged:
    if input.ndim == 2 and offsets is None:
        return _Even()
    if input.ndim != 1 or offsets is None or offsets.ndim != 1:
        shape = None if offsets is None else offsets.shape
        raise ShapeError(f"embedding_bag: takes input (bags, n), or input (n,) with offsets (bags,)"
                         f", got input {input.shape} and offsets {shape}")
    n, count = input.shape[0], offsets.shape[0] - (1 if closed else 0)
    starts = check_index(offsets, n + 1, f"embedding_bag: offset into {n} indices:")
    numbers = searchsorted(starts, iota((n,), 0, starts.dtype, starts.device), side="right") - 1
    what = "embedding_bag: the bag of an index (offsets begin with 0, a last one is the size):"
    return _Ragged(check_index(numbers, count, what), count)


def _sums(bags: Any, rows: Tensor, valid: Tensor | None) -> Tensor:
    counted = rows if valid is None else where(valid, rows, 0.0)
    return bags.sum(counted)  # type: ignore[no-any-return]


def _sizes(bags: Any, rows: Tensor, valid: Tensor | None) -> Tensor:
    """The number of rows of each bag that count: (bags, 1)."""
    ones = ones_like(rows[..., :1].detach()) if valid is None else cast(valid, rows.dtype)
    return bags.sum(ones)  # type: ignore[no-any-return]


def _means(bags: Any, rows: Tensor, valid: Tensor | None) -> Tensor:
    return _sums(bags, rows, valid) / maximum(_sizes(bags, rows, valid), 1)


def _maxima(bags: Any, rows: Tensor, valid: Tensor | None) -> Tensor:
    some = _sizes(bags, rows, valid) > 0
    least = -float("inf")
    return where(some, bags.max(rows if valid is None else where(valid, rows, least)), 0.0)


_REDUCED = {"sum": _sums, "mean": _means, "max": _maxima}
