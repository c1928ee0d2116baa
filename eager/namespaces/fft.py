"""Discrete Fourier transforms, along one axis or several.

    fft(x)[k] = sum over j of x[j] * exp(-2 pi i j k / n)

`norm` says where the factor 1 / n goes: "backward" to the inverse, "forward" to the transform,
"ortho" as 1 / sqrt(n) to both. float32 gives complex64, float64 complex128; smaller floats are
widened to float32. All transforms are linear, and each one's gradient is another one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.fft  # now: loading it at the first call would be an effect of a traced function

from ..arguments import check_number, names_itself, whole
from ..arrays import dtypes
from ..arrays.shapes import TensorType, axis_of, listed
from ..core.dispatch import apply
from ..core.op import Op, define, each
from ..core.tensor import Tensor, as_tensor
from ..errors import ArgumentError, DTypeError, ShapeError
from ..ops.batching import shifted
from ..ops.create import iota
from ..ops.elementwise import pointwise
from ..ops.elementwise.complex import conj, real
from ..ops.shape.view import slice_axes, unslice
from .frequency_shifts import fftshift, ifftshift

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]

_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}  # of the way back
_WHY = {"meaning": "every element is made of all others along an axis, by a fast algorithm",
        "onnx": "ONNX has no complex numbers, its DFT takes pairs of real ones"}

# ---- the four ops. A transform is symmetric, so its adjoint is the conjugate of itself: the
# inverse with the other norm.


def _transform(name: str, result: Callable[..., TensorType], impl: Callable[..., Any], vjp: Any
               ) -> Op:
    return define(Op(name, "opaque", result, impl, None, each(vjp), why=_WHY,
                     batch=shifted("axis" if name in ("rfft", "irfft") else "axes"),
                     precision="full"))


def _complex_result(x: TensorType, axes: Any, norm: str) -> TensorType:
    return TensorType(x.shape, dtypes.complex_of(x.dtype))


def _adjoint(op: Op, g: Tensor, x: Tensor, axes: tuple[int, ...], norm: str) -> Tensor:
    made = apply(op, (g,), {"axes": axes, "norm": _OTHER[norm]})
    return made if x.dtype.kind == "c" else real(made)


fft_op = _transform(
    "fft", _complex_result,
    lambda xp, x, axes, norm: np.fft.fftn(x, axes=axes, norm=norm) if len(axes) > 1 else
    np.fft.fft(x, axis=axes[0], norm=norm),
    lambda g, out, x, axes, norm: _adjoint(ifft_op, g, x, axes, norm))  # type: ignore[has-type]
ifft_op = _transform(
    "ifft", _complex_result,
    lambda xp, x, axes, norm: np.fft.ifftn(x, axes=axes, norm=norm) if len(axes) > 1 else
    np.fft.ifft(x, axis=axes[0], norm=norm),
    lambda g, out, x, axes, norm: _adjoint(fft_op, g, x, axes, norm))


def _sized(x: TensorType, axis: int, n: Any, dtype: Any) -> TensorType:
    return TensorType((*x.shape[:axis], n, *x.shape[axis + 1:]), dtype)


def _rfft_vjp(g: Tensor, out: Tensor, x: Tensor, axis: int, norm: str) -> Tensor:
    """The elements that irfft counts twice come in with half of their gradient."""
    n = x.shape[axis]
    return _irfft(_weighted(g, axis, n, 0.5), n, axis, _OTHER[norm])


def _irfft_vjp(g: Tensor, out: Tensor, x: Tensor, axis: int, n: int, norm: str) -> Tensor:
    made = apply(rfft_op, (g,), {"axis": axis, "norm": _OTHER[norm]})
    return _weighted(made, axis, n, 2.0)


def _weighted(x: Tensor, axis: int, n: int, weight: float) -> Tensor:
    """Half a spectrum of `n` elements times `weight`, but for its own first and, where `n` is even,
    last element, which have no mirror image."""
    shape = tuple(s if a == axis else 1 for a, s in enumerate(x.shape))
    place = iota(shape, axis, device=x.device)
    alone = pointwise.equal(place * 2 % n, 0)
    factor = pointwise.where(alone, 1.0, weight)
    return x * pointwise.cast(factor, dtypes.real_of(x.dtype))


rfft_op = _transform(
    "rfft", lambda x, axis, norm: _sized(x, axis, x.shape[axis] // 2 + 1,
                                         dtypes.complex_of(x.dtype)),
    lambda xp, x, axis, norm: np.fft.rfft(x, axis=axis, norm=norm), _rfft_vjp)
irfft_op = _transform(
    "irfft", lambda x, axis, n, norm: _sized(x, axis, n, dtypes.real_of(x.dtype)),
    lambda xp, x, axis, n, norm: np.fft.irfft(x, n, axis=axis, norm=norm), _irfft_vjp)


def _irfft(x: Tensor, n: int, axis: int, norm: str) -> Tensor:
    return apply(irfft_op, (x,), {"axis": axis, "n": n, "norm": norm})


# ---- arguments

def _floating(name: str, x: Any, kinds: str = "fc") -> Tensor:
    """`x` as real numbers, or complex ones where `kinds` has them, of a precision that NumPy
    transforms."""
    x = as_tensor(name, x)
    kind = dtypes.kind(dtypes.require_computed(name, x.dtype))
    if kind == "c" and kind not in kinds:
        raise DTypeError(f"{name}: takes real numbers, not {x.dtype.name}",
                         "fw.fft.fft and fw.fft.ifft take complex ones")
    if kind == "b":
        raise DTypeError(f"{name}: takes numbers, not bool", "cast first: x.astype(fw.float32)")
    wide = dtypes.complex_of(x.dtype)
    return pointwise.cast(x, wide if kind == "c" or "f" not in kinds else dtypes.real_of(wide))


def _norm(name: str, norm: str | None) -> str:
    norm = "backward" if norm is None else norm
    if norm not in _OTHER:
        raise ArgumentError(f"{name}: norm {norm!r} is not known",
                            'it is "backward", "ortho" or "forward"')
    return norm


def _size(name: str, n: Any, default: Any) -> Any:
    size = default if n is None else whole(n)
    if size is None or size < 1:
        raise ShapeError(f"{name}: {size if n is None else n} elements to transform",
                         "there must be one or more")
    return size


def _length(name: str, n: Any) -> tuple[Any, ...] | None:
    """The sizes for one axis; None keeps that of the input."""
    return None if n is None else (_size(name, n, None),)


def _resized(x: Tensor, axis: int, n: Any) -> Tensor:
    """`x` cut, or filled up with zeros, to `n` elements along `axis`."""
    have = x.shape[axis]
    if have == n:
        return x
    shape = tuple(n if a == axis else s for a, s in enumerate(x.shape))
    zeros, ones = (0,) * x.ndim, (1,) * x.ndim
    return slice_axes(x, zeros, ones, shape) if n < have else unslice(x, shape, zeros, ones)


def _axes(name: str, x: Tensor, s: Any, axes: Any) -> tuple[list[int], list[Any]]:
    """The axes to transform, and to how many elements each: None for all there are."""
    s = None if s is None else listed(name, s)
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    else:
        axes = listed(name, axes)
    found = [axis_of(name, a, x.ndim) for a in axes]
    sizes = [None] * len(found) if s is None else [None if whole(n) == -1 else n for n in s]
    if len(sizes) != len(found) or len(set(found)) != len(found) or not found:
        raise ShapeError(f"{name}: sizes {s!r} and axes {tuple(axes)} for shape {x.shape}",
                         "name at least one axis, each once, and a size for each or none")
    return found, sizes


def _along(name: str, op: Op, x: Tensor, s: Any, axes: Any, norm: str | None) -> Tensor:
    """A complex transform along `axes`."""
    found, sizes = _axes(name, x, s, axes)
    for axis, n in zip(found, sizes):
        x = _resized(x, axis, _size(name, n, x.shape[axis]))
    return apply(op, (x,), {"axes": tuple(found), "norm": _norm(name, norm)})


# ---- complex transforms

def fft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Complex transforms of `x` along `axis`: the shape of `x`, with `n` elements along `axis`.

    Args:
        x: real or complex numbers; integers and small floats become float32.
        n: the length of the transforms; `x` is cut or filled up with zeros. Default None: all.
        axis: the axis of the signals. Default -1, the last one.
        norm: "backward" (default), "ortho" or "forward"; see the module.

    Raises:
        ShapeError: `n` is 0, or `axis` (an AxisError) does not exist.
        DTypeError: `x` is bool.
        ArgumentError: `norm` is unknown.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.fft(fw.tensor([1.0, 0.0, 0.0]))
        tensor([1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _along("fft", fft_op, _floating("fft", x), _length("fft", n), (axis,), norm)


def ifft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`: complex, the shape of `x`, with `n` elements along `axis`.

    Arguments and errors are those of `fft`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.ifft(fw.tensor([4.0, 0.0, 0.0, 0.0]))
        tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _along("ifft", ifft_op, _floating("ifft", x), _length("ifft", n), (axis,), norm)


def fftn(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
         norm: str | None = None) -> Tensor:
    """Complex transforms of `x` along several axes: the shape of `x`, with sizes `s` along `axes`.

    Args:
        x: real or complex numbers; integers and small floats become float32.
        s: the lengths along `axes`; `x` is cut or filled up with zeros, -1 stands for all.
            Default None: all.
        axes: the axes, each once. Default None: all, or as many last ones as `s` has lengths.
        norm: "backward" (default), "ortho" or "forward"; see the module.

    Raises:
        ShapeError: `s` and `axes` differ in length, an axis is named twice, or a length is 0.
        DTypeError: `x` is bool.
        ArgumentError: `norm` is unknown.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.fftn(fw.ones(2, 2))
        tensor([[4.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _along("fftn", fft_op, _floating("fftn", x), s, axes, norm)


def ifftn(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Tensor:
    """The inverse of `fftn`: complex, the shape of `x`, with sizes `s` along `axes`.

    Arguments and errors are those of `fftn`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.ifftn(fw.fft.fftn(fw.ones(1, 2)))
        tensor([[1.+0.j, 1.+0.j]])
    """
    return _along("ifftn", ifft_op, _floating("ifftn", x), s, axes, norm)


# ---- transforms of real numbers: half of the spectrum, the other half is its mirror image

@names_itself
def rfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 elements of `fft` along `axis`, of real numbers.

    Args:
        x: real numbers.
        n, axis, norm: as for `fft`.

    Raises:
        DTypeError: `x` is bool or complex.
        ShapeError, ArgumentError: as `fft`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.rfft(fw.ones(4))
        tensor([4.+0.j, 0.+0.j, 0.+0.j])
    """
    return rfftn(x, _length("rfft", n), (axis,), norm)


@names_itself
def irfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: `n` real numbers along `axis`. Errors are those of `fft`.

    Args:
        x: half spectra, real or complex.
        n: the length of the result. Default None: 2 * (size - 1), which is even.
        axis, norm: as for `fft`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.irfft(fw.fft.rfft(fw.ones(3)), n=3)
        tensor([1., 1., 1.])
    """
    return irfftn(x, _length("irfft", n), (axis,), norm)


@names_itself
def rfftn(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Tensor:
    """`fftn` of real numbers, with the first n // 2 + 1 elements along the last of `axes`.

    Args:
        x: real numbers.
        s, axes, norm: as for `fftn`.

    Raises:
        DTypeError: `x` is bool or complex.
        ShapeError, ArgumentError: as `fftn`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.rfftn(fw.ones(2, 4)).shape
        (2, 3)
    """
    x, norm = _floating("rfft", x, "f"), _norm("rfft", norm)
    found, sizes = _axes("rfft", x, s, axes)
    for axis, n in zip(found, sizes):
        x = _resized(x, axis, _size("rfft", n, x.shape[axis]))
    out = apply(rfft_op, (x,), {"axis": found[-1], "norm": norm})
    return out if len(found) == 1 else \
        apply(fft_op, (out,), {"axes": tuple(found[:-1]), "norm": norm})


@names_itself
def irfftn(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
           norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`: real numbers, sizes `s` along `axes`. Errors are those of `fftn`.

    Args:
        x: half spectra, real or complex.
        s: the sizes of the result along `axes`. Default None: those of `x`, but 2 * (size - 1)
            along the last of `axes`.
        axes, norm: as for `fftn`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.irfftn(fw.fft.rfftn(fw.ones(1, 2)))
        tensor([[1., 1.]])
    """
    x, norm = _floating("irfft", x, "c"), _norm("irfft", norm)
    found, sizes = _axes("irfft", x, s, axes)
    last = found[-1]
    n = _size("irfft", sizes[-1], 2 * (x.shape[last] - 1))
    if len(found) > 1:
        x = _along("irfft", ifft_op, x, [-1 if m is None else m for m in sizes[:-1]], found[:-1],
                   norm)
    return _irfft(_resized(x, last, n // 2 + 1), n, last, norm)


@names_itself
def hfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Transforms of signals with x[-j] = conj(x[j]): `n` real numbers. Errors are those of `fft`.

    Args:
        x: the first half of each signal, real or complex.
        n: the length of the result. Default None: 2 * (size - 1), which is even.
        axis, norm: as for `fft`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.hfft(fw.tensor([1.0, 1j]))
        tensor([1., 1.])
    """
    return irfft(conj(_floating("hfft", x, "c")), n, axis, _OTHER[_norm("hfft", norm)])


@names_itself
def ihfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: n // 2 + 1 complex numbers along `axis`, of `n` real numbers.

    Arguments and errors are those of `rfft`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.ihfft(fw.ones(4)).shape
        (3,)
    """
    return conj(rfft(_floating("ihfft", x, "f"), n, axis, _OTHER[_norm("ihfft", norm)]))


# ---- two axes at once

_LAST_TWO = (-2, -1)


@names_itself
def fft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO,
         norm: str | None = None) -> Tensor:
    """`fftn` with the last two axes as the default of `axes`. Arguments and errors are its own.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.fft2(fw.ones(5, 2, 3)).shape
        (5, 2, 3)
    """
    return fftn(x, s, axes, norm)


@names_itself
def ifft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO,
          norm: str | None = None) -> Tensor:
    """`ifftn` with the last two axes as the default of `axes`. Arguments and errors are its own.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.ifft2(fw.ones(5, 2, 3)).shape
        (5, 2, 3)
    """
    return ifftn(x, s, axes, norm)


@names_itself
def rfft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO,
          norm: str | None = None) -> Tensor:
    """`rfftn` with the last two axes as the default of `axes`. Arguments and errors are its own.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.rfft2(fw.ones(5, 2, 3)).shape
        (5, 2, 2)
    """
    return rfftn(x, s, axes, norm)


@names_itself
def irfft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO,
           norm: str | None = None) -> Tensor:
    """`irfftn` with the last two axes as the default of `axes`. Arguments and errors are its own.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.irfft2(fw.ones(5, 2, 3)).shape
        (5, 2, 4)
    """
    return irfftn(x, s, axes, norm)


# ---- frequencies, and their order

def fftfreq(n: int, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequency of each element of `fft`, in cycles per unit of `d`: (n,).

    Args:
        n: the length of the transform, at least 1.
        d: the distance between samples. Default 1.
        dtype, device: those of the result. Default None: float32, and the current device.

    Raises:
        ShapeError: `n` is below 1.
        DTypeError: `dtype` holds no fractions.
        ArgumentError: `d` is 0.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.fftfreq(4)
        tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    place = iota((_size("fftfreq", n, None),), 0, device=device)
    place = pointwise.where(place < (n + 1) // 2, place, place - n)
    return _frequencies("fftfreq", place, n, d, dtype)


def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequency of each element of `rfft`, in cycles per unit of `d`: (n // 2 + 1,).

    Arguments and errors are those of `fftfreq`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.rfftfreq(4)
        tensor([0.  , 0.25, 0.5 ])
    """
    place = iota((_size("rfftfreq", n, None) // 2 + 1,), 0, device=device)
    return _frequencies("rfftfreq", place, n, d, dtype)


def _frequencies(name: str, place: Tensor, n: int, d: float, dtype: Any) -> Tensor:
    chosen = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    if dtypes.kind(chosen) not in "fc":
        raise DTypeError(f"{name}: frequencies are fractions, which {chosen.name} does not hold",
                         "use a floating point dtype")
    if check_number(name, "d", d) == 0:
        raise ArgumentError(f"{name}: d must not be 0: frequencies are divided by it")
    return pointwise.cast(pointwise.cast(place, dtypes.float64) / (n * d), chosen)
