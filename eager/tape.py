"""The tape: what was computed from what, kept for the way back.

An `Entry` holds arrays, not tensors: arrays never change, so later in-place updates of a tensor
cannot falsify a gradient, and no reference cycle keeps memory alive.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .op import Op

__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]


class Entry:
    """One op that ran: inputs and output as arrays, and for each input the edge of its gradient."""

    __slots__ = ("arrays", "edges", "op", "out", "params")

    def __init__(
        self, op: Op, params: dict[str, Any], arrays: tuple[Any, ...], edges: tuple[Any, ...],
        out: Any,
    ) -> None:
        self.op = op
        self.params = params
        self.arrays = arrays
        self.edges = edges
        self.out = out


class Leaf:
    """The end of the way back: gradients are added to the tensor's `.grad`."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = weakref.ref(tensor)


class _Mode(threading.local):
    enabled = True


MODE = _Mode()


def is_grad_enabled() -> bool:
    """Whether ops on tensors that require gradients are noted on the tape, in this thread."""
    return MODE.enabled


class set_grad_enabled:
    """A context, also usable as a decorator, in which the tape is on or off."""

    __slots__ = ("before", "enabled")

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.before: list[bool] = []  # a stack, so that one object can be entered inside itself

    def __enter__(self) -> None:
        self.before.append(MODE.enabled)
        MODE.enabled = self.enabled

    def __exit__(self, *error: Any) -> None:
        MODE.enabled = self.before.pop()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(self.enabled):  # a fresh one: threads must not share a stack
                return fn(*args, **kwargs)

        return inside


def no_grad(fn: Callable[..., Any] | None = None) -> Any:
    """A context or decorator in which nothing is noted on the tape.

    >>> import fusewire as fw
    >>> weight = fw.ones(2).requires_grad_()
    >>> with fw.no_grad():
    ...     (weight * 2).requires_grad
    False
    """
    return _scope(False, fn)


def enable_grad(fn: Callable[..., Any] | None = None) -> Any:
    """A context or decorator in which the tape is on, inside of `no_grad` too."""
    return _scope(True, fn)


def _scope(enabled: bool, fn: Callable[..., Any] | None) -> Any:
    scope = set_grad_enabled(enabled)
    return scope if fn is None else scope(fn)  # @fw.no_grad works like @fw.no_grad()
