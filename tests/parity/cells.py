"""What the pages of comparisons are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def attempt(compare: Callable[[Any], float | None], row: Any) -> float | str | None:
    """The largest difference, what is wrong, or None where there is nothing to compare."""
    try:
        return compare(row)
    except Exception as error:  # whatever is wrong with one, the others are still told
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def cell(results: list[float | str | None]) -> str:
    """One cell, of all entries of a name."""
    if any(isinstance(r, str) for r in results):
        return "**differs**"
    numbers = [r for r in results if isinstance(r, float)]
    return "–" if not numbers else f"{max(numbers):.0e}" if max(numbers) else "0"
