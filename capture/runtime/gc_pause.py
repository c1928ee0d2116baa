"""Pauses Python's garbage collector while graphs are built.

Graphs are many small objects without cycles. The collector would look through all of them again and
again while they grow in number, and find nothing: up to half of the time.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_NEVER = 1 << 30  # collections of younger objects after which older ones are looked through


@contextlib.contextmanager
def not_collecting() -> Iterator[None]:
    """A context without garbage collection; afterwards it is on if it was."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """A context in which only young objects are looked through: for graphs that are made while
    other threads go on, whose garbage is mostly young."""
    before = gc.get_threshold()
    ours = (*before[:2], _NEVER)
    gc.set_threshold(*ours)
    try:
        yield
    finally:
        if gc.get_threshold() == ours:
            gc.set_threshold(*before)
