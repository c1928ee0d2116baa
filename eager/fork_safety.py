"""Forked processes: they have one thread, and whatever other threads were in the middle of."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

alone = True  # whether this process may use all processors; a loader's workers share them


def held_while_forking(lock: Any) -> Any:
    """`lock`; while a process forks nobody else is inside, so what it guards is whole in the child.

    Locks held at the same time are registered in the order opposite to that in which they are
    taken: a module's after those of the modules that it calls.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release,
                            after_in_child=lock.release)
    return lock


def in_child(function: Callable[[], Any]) -> None:
    """Has `function()` called in every forked process, first thing."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
