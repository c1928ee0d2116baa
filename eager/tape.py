"""The tape: what was computed from what, kept for the way back.

An `Entry` holds arrays, not tensors: arrays never change, so later in-place updates of a tensor
cannot falsify a gradient, and no reference cycle keeps memory alive.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from .op import Op


class Entry:
    """One op that ran: inputs and output as arrays, and for each input the edge its gradient takes."""

    __slots__ = ("arrays", "edges", "op", "out", "params")

    def __init__(
        self, op: Op, params: dict[str, Any], arrays: tuple[Any, ...], edges: tuple[Any, ...], out: Any
    ) -> None:
        self.op, self.params, self.arrays, self.edges, self.out = op, params, arrays, edges, out


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


@contextlib.contextmanager
def set_grad_enabled(enabled: bool) -> Iterator[None]:
    """A context, also usable as a decorator, in which the tape is on or off."""
    before, MODE.enabled = MODE.enabled, enabled
    try:
        yield
    finally:
        MODE.enabled = before


def no_grad() -> contextlib.AbstractContextManager[None]:
    """A context or decorator in which nothing is noted on the tape."""
    return set_grad_enabled(False)


def enable_grad() -> contextlib.AbstractContextManager[None]:
    """A context or decorator in which the tape is on, inside of `no_grad` too."""
    return set_grad_enabled(True)
