"""Keeps locks and state consistent in forked processes, which start with one thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

alone = True  # True if this process may use all processors; workers of a loader share them


def held_while_forking(lock: Any) -> Any:
    """`lock`, which a fork acquires first, so that its state is consistent in the child.

    Register nested locks in the order opposite to that of acquisition: the lock of a module after
    those of the modules that it calls.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release,
                            after_in_child=lock.release)
    return lock


def around_forks(before: Callable[[], Any], in_parent: Callable[[], Any],
                 in_child: Callable[[], Any]) -> None:
    """Registers a function to run before every fork, and functions to run after it.

    `before` runs first if it is registered last, `in_child` runs last then.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


def in_child(function: Callable[[], Any]) -> None:
    """Registers `function()` to run first in every forked process."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
