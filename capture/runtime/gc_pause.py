"""Pauses Python's garbage collector while functions are traced and graphs are built.

Graphs consist of many small objects without cycles. The collector would scan all of them again and
again as their number grows, and would free nothing. This takes up to half of the compile time. A
trace finds the iterators of its loops among the young objects.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_YOUNG_COLLECTIONS = 1 << 30  # collections of younger objects before the older ones are scanned


@contextlib.contextmanager
def not_collecting() -> Iterator[None]:
    """A context without garbage collection. Its end restores the earlier setting."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """A context in which the collector scans only young objects.

    It serves a background thread that builds graphs. The garbage of the other threads is mostly
    young.
    """
    before = gc.get_threshold()
    raised = (*before[:2], _YOUNG_COLLECTIONS)
    gc.set_threshold(*raised)
    try:
        yield
    finally:
        if gc.get_threshold() == raised:
            gc.set_threshold(*before)
