"""Lists products and combinations of the elements of vectors, one in each row."""

from __future__ import annotations

import itertools

import numpy as np

from ...arguments import check_whole
from ...core.tensor import Tensor, as_tensor, tensor
from ...errors import ShapeError
from .grid import meshgrid
from .join import alike, stack
from .take import take
from .view import reshape

__all__ = ["cartesian_prod", "combinations"]


def cartesian_prod(*vectors: Tensor) -> Tensor:
    """All rows with one element of each vector, the last one changing first: (rows, vectors).

    The product of a single vector is that vector.

    Raises:
        ShapeError: there is no vector, or an input has another number of axes.

    Example:
        >>> import fusewire as fw
        >>> fw.cartesian_prod(fw.tensor([1, 2]), fw.tensor([5, 6]))
        tensor([[1, 5],
                [1, 6],
                [2, 5],
                [2, 6]])
    """
    parts = alike("cartesian_prod", vectors)
    for x in parts:
        if x.ndim != 1:
            raise ShapeError(f"cartesian_prod: takes vectors, got shape {x.shape}",
                             "x.flatten() is one")
    columns = [reshape(x, (-1,)) for x in meshgrid(*parts, indexing="ij")]
    return stack(columns, axis=1) if len(columns) > 1 else columns[0]


def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of `r` elements of a vector in their order: (choices, r).

    Args:
        x: a vector.
        r: how many elements are in each row. Default 2.
        with_replacement: True takes an element several times, too. Default False.

    Raises:
        ShapeError: `x` is no vector.
        ArgumentError: `r` is negative or a fraction.

    Example:
        >>> import fusewire as fw
        >>> fw.combinations(fw.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    x = as_tensor("combinations", x)
    if x.ndim != 1:
        raise ShapeError(f"combinations: takes a vector, got shape {x.shape}", "x.flatten() is one")
    r = check_whole("combinations", "r", r, 0)
    choose = itertools.combinations_with_replacement if with_replacement \
        else itertools.combinations
    choices = list(choose(range(x.shape[0]), r))
    rows = np.array(choices, np.int64).reshape(len(choices), r)
    return reshape(take(x, tensor(rows.reshape(-1), device=x.device), axis=0), rows.shape)
