"""Sets the profile function of a thread.

Before Python 3.12, Python refuses it while another thread does the same: an audit hook that is
written in Python lets other threads run in the middle.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Any

from ...eager.fork_safety import held_while_forking

_LOCK = held_while_forking(threading.RLock())
_ATTEMPTS = 1000  # others may set theirs without the lock


def remove() -> None:
    """Removes the profile function of this thread."""
    _until(lambda: sys.setprofile(None), lambda: sys.getprofile() is None)


def install(set_function: Callable[..., Any], *args: Any) -> bool:
    """Calls set_function(*args), which sets the profile function. False if Python refuses it."""
    return _until(lambda: set_function(*args), lambda: sys.getprofile() is not None)


def _until(change: Callable[[], Any], is_done: Callable[[], bool]) -> bool:
    for _ in range(_ATTEMPTS):
        with _LOCK, contextlib.suppress(RuntimeError):
            change()
        if is_done():
            return True
    return False
