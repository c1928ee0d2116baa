"""Powers by constants that products, quotients and roots compute in a tenth of the time of `pow`.

Their results have at most three roundings more than `pow` has. No intermediate result is too small
or too large unless the result is, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...arrays import dtypes

__all__: list[str] = []


def _fourth(x: Any) -> Any:
    square = x * x
    return square * square


def _except_at_minus_inf(at_minus_inf: float, power: Callable[[Any, Any], Any]
                      ) -> Callable[[Any, Any], Any]:
    """A function of (k, x) by a root, which is nan at -inf where `pow` is not."""
    return lambda k, x: k.where(x == -math.inf, at_minus_inf, power(k, x))


_PRODUCTS: dict[float, Callable[[Any, Any], Any]] = {
    1: lambda k, x: x * 1, 2: lambda k, x: x * x, 3: lambda k, x: x * x * x,
    4: lambda k, x: _fourth(x), 5: lambda k, x: _fourth(x) * x,
    -1: lambda k, x: 1 / x, -2: lambda k, x: (1 / x) * (1 / x), -3: lambda k, x: 1 / x / (x * x),
    0.5: lambda k, x: k.sqrt(x), -0.5: lambda k, x: 1 / k.sqrt(x),
    1.5: _except_at_minus_inf(math.inf, lambda k, x: x * k.sqrt(x)),
    2.5: _except_at_minus_inf(math.inf, lambda k, x: k.abs(x * x * k.sqrt(x))),
    3.5: _except_at_minus_inf(math.inf, lambda k, x: x * x * x * k.sqrt(x)),
    -1.5: _except_at_minus_inf(0.0, lambda k, x: 1 / k.sqrt(x) / x),
    -2.5: _except_at_minus_inf(0.0, lambda k, x: k.abs(1 / k.sqrt(x) / (x * x)))}


def power_by_products(dtype: Any, y: Any) -> Callable[[Any, Any], Any] | None:
    """The function from (k, x) to x ** y for a constant y that needs no `pow`; else None."""
    exponent: Any = y if type(y) in (int, float) else getattr(y, "number", None)
    kind = dtypes.kind(dtype)
    if exponent in (1, 2):
        return _PRODUCTS[exponent] if kind in "fiu" else None
    return _PRODUCTS.get(exponent) if kind == "f" and not dtypes.is_small(dtype) else None
