"""Python's garbage collector set aside for as long as graphs are made.

Graphs are many small objects without cycles. The collector would look through all of them again and
again while they grow in number, and find nothing: up to half of the time.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


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
