"""Checks arguments that are plain Python values, for layers, optimizers and loaders."""

from __future__ import annotations

from typing import Any

from .errors import ArgumentError, ShapeError


def check_at_least(owner: str, name: str, value: Any, least: Any) -> Any:
    """`value`; an ArgumentError if it is below `least` (nan counts as below)."""
    if not value >= least:
        raise ArgumentError(f"{owner}: {name} must be at least {least}, got {value!r}")
    return value


def check_fraction(owner: str, name: str, value: Any, below_one: bool = False) -> Any:
    """`value`; an ArgumentError if it is outside of [0, 1], or of [0, 1) with `below_one`."""
    if not 0 <= value <= 1 or (below_one and value == 1):
        span = "0 <= value < 1" if below_one else "between 0 and 1"
        raise ArgumentError(f"{owner}: {name} must be {span}, got {value!r}")
    return value


def check_choice(owner: str, name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """`value`; an ArgumentError that lists the `choices` if it is none of them."""
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ArgumentError(f"{owner}: {name} {value!r} is not known", f"{name} is one of {listed}")
    return value


def per_axis(owner: str, name: str, value: Any, count: int) -> tuple[Any, ...]:
    """A tuple with a number for each of `count` axes, from one number or `count` of them.

    Any other length is a ShapeError.
    """
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) not in (1, count):
        raise ShapeError(f"{owner}: {name} must be a number or {count} of them, got {value!r}")
    return values * count if len(values) == 1 else values
