"""Computes with complex numbers: real and imaginary parts, conjugates, angles.

Gradients follow PyTorch's convention: the gradient of a real number L at z is dL/dRe(z) +
i dL/dIm(z), so that a step against it decreases L. A function with a complex derivative f' maps
the gradient g to g * conj(f'(z)).
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import SAME, Tensor, as_tensor
from ...core.views import define_access, view_of
from ..create import zeros_like
from ..declare import alias, cast, pointwise

__all__ = ["angle", "complex", "conj", "imag", "real"]

_NO_ONNX = "ONNX has no arithmetic of complex numbers"

_conj = pointwise("conj", lambda k, x: k.conj(x), lambda g, out, x: conj_of(g), takes="complex",
                  no_onnx=_NO_ONNX)
_real = pointwise("real", lambda k, x: k.real(x), lambda g, out, x: cast(g, x.dtype),
                  takes="complex", gives="real", no_onnx=_NO_ONNX)
_imag = pointwise("imag", lambda k, x: k.imag(x), lambda g, out, x: complex(0.0, g),
                  takes="complex", gives="real", no_onnx=_NO_ONNX)
_complex = pointwise("complex", lambda k, x, y: k.complex(x, y),
                     lambda g, out, x, y: cast(real(g), x.dtype),
                     lambda g, out, x, y: cast(imag(g), y.dtype),
                     takes="real float", gives="complex", no_onnx=_NO_ONNX)


def _angle_of(k: Any, x: Any) -> Any:
    return k.angle(x) if x.dtype.kind == "c" else k.atan2(0, x)


_angle = pointwise("angle", _angle_of, lambda g, out, x: _angle_vjp(g, x), takes="float",
                   gives="real", no_onnx=_NO_ONNX)


def _angle_vjp(g: Tensor, x: Tensor) -> Tensor:
    """The gradient at right angles to x; 0 at 0 and for real numbers, whose angle is constant."""
    if x.dtype.kind != "c":
        return g * 0.0
    size = abs(x) + (x == 0)
    return g * 1j * (x / size) / size  # type: ignore[no-any-return]


def conj_of(x: Any) -> Any:
    """`conj` for gradients of ops: returns real tensors and numbers unchanged."""
    if isinstance(x, Tensor):
        return _conj(x) if x._data.dtype.kind == "c" else x
    return x.conjugate()


def complex(real: Any, imag: Any) -> Tensor:
    """The complex numbers with these real and imaginary parts; shapes broadcast.

    Raises:
        DTypeError: a part is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.complex(fw.tensor([1.0, 2.0]), 0.5)
        tensor([1.+0.5j, 2.+0.5j])
    """
    return _complex(real, imag)


def real(x: Tensor, /) -> Tensor:
    """The real parts, of the shape of `x`, as a view; real tensors unchanged.

    Example:
        >>> import fusewire as fw
        >>> fw.real(fw.tensor([1 + 2j]))
        tensor([1.])
    """
    x = as_tensor("real", x)
    return view_of(x, _real(x), REAL) if x.dtype.kind == "c" else view_of(x, alias(x), SAME)


REAL = define_access("real", lambda x, _: _real(x), lambda x, value, _: _complex(value, _imag(x)))
IMAG = define_access("imag", lambda x, _: _imag(x), lambda x, value, _: _complex(_real(x), value))


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts, of the shape of `x`; zeros for real tensors.

    Example:
        >>> import fusewire as fw
        >>> fw.imag(fw.tensor([1 + 2j]))
        tensor([2.])
    """
    x = as_tensor("imag", x)
    return view_of(x, _imag(x), IMAG) if x.dtype.kind == "c" else zeros_like(x)


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugates, of the shape of `x`; real tensors unchanged.

    Example:
        >>> import fusewire as fw
        >>> fw.conj(fw.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    x = as_tensor("conj", x)
    return _conj(x) if x.dtype.kind == "c" else alias(x)


def angle(x: Tensor, /) -> Tensor:
    """The angles to the positive real axis in radians, from -pi to pi, of the shape of `x`.

    Example:
        >>> import fusewire as fw
        >>> fw.angle(fw.tensor([1.0, 1j]))
        tensor([0.       , 1.5707964])
    """
    return _angle(x)
