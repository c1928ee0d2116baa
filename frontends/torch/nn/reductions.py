"""The arguments `size_average` and `reduce`, by which old programs choose the reduction of a loss.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def with_old_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, a loss or the constructor of one, with the arguments that were before
    `reduction`."""
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "size_average" in kwargs or "reduce" in kwargs:
            average, reduce = kwargs.pop("size_average", None), kwargs.pop("reduce", None)
            if average is not None or reduce is not None:
                kwargs["reduction"] = "none" if reduce is False else \
                    "sum" if average is False else "mean"
        return function(*args, **kwargs)

    return call


def has_reduction(function: Any) -> bool:
    """True if a function takes a `reduction`."""
    return "reduction" in inspect.signature(function).parameters
