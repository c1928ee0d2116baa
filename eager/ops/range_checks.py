"""Checks indices and other values: eager at once, compiled code before and after it runs."""

from __future__ import annotations

from typing import Any

from ..arrays import devices
from ..core.dispatch import apply
from ..core.op import Op, define
from ..core.tensor import Tensor
from ..errors import IndexingError, ShapeError
from ..upper_layer import UPPER

_HELP = "\n  help: "  # in the text of a check that is no check of indices


def _impl(xp: Any, x: Any, size: int, what: str, low: int = 0) -> Any:
    require(x, size, what, low)
    return x.view()


def require(x: Any, size: int, what: str, low: int = 0) -> None:
    """Raises IndexingError unless every element of the array `x` is one of low ... size - 1; for
    the text of `check_none`, its ShapeError."""
    if not in_range(x, size, low):
        message, is_whole, help = what.partition(_HELP)
        if is_whole:
            raise ShapeError(message, help)
        least, most = devices.extremes(x)
        bad = int(least if least < low else most)
        raise IndexingError(f"{what} {bad} is out of range for size {size}",
                            f"the valid range is {low} to {size - 1}")


def in_range(x: Any, size: int, low: int = 0) -> bool:
    """True if every element of the array `x` is one of low ... size - 1."""
    if not x.size:
        return True
    if type(x) in devices.LOADED and UPPER.device_in_range is not None:
        found = UPPER.device_in_range(x, size, low)
        if found is not None:
            return found
    least, most = devices.extremes(x)
    return bool(least >= low and most < size)


check_index_op = define(Op(
    "check_index", "pointwise", lambda x, size, what, low=0: x, _impl,
    lambda k, x, size, what, low=0: x,
    why={"vjp": "integers have no gradient", "onnx": "a model does not check its inputs"}))


def check_index(x: Tensor, size: int, what: str, low: int = 0) -> Tensor:
    """`x` itself; IndexingError, which begins with `what`, for elements not in low ... size - 1."""
    lowest = {} if type(low) is int and low == 0 else {"low": low}
    return apply(check_index_op, (x,), {"size": size, "what": what, **lowest})


def check_none(violations: Tensor, message: str, help: str) -> Tensor:
    """Zeros of the shape of `violations`, an integer tensor; ShapeError unless all of them are 0.

    The result has to be used, since compiled code drops what nobody reads.
    """
    return check_index(violations, 1, message + _HELP + help)
