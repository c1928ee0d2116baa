"""Implements the `inplace` argument of functions, and their forms with an underscore."""

from __future__ import annotations

from ...core.dispatch import replace
from ...core.tensor import Tensor
from ...errors import DTypeError

__all__: list[str] = []


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
