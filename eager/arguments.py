"""Checks arguments that are plain Python values, for layers, optimizers and loaders."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import NAMES, ArgumentError, DTypeError, ShapeError

F = TypeVar("F", bound=Callable[..., Any])


def names_itself(function: F) -> F:
    """`function`; errors inside of it begin with its own name in place of that of an inner one."""
    NAMES[inspect.unwrap(function).__code__] = function.__name__
    return function


def whole(number: Any) -> Any:
    """`number` if it is a whole number, as a Python int if it is NumPy's; else None."""
    if type(number) is int:
        return number
    if isinstance(number, (bool, float)) or not hasattr(number, "__index__"):
        return None
    try:
        return number.__index__() if hasattr(number, "dtype") or issubclass(type(number), int) \
            else number
    except TypeError:
        return None


def check_whole(owner: str, name: str, value: Any, least: int | None = None) -> Any:
    """`value` as an int, or a symbolic size.

    Other numbers and those below `least` are an ArgumentError, other kinds a DTypeError.
    """
    number = value if type(value) is int else whole(value)
    if number is None:
        error = ArgumentError if isinstance(value, float) else DTypeError
        raise error(f"{owner}: {name} must be a whole number, got {_shown(value)}",
                    "use // for numbers that come from a division")
    if least is not None and not number >= least:
        raise ArgumentError(f"{owner}: {name} must be at least {least}, got {number!r}",
                            f"pass {least} or more")
    return number


def check_number(owner: str, name: str, value: Any, real: bool = True) -> Any:
    """`value`; a DTypeError if it is no number, an ArgumentError for several of them.

    Complex numbers are allowed where the number need not be `real`.
    """
    if type(value) is float or type(value) is int or _is_number(value, real):
        return value
    several = hasattr(value, "shape") and not (real and value.dtype.kind == "c")
    raise (ArgumentError if several else DTypeError)(
        f"{owner}: {name} must be a {'real ' if real else ''}number, got {_shown(value)}",
        "pass one element, as in x[0]" if several else "pass an int or a float")


def _is_number(value: Any, real: bool) -> bool:
    """True for a number of Python, NumPy or a trace, and for a tensor of one."""
    if hasattr(value, "dtype") and hasattr(value, "size"):
        return bool(value.size == 1 and not (real and value.dtype.kind == "c"))
    return hasattr(value, "__float__") or hasattr(value, "__index__") or (
        isinstance(value, complex) and not real)


def _shown(value: Any) -> str:
    """`value` in a message: a tensor by its type, anything else by the start of its repr."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"a tensor {value.dtype.name}[{', '.join(map(str, value.shape))}]"
    return f"{value!r:.80}"


def check_at_least(owner: str, name: str, value: Any, least: Any) -> Any:
    """`value`; an ArgumentError if it is below `least` (nan counts as below)."""
    if not check_number(owner, name, value) >= least:
        raise ArgumentError(f"{owner}: {name} must be at least {least}, got {value!r}",
                            f"pass {least} or more")
    return value


def check_fraction(owner: str, name: str, value: Any, below_one: bool = False) -> Any:
    """`value`; an ArgumentError if it is outside of [0, 1], or of [0, 1) with `below_one`."""
    if type(value) is not float:
        check_number(owner, name, value)
    if not 0 <= value <= 1 or (below_one and value == 1):
        span = "0 <= value < 1" if below_one else "between 0 and 1"
        raise ArgumentError(f"{owner}: {name} must be {span}, got {value!r}",
                            "pass a share of 1, as in 0.1")
    return value


_PLAIN = (str, int, float, bool, type(None))  # types of choices; == of others may be no bool


def check_choice(owner: str, name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """`value`; an ArgumentError that lists the `choices` if it is none of them."""
    if not isinstance(value, _PLAIN) or value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ArgumentError(f"{owner}: {name} {value!r} is not known", f"{name} is one of {listed}")
    return value


def per_axis(owner: str, name: str, value: Any, count: int, least: int | None = None
             ) -> tuple[Any, ...]:
    """A tuple with a whole number for each of `count` axes, from one number or `count` of them.

    Any other length is a ShapeError, a number below `least` an ArgumentError.
    """
    if type(value) is int:
        return (check_whole(owner, name, value, least),) * count
    each = numbers_per_axis(owner, name, value, count)
    return tuple([check_whole(owner, name, number, least) for number in each])


def numbers_per_axis(owner: str, name: str, value: Any, count: int) -> tuple[Any, ...]:
    """`count` values of any kind, from one value or `count` of them, or a ShapeError."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) not in (1, count):
        raise ShapeError(f"{owner}: {name} must be a number or {count} of them, got {value!r}")
    return values * count if len(values) == 1 else values
