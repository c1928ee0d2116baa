"""Prepares inputs and results of layer functions: samples, integers, and `inplace`."""

from __future__ import annotations

from ...arrays.dtypes import kind
from ...core.in_place import replace
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError
from ...ops.shape.view import expand_dims, reshape

__all__: list[str] = []


def with_samples(name: str, x: Tensor, d: int) -> Tensor:
    """`x` as (n, channels, *space), with n = 1 for (channels, *space); else a ShapeError.

    d: the number of axes of space.
    """
    if x.ndim not in (d + 1, d + 2):
        space = ", ".join(("depth", "height", "width")[3 - d:]) if d > 1 else "length"
        raise ShapeError(
            f"{name}: takes (n, channels, {space}) or (channels, {space}), got shape {x.shape}",
            "add an axis of channels: x[:, None]" if x.ndim == d else "")
    return x if x.ndim == d + 2 else expand_dims(x, 0)


def like_input(out: Tensor, input: Tensor) -> Tensor:
    """`out` without its axis of samples where `input` has one axis fewer."""
    return out if out.ndim == input.ndim else reshape(out, out.shape[1:])


def check_integers(name: str, what: str, x: Tensor) -> None:
    """Raises a DTypeError unless the tensor `x` holds integers; `what` names them."""
    if kind(x.dtype) not in "iu":
        raise DTypeError(f"{name}: {what} must be integers, not {x.dtype.name}",
                         "cast them: x.astype(fw.int64)")


def store_inplace(name: str, input: Tensor, out: Tensor, inplace: bool = True) -> Tensor:
    """`out`, or with `inplace` the tensor `input`, which then has the value of `out`.

    A leaf that requires a gradient raises a GradientError while the tape is on, and a view of a
    living tensor a ViewError.
    """
    if not inplace:
        return out
    if out.dtype != input.dtype:
        raise DTypeError(f"{name}: the result is {out.dtype.name}, which does not fit back into "
                         f"the input, {input.dtype.name}", "leave out inplace")
    return replace(input, out)
