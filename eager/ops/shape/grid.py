"""Creates tensors that follow from axes: even steps, diagonals, triangles, grid coordinates."""

from __future__ import annotations

from typing import Any

from ...arguments import check_number, check_whole, names_itself, whole
from ...arrays import dtypes
from ...arrays.devices import resolve_device
from ...arrays.shapes import product
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError, ShapeError
from ..create import iota
from ..declare import cast
from ..elementwise.complex import complex
from ..elementwise.pointwise import equal, greater_equal, less, less_equal, pow, where
from .view import broadcast_to, reshape

__all__ = ["eye", "linspace", "logspace", "meshgrid", "tril", "triu"]


@names_itself
def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: bool = True, requires_grad: bool = False,
) -> Tensor:
    """`num` numbers in even steps from `start` to `stop`, as a vector.

    Args:
        start, stop: the ends, real or complex.
        num: how many numbers.
        dtype: of the result. Default: float32, or complex64 for complex ends.
        device: of the result. Default: the current device.
        endpoint: True makes `stop` the last number; False stops one step before it. Default True.
        requires_grad: True makes the result a leaf whose gradient `backward` computes.

    Raises:
        ShapeError: `num` is negative or not a whole number.
        DTypeError: the ends are complex and `dtype` is not.

    Example:
        >>> import fusewire as fw
        >>> fw.linspace(0, 1, 5), fw.linspace(0, 1, 5, endpoint=False)
        (tensor([0.  , 0.25, 0.5 , 0.75, 1.  ]), tensor([0. , 0.2, 0.4, 0.6, 0.8]))
    """
    device_name = resolve_device(device)
    start, stop = (v.item() if hasattr(v, "item") else v for v in (start, stop))
    parts = "c" in (dtypes.of_scalar(start).kind, dtypes.of_scalar(stop).kind)
    default = dtypes.complex64 if parts else dtypes.float32
    chosen = default if dtype is None else dtypes.as_dtype(dtype)
    count = whole(num)
    if count is None or count < 0:
        raise ShapeError(f"linspace: num is a whole number and not negative, got {num!r}",
                         "fw.arange takes the step instead")
    if not parts:
        out = cast(_steps(start, stop, count, endpoint, device_name), chosen)
        return out.requires_grad_() if requires_grad else out
    if chosen.kind != "c":
        raise DTypeError(f"linspace: {chosen.name} does not hold complex numbers",
                         "leave dtype out, or use fw.complex128")
    start, stop = 0j + start, 0j + stop
    out = cast(complex(_steps(start.real, stop.real, count, endpoint, device_name),
                       _steps(start.imag, stop.imag, count, endpoint, device_name)), chosen)
    return out.requires_grad_() if requires_grad else out


@names_itself
def logspace(
    start: Any, stop: Any, /, num: int, *, base: float = 10.0, dtype: Any = None,
    device: Any = None, endpoint: bool = True,
) -> Tensor:
    """`num` numbers from base ** start to base ** stop, each the same factor above the last one.

    Args:
        base: Default 10. The other parameters and the errors are those of `linspace`.

    Example:
        >>> import fusewire as fw
        >>> fw.logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    check_number("logspace", "base", base, real=False)
    ends = [dtypes.of_scalar(v.item() if hasattr(v, "item") else v).kind for v in (start, stop)]
    parts = "c" in ends
    chosen = dtypes.as_dtype(dtype or (dtypes.complex64 if parts else dtypes.float32))
    wide = dtypes.complex128 if parts or chosen.kind == "c" else dtypes.float64
    exponents = linspace(start, stop, num, dtype=wide, device=device, endpoint=endpoint)
    return cast(pow(base, exponents), chosen)


def _steps(start: Any, stop: Any, num: Any, endpoint: bool, device: str) -> Tensor:
    """The numbers in float64, counted from the nearer end so that both ends are exact."""
    gaps = num - 1 if endpoint else num
    i = iota((num,), 0, dtypes.float64, device)
    if gaps <= 0:
        return i * 0.0 + float(start)
    step = stop / gaps - start / gaps
    return where(less(i * 2, gaps), i * step + float(start), (i - gaps) * step + float(stop))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None,
    requires_grad: bool = False
) -> Tensor:
    """A matrix (n_rows, n_cols) with ones on diagonal `k` and zeros elsewhere.

    Args:
        n_rows: number of rows.
        n_cols: number of columns. Default None: `n_rows`.
        k: the diagonal; 0 starts in the corner, 1 lies above it. Default 0.
        dtype: of the result. Default float32.
        device: of the result. Default: the current device.
        requires_grad: True makes the result a leaf whose gradient `backward` computes.

    Example:
        >>> import fusewire as fw
        >>> fw.eye(2, 3, k=1)
        tensor([[0., 1., 0.],
                [0., 0., 1.]])
    """
    check_whole("eye", "n_rows", n_rows, 0)
    check_whole("eye", "n_cols", 0 if n_cols is None else n_cols, 0)
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    chosen = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    out = cast(equal(_diagonals(shape, resolve_device(device)), _bounded("eye", k)), chosen)
    return out.requires_grad_() if requires_grad else out


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices `x` (..., m, n) with zeros above diagonal `k`.

    Args:
        k: the last diagonal that is not set to 0; 0 starts in the corner, 1 lies above it.
            Default 0.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> import fusewire as fw
        >>> fw.tril(fw.ones(2, 2))
        tensor([[1., 0.],
                [1., 1.]])
    """
    x, diagonals = _matrices("tril", x)
    return where(less_equal(diagonals, _bounded("tril", k)), x, False)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices `x` (..., m, n) with zeros below diagonal `k`.

    Args:
        k: the first diagonal that is not set to 0; 0 starts in the corner, 1 lies above it.
            Default 0.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> import fusewire as fw
        >>> fw.triu(fw.ones(2, 2))
        tensor([[1., 1.],
                [0., 1.]])
    """
    x, diagonals = _matrices("triu", x)
    return where(greater_equal(diagonals, _bounded("triu", k)), x, False)


def _diagonals(shape: tuple[Any, Any], device: str) -> Tensor:
    """The number of the diagonal on which each element of a matrix lies; 0 starts in the corner."""
    return iota(shape, 1, device=device) - iota(shape, 0, device=device)


def _bounded(name: str, k: int) -> int:
    """`k` limited to int64; no matrix has that many diagonals."""
    return max(-2 ** 62, min(check_whole(name, "k", k), 2 ** 62))  # type: ignore[no-any-return]


def _matrices(name: str, x: Any) -> tuple[Tensor, Tensor]:
    """`x` as matrices, and the diagonal on which each of their elements lies; or a ShapeError."""
    x = as_tensor(name, x)
    if x.ndim < 2:
        raise ShapeError(f"{name}: needs matrices, got shape {x.shape}",
                         "a vector becomes a row with x[None, :]")
    return x, _diagonals(x.shape[-2:], x.device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """For each vector, a tensor of its values over the grid that all vectors span.

    Args:
        indexing: "ij" orders the axes as the vectors; "xy" exchanges the first two axes.
            Default "xy".

    Raises:
        ShapeError: `indexing` has another value, or an input has more than one axis.

    Example:
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
    sizes = [product(x.shape) for x in vectors]
    shape = tuple(sizes[at] for at in grid_axes)  # the exchange is its own inverse
    places = [tuple(size if a == at else 1 for a in range(n))
              for size, at in zip(sizes, grid_axes)]
    return tuple(broadcast_to(reshape(x, place), shape) for x, place in zip(vectors, places))
