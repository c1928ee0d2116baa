"""Several tensors made into one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ..dtypes import promote
from ..errors import ShapeError
from ..shapes import axis_of
from ..tensor import Tensor, as_tensor
from .pointwise import cast
from .view import concat_same_dtype, expand_dims, reshape

__all__ = ["concat", "stack"]


def _alike(name: str, xs: Sequence[Any]) -> list[Tensor]:
    """`xs` as tensors of the dtype that they combine to; ShapeError for none."""
    if isinstance(xs, Tensor) or not len(xs):
        raise ShapeError(f"{name}: takes a list or tuple of at least one tensor",
                         f"write {name}([x, y])")
    tensors = [as_tensor(name, x) for x in xs]
    dtype = reduce(promote, [x.dtype for x in tensors])
    return [cast(x, dtype) for x in tensors]


def concat(xs: Sequence[Any], axis: int | None = 0) -> Tensor:
    """The tensors `xs` one after the other along `axis`; None: flattened first.

    >>> import fusewire as fw
    >>> fw.concat([fw.tensor([1, 2]), fw.tensor([3.0])])
    tensor([1., 2., 3.])
    """
    tensors = _alike("concat", xs)
    if axis is None:
        return concat_same_dtype([reshape(x, (-1,)) for x in tensors], 0)
    if tensors[0].ndim == 0:
        raise ShapeError("concat: 0-d tensors have no axis to be joined along", "use fw.stack")
    return concat_same_dtype(tensors, axis_of("concat", axis, tensors[0].ndim))


def stack(xs: Sequence[Any], axis: int = 0) -> Tensor:
    """The tensors `xs`, all of one shape, along a new axis at `axis`.

    >>> import fusewire as fw
    >>> fw.stack([fw.ones(2), fw.zeros(2)], axis=1)
    tensor([[1., 0.],
            [1., 0.]])
    """
    tensors = _alike("stack", xs)
    for x in tensors:
        if x.shape != tensors[0].shape:
            raise ShapeError(f"stack: shapes {tensors[0].shape} and {x.shape} differ",
                             "all must be of one shape; fw.concat joins along an axis they have")
    at = axis_of("stack", axis, tensors[0].ndim + 1)
    return concat_same_dtype([expand_dims(x, at) for x in tensors], at)
