"""Tensors laid out along axes: even steps, diagonals and triangles, coordinates of a grid."""

from __future__ import annotations

from typing import Any

from ...arrays import dtypes
from ...arrays.devices import placed
from ...arrays.shapes import whole
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError, ShapeError
from ..create import iota
from ..declare import cast
from ..elementwise.complex import complex
from ..elementwise.pointwise import equal, greater_equal, less, less_equal, where
from .view import broadcast_to, reshape

__all__ = ["eye", "linspace", "meshgrid", "tril", "triu"]


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers in even steps from `start` to `stop`, which is the last with `endpoint`.

    >>> import fusewire as fw
    >>> fw.linspace(0, 1, 5), fw.linspace(0, 1, 5, endpoint=False)
    (tensor([0.  , 0.25, 0.5 , 0.75, 1.  ]), tensor([0. , 0.2, 0.4, 0.6, 0.8]))
    """
    device_name = placed(device)
    start, stop = (v.item() if hasattr(v, "item") else v for v in (start, stop))
    parts = "c" in (dtypes.of_scalar(start).kind, dtypes.of_scalar(stop).kind)
    default = dtypes.complex64 if parts else dtypes.float32
    chosen = default if dtype is None else dtypes.as_dtype(dtype)
    count = whole(num)
    if count is None or count < 0:
        raise ShapeError(f"linspace: num is a whole number and not negative, got {num!r}",
                         "fw.arange takes the step instead")
    if not parts:
        return cast(_steps(start, stop, count, endpoint, device_name), chosen)
    if chosen.kind != "c":
        raise DTypeError(f"linspace: {chosen.name} does not hold complex numbers",
                         "leave dtype out, or use fw.complex128")
    start, stop = 0j + start, 0j + stop
    return cast(complex(_steps(start.real, stop.real, count, endpoint, device_name),
                        _steps(start.imag, stop.imag, count, endpoint, device_name)), chosen)


def _steps(start: Any, stop: Any, num: Any, endpoint: bool, device: str) -> Tensor:
    """In float64, counted from the nearer end, so that both ends are met exactly."""
    gaps = num - 1 if endpoint else num
    i = iota((num,), 0, dtypes.float64, device)
    if gaps <= 0:
        return i * 0.0 + float(start)
    step = stop / gaps - start / gaps
    return where(less(i * 2, gaps), i * step + float(start), (i - gaps) * step + float(stop))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """A matrix with ones on its diagonal `k` (0: from the corner, 1: the one above), else zeros.

    >>> import fusewire as fw
    >>> fw.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    chosen = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    return cast(equal(_diagonals(shape, placed(device)), _bounded(k)), chosen)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices `x` with zeros above the diagonal `k` (0: from the corner, 1: one above)."""
    x, diagonals = _matrices("tril", x)
    return where(less_equal(diagonals, _bounded(k)), x, False)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices `x` with zeros below the diagonal `k` (0: from the corner, 1: one above).

    >>> import fusewire as fw
    >>> fw.triu(fw.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    x, diagonals = _matrices("triu", x)
    return where(greater_equal(diagonals, _bounded(k)), x, False)


def _diagonals(shape: tuple[Any, Any], device: str) -> Tensor:
    """For each element of a matrix the number of its diagonal, 0 from the corner."""
    return iota(shape, 1, device=device) - iota(shape, 0, device=device)


def _bounded(k: int) -> int:
    """`k` as an int64: no matrix has that many diagonals."""
    return max(-2 ** 62, min(k, 2 ** 62))


def _matrices(name: str, x: Any) -> tuple[Tensor, Tensor]:
    """`x`, which has to be matrices, and the numbers of their diagonals."""
    x = as_tensor(name, x)
    if x.ndim < 2:
        raise ShapeError(f"{name}: needs matrices, got shape {x.shape}",
                         "a vector becomes a row with x[None, :]")
    return x, _diagonals(x.shape[-2:], x.device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """For each vector a tensor of its values over the grid that all of them span.

    The axes are in the order of the vectors ("ij"), or the first two exchanged ("xy").

    >>> import fusewire as fw
    >>> fw.meshgrid(fw.arange(2), fw.arange(3), indexing="ij")[0]
    tensor([[0, 0, 0],
            [1, 1, 1]])
    """
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}",
                         "'ij' keeps the order of the vectors")
    vectors = [as_tensor("meshgrid", x) for x in arrays]
    n = len(vectors)
    grid_axes = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    for x in vectors:
        if x.ndim > 1:
            raise ShapeError(f"meshgrid: takes vectors, got shape {x.shape}", "x.flatten() is one")
    shape = tuple(vectors[at].size for at in grid_axes)  # each exchange is its own way back
    return tuple(broadcast_to(reshape(x, tuple(x.size if a == at else 1 for a in range(n))), shape)
                 for x, at in zip(vectors, grid_axes))
