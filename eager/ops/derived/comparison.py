"""Compares numbers within tolerances, and tells infinities by sign and real numbers by value."""

from __future__ import annotations

from typing import Any

from ...arguments import check_at_least
from ...arrays import dtypes
from ...arrays.shapes import broadcast
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError
from ..create import full
from ..declare import prepare
from ..elementwise.complex import imag
from ..elementwise.pointwise import (
    abs,
    cast,
    equal,
    greater,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_or,
    maximum,
    minimum,
    where,
)
from ..reduction import reduce

__all__ = ["allclose", "isclose", "isneginf", "isposinf", "isreal"]

_EXACT_INTEGERS = 2.0 ** 53  # up to which float64 holds each integer


def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
            ) -> Tensor:
    """True where |x - y| <= atol + rtol * |y|; an infinity is close to itself only.

    Args:
        x, y: tensors or numbers; shapes broadcast.
        rtol: tolerance as a share of |y|. Default 1e-5.
        atol: tolerance added to that. Default 1e-8.
        equal_nan: True makes nan close to nan. Default False.

    Raises:
        ArgumentError: a tolerance is negative or nan.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.isclose(fw.tensor([1.0, 2.0]), fw.tensor([1.000001, 2.1]))
        tensor([ True, False])
    """
    return _close("isclose", x, y, rtol, atol, equal_nan)


def allclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
             ) -> Tensor:
    """True if all elements are close, as a 0-d tensor of bool.

    The parameters are those of `isclose`.

    Example:
        >>> import fusewire as fw
        >>> fw.allclose(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 2.0 + 1e-6]))
        tensor(True)
    """
    return reduce.all(_close("allclose", x, y, rtol, atol, equal_nan))


def _close(name: str, x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    check_at_least(name, "rtol", rtol, 0)
    check_at_least(name, "atol", atol, 0)
    x, y = operands(name, x, y, "any")
    difference, size, ends = _difference(x, y)
    near = logical_and(less_equal(difference, size * rtol + atol), ends)
    out = logical_or(equal(x, y), near)
    if equal_nan and dtypes.is_float(x.dtype):
        out = logical_or(out, logical_and(isnan(x), isnan(y)))
    return out


def operands(name: str, x: Any, y: Any, takes: str) -> tuple[Tensor, Tensor]:
    """`x` and `y` as tensors of the dtype to which they promote; `takes` is a key of TAKES."""
    x, y = prepare(name, (x, y), takes)
    like = x if isinstance(x, Tensor) else y
    first, second = (v if isinstance(v, Tensor) else full((), v, like.dtype, like.device)
                     for v in (x, y))
    broadcast(name, first.shape, second.shape)  # an error names the function of the user
    return first, second


def _difference(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Any]:
    """|x - y| and |y| in a float dtype, and True where both are finite."""
    if dtypes.is_float(x.dtype):
        x, y = reduce.widened(x), reduce.widened(y)
        ends = logical_and(isfinite(x), isfinite(y))
        return abs(where(ends, x - y, 0)), abs(y), ends
    x, y = (cast(v, dtypes.int64) if v.dtype == dtypes.bool else v for v in (x, y))
    wide = abs(cast(x, dtypes.float64) - cast(y, dtypes.float64))
    exact = cast(maximum(x, y) - minimum(x, y), dtypes.float64)  # wraps only where wide is large
    difference = where(less(wide, _EXACT_INTEGERS), exact, wide)
    return difference, abs(cast(y, dtypes.float64)), True


# ---- one operand
def isneginf(x: Tensor) -> Tensor:
    """True where `x` is -inf.

    Raises:
        DTypeError: `x` is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.isneginf(fw.tensor([-fw.inf, fw.inf, 1.0]))
        tensor([ True, False, False])
    """
    x = _ordered("isneginf", x)
    return logical_and(isinf(x), less(x, 0))


def isposinf(x: Tensor) -> Tensor:
    """True where `x` is inf.

    Raises:
        DTypeError: `x` is complex.

    Example:
        >>> import fusewire as fw
        >>> fw.isposinf(fw.tensor([-fw.inf, fw.inf, 1.0]))
        tensor([False,  True, False])
    """
    x = _ordered("isposinf", x)
    return logical_and(isinf(x), greater(x, 0))


def _ordered(name: str, x: Any) -> Tensor:
    x = as_tensor(name, x)
    if dtypes.kind(x.dtype) == "c":
        raise DTypeError(f"{name}: complex numbers have no sign, got {x.dtype.name}",
                         "ask for fw.real(x) or fw.imag(x)")
    return x


def isreal(x: Tensor) -> Tensor:
    """True where the imaginary part is 0; everywhere, if `x` is not complex.

    Example:
        >>> import fusewire as fw
        >>> fw.isreal(fw.tensor([1 + 0j, 2j]))
        tensor([ True, False])
    """
    x = as_tensor("isreal", x)
    if dtypes.kind(x.dtype) == "c":
        return equal(imag(x), 0)
    return full(x.shape, True, device=x.device)
