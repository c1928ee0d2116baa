"""The `inplace` argument of functions, and their forms with an underscore."""

from __future__ import annotations

from ...core.dispatch import replace
from ...core.tensor import Tensor
from ...errors import DTypeError

__all__: list[str] = []


def placed(name: str, input: Tensor, out: Tensor, inplace: bool = True) -> Tensor:
    """`out`; with `inplace` as the value of `input`, which is given back."""
    if not inplace:
        return out
    if out.dtype != input.dtype:
        raise DTypeError(f"{name}: the result is {out.dtype.name}, which does not fit back into "
                         f"the input, {input.dtype.name}", "leave out inplace")
    return replace(input, out)
