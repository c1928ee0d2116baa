"""Computes discrete Fourier transforms along one axis or several.

    fft(x)[k] = sum over j of x[j] * exp(-2 pi i j k / n)

The factor 1 / n is on the inverse (`norm` "backward") or on the transform ("forward"), or
1 / sqrt(n) on both ("ortho"). float32 gives complex64, float64 complex128; smaller floats and
integers are computed in float32. All transforms are linear; the gradient of each is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import dtypes
from ..arrays.shapes import TensorType, axes_of, axis_of, whole
from ..core.dispatch import apply
from ..core.op import Op, define, each
from ..core.tensor import Tensor, as_tensor
from ..errors import ArgumentError, DTypeError, ShapeError
from ..ops.batching import shifted
from ..ops.create import iota
from ..ops.elementwise import pointwise
from ..ops.elementwise.complex import conj, real
from ..ops.shape.rearrange import roll
from ..ops.shape.view import slice_axes, unslice

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]

_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}  # of the gradient
_WHY = {"meaning": "every element depends on all others along an axis, by a fast algorithm",
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
    out = apply(op, (g,), {"axes": axes, "norm": _OTHER[norm]})
    return out if x.dtype.kind == "c" else real(out)


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
    """Half the gradient for elements that irfft counts twice."""
    n = x.shape[axis]
    return _irfft(_weighted(g, axis, n, 0.5), n, axis, _OTHER[norm])


def _irfft_vjp(g: Tensor, out: Tensor, x: Tensor, axis: int, n: int, norm: str) -> Tensor:
    spectrum = apply(rfft_op, (g,), {"axis": axis, "norm": _OTHER[norm]})
    return _weighted(spectrum, axis, n, 2.0)


def _weighted(x: Tensor, axis: int, n: int, weight: float) -> Tensor:
    """Half a spectrum of `n` elements times `weight`.

    The first element and, if `n` is even, the last have no mirror image and stay as they are.
    """
    shape = tuple(s if a == axis else 1 for a, s in enumerate(x.shape))
    position = iota(shape, axis, device=x.device)
    alone = pointwise.equal(position * 2 % n, 0)
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
    """`x` in a precision that NumPy transforms: real, or complex if `kinds` has "c"."""
    x = as_tensor(name, x)
    kind = dtypes.kind(x.dtype)
    if kind == "c" and kind not in kinds:
        raise DTypeError(f"{name}: takes real numbers, not {x.dtype.name}",
                         "fw.fft.fft and fw.fft.ifft take complex ones")
    if kind == "b":
        raise DTypeError(f"{name}: takes numbers, not bool", "cast first: x.astype(fw.float32)")
    wide = dtypes.complex_of(x.dtype)
    return pointwise.cast(x, wide if kind == "c" or "f" not in kinds else dtypes.real_of(wide))


def _norm(name: str, norm: str | None) -> str:
    norm = norm or "backward"
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


def _resized(x: Tensor, axis: int, n: Any) -> Tensor:
    """`x` cut, or padded with zeros, to `n` elements along `axis`."""
    have = x.shape[axis]
    if have == n:
        return x
    shape = tuple(n if a == axis else s for a, s in enumerate(x.shape))
    zeros, ones = (0,) * x.ndim, (1,) * x.ndim
    return slice_axes(x, zeros, ones, shape) if n < have else unslice(x, shape, zeros, ones)


def _axes(name: str, x: Tensor, s: Any, axes: Any) -> tuple[list[int], list[Any]]:
    """The axes to transform, and the number of elements along each; None for its size."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    numbers = [axis_of(name, a, x.ndim) for a in axes]
    sizes = [None] * len(numbers) if s is None else [None if n == -1 else n for n in s]
    if len(sizes) != len(numbers) or len(set(numbers)) != len(numbers) or not numbers:
        raise ShapeError(f"{name}: sizes {s!r} and axes {tuple(axes)} for shape {x.shape}",
                         "name at least one axis, each once, and a size for each or none")
    return numbers, sizes


def _along(name: str, op: Op, x: Tensor, s: Any, axes: Any, norm: str | None) -> Tensor:
    """A complex transform along `axes`."""
    numbers, sizes = _axes(name, x, s, axes)
    for axis, n in zip(numbers, sizes):
        x = _resized(x, axis, _size(name, n, x.shape[axis]))
    return apply(op, (x,), {"axes": tuple(numbers), "norm": _norm(name, norm)})


# ---- complex transforms

def fft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The transforms along `axis`.

    Args:
        x: tensor, real or complex.
        n: elements to transform; `x` is cut or padded with zeros to `n`. Default: its size.
        axis: default the last one.
        norm: "backward" (default), "ortho" or "forward": the factor 1 / n is on the inverse,
            1 / sqrt(n) on both, or on the transform.

    Returns:
        Complex tensor of the shape of `x`, with `n` elements along `axis`.

    Raises:
        DTypeError: `x` is bool.
        ShapeError: `n` is less than 1, or there is no such axis.
        ArgumentError: `norm` is another text.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.fft(fw.tensor([1.0, 0.0, 0.0]))
        tensor([1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _along("fft", fft_op, _floating("fft", x), None if n is None else (n,), (axis,), norm)


def ifft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse transforms along `axis`.

    Arguments and errors are those of `fft`.

    Returns:
        Complex tensor of the shape of `x`, with `n` elements along `axis`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.ifft(fw.tensor([1.0, 1.0]))
        tensor([1.+0.j, 0.+0.j])
    """
    return _along("ifft", ifft_op, _floating("ifft", x), None if n is None else (n,), (axis,), norm)


def fftn(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
         norm: str | None = None) -> Tensor:
    """The transforms along several axes.

    Args:
        x: tensor, real or complex.
        s: elements to transform along each of `axes`, -1 or None for its size. Default: all sizes.
        axes: default all, or the last len(s).
        norm: "backward" (default), "ortho" or "forward", as for `fft`.

    Returns:
        Complex tensor of the shape of `x`, with `s` elements along `axes`.

    Raises:
        DTypeError: `x` is bool.
        ShapeError: `axes` is empty or has an axis twice, or a size is less than 1.
        ArgumentError: `norm` is another text.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.fftn(fw.ones(2, 2))
        tensor([[4.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _along("fftn", fft_op, _floating("fftn", x), s, axes, norm)


def ifftn(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Tensor:
    """The inverse transforms along several axes.

    Arguments and errors are those of `fftn`.

    Returns:
        Complex tensor of the shape of `x`, with `s` elements along `axes`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.ifftn(fw.ones(2, 2))
        tensor([[1.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _along("ifftn", ifft_op, _floating("ifftn", x), s, axes, norm)


# ---- transforms of real numbers: half of the spectrum, as the other half mirrors it
def rfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The first half of the transforms of real numbers along `axis`.

    Arguments and errors are those of `fft`; `x` is real.

    Returns:
        Complex tensor of the shape of `x`, with n // 2 + 1 elements along `axis`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.rfft(fw.ones(4))
        tensor([4.+0.j, 0.+0.j, 0.+0.j])
    """
    return rfftn(x, None if n is None else (n,), (axis,), norm)


def irfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The real numbers along `axis` whose `rfft` is `x`.

    Args:
        x: tensor, half of a spectrum, as from `rfft`.
        n: elements of the result. Default: 2 * (size - 1), which is even.
        axis: default the last one.
        norm: "backward" (default), "ortho" or "forward": the factor 1 / n is on the inverse,
            1 / sqrt(n) on both, or on the transform.

    Returns:
        Real tensor of the shape of `x`, with `n` elements along `axis`.

    Raises:
        DTypeError: `x` is bool.
        ShapeError: `n` is less than 1, or there is no such axis.
        ArgumentError: `norm` is another text.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.irfft(fw.fft.rfft(fw.ones(3)), n=3)
        tensor([1., 1., 1.])
    """
    return irfftn(x, None if n is None else (n,), (axis,), norm)


def rfftn(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Tensor:
    """The transforms of real numbers along several axes, half of them along the last.

    Arguments and errors are those of `fftn`; `x` is real.

    Returns:
        Complex tensor with `s` elements along `axes`, n // 2 + 1 of the last n.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.rfftn(fw.ones(2, 4)).shape
        (2, 3)
    """
    x, norm = _floating("rfft", x, "f"), _norm("rfft", norm)
    numbers, sizes = _axes("rfft", x, s, axes)
    for axis, n in zip(numbers, sizes):
        x = _resized(x, axis, _size("rfft", n, x.shape[axis]))
    out = apply(rfft_op, (x,), {"axis": numbers[-1], "norm": norm})
    return out if len(numbers) == 1 else \
        apply(fft_op, (out,), {"axes": tuple(numbers[:-1]), "norm": norm})


def irfftn(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
           norm: str | None = None) -> Tensor:
    """The real numbers along several axes whose `rfftn` is `x`.

    Arguments and errors are those of `fftn`.

    Returns:
        Real tensor with `s` elements along `axes`; default along the last 2 * (size - 1).

    Example:
        >>> import fusewire as fw
        >>> fw.fft.irfftn(fw.fft.rfftn(fw.ones(2, 4))).shape
        (2, 4)
    """
    x, norm = _floating("irfft", x, "c"), _norm("irfft", norm)
    numbers, sizes = _axes("irfft", x, s, axes)
    last = numbers[-1]
    n = _size("irfft", sizes[-1], 2 * (x.shape[last] - 1))
    if len(numbers) > 1:
        x = _along("irfft", ifft_op, x, [-1 if m is None else m for m in sizes[:-1]], numbers[:-1],
                   norm)
    return _irfft(_resized(x, last, n // 2 + 1), n, last, norm)


def hfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The transforms along `axis` of signals with x[-j] = conj(x[j]), which are real.

    Arguments and errors are those of `irfft`; `x` is the first half of the signals.

    Returns:
        Real tensor of the shape of `x`, with `n` elements along `axis`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.hfft(fw.tensor([1.0, 1j]))
        tensor([1., 1.])
    """
    return irfft(conj(_floating("hfft", x, "c")), n, axis, _OTHER[_norm("hfft", norm)])


def ihfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The first half of the signals along `axis` whose `hfft` is `x`.

    Arguments and errors are those of `fft`; `x` is real.

    Returns:
        Complex tensor of the shape of `x`, with n // 2 + 1 elements along `axis`.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.ihfft(fw.ones(4))
        tensor([1.-0.j, 0.-0.j, 0.-0.j])
    """
    return conj(rfft(_floating("ihfft", x, "f"), n, axis, _OTHER[_norm("ihfft", norm)]))


# ---- two axes
_LAST_TWO = (-2, -1)


def fft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO,
         norm: str | None = None) -> Tensor:
    """`fftn` along two axes, by default the last two; same arguments."""
    return fftn(x, s, axes, norm)


def ifft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO,
          norm: str | None = None) -> Tensor:
    """`ifftn` along two axes, by default the last two; same arguments."""
    return ifftn(x, s, axes, norm)


def rfft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO,
          norm: str | None = None) -> Tensor:
    """`rfftn` along two axes, by default the last two; same arguments."""
    return rfftn(x, s, axes, norm)


def irfft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO,
           norm: str | None = None) -> Tensor:
    """`irfftn` along two axes, by default the last two; same arguments."""
    return irfftn(x, s, axes, norm)


# ---- frequencies
def fftfreq(n: int, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequency of each element of `fft`, in cycles per unit.

    Args:
        n: elements of the transform.
        d: distance of samples in units. Default 1.
        dtype: of the result. Default float32.
        device: of the result. Default the CPU.

    Returns:
        Tensor of (n,), from 0 up and then the negative frequencies.

    Raises:
        ShapeError: `n` is less than 1.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.fftfreq(4)
        tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    index = iota((_size("fftfreq", n, None),), 0, device=device)
    index = pointwise.where(index < (n + 1) // 2, index, index - n)
    return _frequencies(index, n, d, dtype)


def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequency of each element of `rfft`, in cycles per unit.

    Args:
        n: elements of the signal.
        d: distance of samples in units. Default 1.
        dtype: of the result. Default float32.
        device: of the result. Default the CPU.

    Returns:
        Tensor of (n // 2 + 1,), from 0 up.

    Raises:
        ShapeError: `n` is less than 1.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.rfftfreq(4)
        tensor([0.  , 0.25, 0.5 ])
    """
    index = iota((_size("rfftfreq", n, None) // 2 + 1,), 0, device=device)
    return _frequencies(index, n, d, dtype)


def _frequencies(index: Tensor, n: int, d: float, dtype: Any) -> Tensor:
    chosen = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)
    return pointwise.cast(pointwise.cast(index, dtypes.float64) / (n * d), chosen)


def fftshift(x: Tensor, axes: Any = None) -> Tensor:
    """`x` with the frequency 0 moved to the middle of `axes`.

    Args:
        x: tensor.
        axes: int or tuple; None for all.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.fftshift(fw.tensor([0, 1, 2, -2, -1]))
        tensor([-2, -1,  0,  1,  2])
    """
    return _rolled("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x: Tensor, axes: Any = None) -> Tensor:
    """`x` with the middle of `axes` moved to their start, the inverse of `fftshift`.

    Args:
        x: tensor.
        axes: int or tuple; None for all.

    Example:
        >>> import fusewire as fw
        >>> fw.fft.ifftshift(fw.tensor([-2, -1, 0, 1, 2]))
        tensor([ 0,  1,  2, -2, -1])
    """
    return _rolled("ifftshift", x, axes, lambda n: -(n // 2))


def _rolled(name: str, x: Tensor, axes: Any, by: Callable[[int], int]) -> Tensor:
    x = as_tensor(name, x)
    numbers = axes_of(name, axes, x.ndim)
    return roll(x, tuple(by(x.shape[a]) for a in numbers), numbers)
