"""Defines the sizes of lowered code: an int, or a `Dim` whose named sizes have bounds.

A bounded size compares by its bounds alone. A comparison that they leave open raises CodegenError:
code for any size must not depend on it. Choices of loops ask for the `upper_bound` instead, so that
they are the same for all sizes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from ...capture.sizes.size_expr import SizeExpr, divide_terms, symbol
from ...capture.sizes.symbolic_dim import Dim, decided, size_expr_of
from ...eager.errors import CodegenError

Size = int  # or a Dim, which behaves as an int


class BoundedSizes:
    """The environment of bounded sizes (compare `ShapeEnv`): it holds no sizes and no conditions.
    """

    live, number, is_loop_test = False, None, None

    def make(self, expr: SizeExpr) -> Size:
        """The size with this expression: an int if the expression is constant."""
        number = expr.number
        return Dim(expr, self) if number is None else number  # type: ignore[arg-type, return-value]

    def decide(self, relation: str, expr: SizeExpr) -> bool:
        """True if `expr` is 0 ("eq") or negative ("lt") for all sizes. Raises CodegenError where
        the order depends on the sizes; different expressions are different sizes."""
        answer = decided(relation, expr)
        if answer is None and relation == "lt":
            raise CodegenError(f"code for any size cannot tell if {expr} is negative")
        return bool(answer)

    def is_measured(self, expr: SizeExpr) -> bool:
        """False: data-dependent sizes have bounds like any others."""
        return False

    def leak(self, dim: Dim, how: str) -> NoReturn:
        """Raises CodegenError: the size is no plain number."""
        raise CodegenError(f"{how} needs a number, where {dim.expr} is known at run time only")


_SIZES = BoundedSizes()


def bounded_size(name: str, least: int, most: int) -> Size:
    """The size called `name`, between these bounds."""
    return _SIZES.make(symbol(name, least, most))


def rebound(size: Any, named: Mapping[str, Size]) -> Any:
    """A symbolic size with these sizes in the place of those that it names; other values as they
    are, in tuples too."""
    if type(size) is Dim:
        return _SIZES.make(size.expr.substituted({k: size_expr_of(n) for k, n in named.items()}))
    return tuple(rebound(n, named) for n in size) if type(size) is tuple else size


def size_of(expr: SizeExpr) -> Size:
    """The size with this expression."""
    return _SIZES.make(expr)


def has_dynamic_sizes(shapes: Iterable[Sequence[Size]]) -> bool:
    """True if one of these shapes has a size that is known at run time only."""
    return any(map(is_dynamic, itertools.chain(*shapes)))


def is_dynamic(size: Any) -> bool:
    """True if a size is known at run time only. Loops must then be right for any size."""
    return type(size) is Dim


def upper_bound(size: Size) -> int:
    """The largest value of a size. Choices based on it are the same for all sizes."""
    if not is_dynamic(size):
        return size
    high = size_expr_of(size).high()
    if high is None:
        raise CodegenError(f"the size {size} has no upper bound")
    return high


def lower_bound(size: Size) -> int:
    """The least value of a size."""
    if not is_dynamic(size):
        return size
    low = size_expr_of(size).low()
    if low is None:
        raise CodegenError(f"the size {size} has no lower bound")
    return low


def is_at_least(size: Size, least: Size) -> bool:
    """True if a size is at least another one for all sizes; False also where the bounds do not
    tell."""
    if not is_dynamic(size) and not is_dynamic(least):
        return size >= least
    return _least_difference(size_expr_of(size), size_expr_of(least)) >= 0


@functools.lru_cache(maxsize=1 << 16)
def _least_difference(a: SizeExpr, b: SizeExpr) -> int:
    return lower_bound(_SIZES.make(a - b))


def is_multiple(size: Size, of: int) -> bool:
    """True if a size is a multiple of a number for all sizes."""
    return all(c % of == 0 for _, c in size_expr_of(size).terms)


def largest(a: Size, b: Size) -> Size:
    """The larger of two sizes, or an upper bound of both where the order depends on the sizes."""
    if is_at_least(a, b):
        return a
    return b if is_at_least(b, a) else max(upper_bound(a), upper_bound(b))


def least(a: Size, b: Size) -> Size:
    """The smaller of two sizes, or a lower bound of both where the order depends on the sizes."""
    if is_at_least(b, a):
        return a
    return b if is_at_least(a, b) else min(lower_bound(a), lower_bound(b))


def split(size: Size, by: Size) -> tuple[Size, Size]:
    """(whole, rest) with size == whole * by + rest: floor division for ints, else division of the
    terms, whose rest has no bounds."""
    if not is_dynamic(size) and not is_dynamic(by):
        return divmod(size, by)
    whole, rest = divide_terms(size_expr_of(size), size_expr_of(by))
    return _SIZES.make(whole), _SIZES.make(rest)


def ceil_div(size: Size, by: Size) -> Size:
    """size / by, rounded up."""
    whole, rest = split(size, by)
    return whole + (rest + by - 1) // by if rest != 0 else whole

