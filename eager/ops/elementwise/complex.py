"""Ops on complex numbers: their parts, and numbers made of parts.

Gradients follow PyTorch's convention: the gradient of a real number L at z is dL/dRe(z) +
i dL/dIm(z), so that a step against it goes down. A function with a complex derivative f' takes
the gradient g to g * conj(f'(z)).
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor, as_tensor
from ...core.views import view_of
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
    """A right angle ahead of x, and 0 at 0; the angle of a real number is constant."""
    if x.dtype.kind != "c":
        return g * 0.0
    size = abs(x) + (x == 0)
    return g * 1j * (x / size) / size  # type: ignore[no-any-return]


def conj_of(x: Any) -> Any:
    """`conj` for gradients of ops: real tensors and numbers are given back as they are."""
    if isinstance(x, Tensor):
        return _conj(x) if x._data.dtype.kind == "c" else x
    return x.conjugate()


def complex(real: Any, imag: Any) -> Tensor:
    """The complex numbers with these real and imaginary parts, whose shapes broadcast.

    >>> import fusewire as fw
    >>> fw.complex(fw.tensor([1.0, 2.0]), 0.5)
    tensor([1.+0.5j, 2.+0.5j])
    """
    return _complex(real, imag)


def real(x: Tensor, /) -> Tensor:
    """The real parts; real numbers are their own."""
    x = as_tensor("real", x)
    return view_of(x, _real(x) if x.dtype.kind == "c" else alias(x))


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts; those of real numbers are 0."""
    x = as_tensor("imag", x)
    return view_of(x, _imag(x)) if x.dtype.kind == "c" else zeros_like(x)


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugates; real numbers are their own."""
    x = as_tensor("conj", x)
    return _conj(x) if x.dtype.kind == "c" else alias(x)


def angle(x: Tensor, /) -> Tensor:
    """The angles to the positive real axis, from -pi to pi.

    >>> import fusewire as fw
    >>> fw.angle(fw.tensor([1.0, 1j]))
    tensor([0.       , 1.5707964])
    """
    return _angle(x)
