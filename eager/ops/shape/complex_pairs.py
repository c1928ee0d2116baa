"""Views complex numbers as pairs of real numbers along a last axis of size 2, and back."""

from __future__ import annotations

from typing import Any

from ...arrays import dtypes
from ...core.tensor import Tensor, as_tensor
from ...core.views import define_access, view_of
from ...errors import DTypeError, ShapeError
from ..elementwise.complex import complex, imag, real
from .join import stack, unstack

__all__ = ["view_as_complex", "view_as_real"]


def view_as_real(x: Tensor) -> Tensor:
    """The real and imaginary parts of complex numbers: (...) -> (..., 2).

    Raises:
        DTypeError: `x` is not complex.

    Example:
        >>> import fusewire as fw
        >>> fw.view_as_real(fw.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """
    x = as_tensor("view_as_real", x)
    if x.dtype.kind != "c":
        raise DTypeError(f"view_as_real: takes complex numbers, not {x.dtype.name}",
                         "cast first: x.astype(fw.complex64)")
    return view_of(x, _pairs(x), PAIRS)


def _pairs(x: Tensor, params: Any = None) -> Tensor:
    return stack([real(x), imag(x)], -1)


def view_as_complex(x: Tensor) -> Tensor:
    """The complex numbers of pairs (real part, imaginary part): (..., 2) -> (...).

    Raises:
        DTypeError: `x` does not hold real floats.
        ShapeError: the last axis has another size than 2.

    Example:
        >>> import fusewire as fw
        >>> fw.view_as_complex(fw.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """
    x = as_tensor("view_as_complex", x)
    if dtypes.kind(x.dtype) != "f":
        raise DTypeError(f"view_as_complex: takes real floats, not {x.dtype.name}",
                         "cast first: x.astype(fw.float32)")
    if not x.ndim or x.shape[-1] != 2:
        raise ShapeError(f"view_as_complex: the last axis of shape {x.shape} has not the size 2",
                         "it holds a real and an imaginary part: fw.stack([real, imag], -1)")
    return view_of(x, _of_pairs(x), OF_PAIRS)


def _of_pairs(x: Tensor, params: Any = None) -> Tensor:
    return complex(*unstack(x, -1))


PAIRS = define_access("view_as_real", _pairs, lambda x, value, _: _of_pairs(value))
OF_PAIRS = define_access("view_as_complex", _of_pairs, lambda x, value, _: _pairs(value))
