"""Writes debug output to stderr, at the level of FUSEWIRE_DEBUG and all lower levels.

    fusewire 1 recordings: step recompiles, guard failed: argument 1 == 2.0

The number is the lowest level that shows the line. Texts of several lines follow their heading
unchanged, so that they can be copied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ...eager.settings import DEBUG_LEVELS, settings

RECORDINGS, KERNELS, GRAPHS, SOURCES, PASSES = DEBUG_LEVELS
_TITLES = dict(zip(DEBUG_LEVELS, ("recordings", "kernels", "graphs", "sources", "passes")))


def show(level: int, what: str, text: Callable[[], str] | None = None) -> None:
    """Writes `what` and the lines of `text()` to stderr, if this level is enabled."""
    if settings.debug >= level:
        lines = [f"fusewire {level} {_TITLES[level]}: {what}"]
        lines += [text().rstrip("\n"), ""] if text is not None else []
        print("\n".join(lines), file=sys.stderr, flush=True)


def show_code(name: str, executable: Any) -> None:
    """Writes the kernels of a program with their times, and its code."""
    show(KERNELS, f"{name}, timed on synthetic values", executable.explain)
    show(SOURCES, name, lambda: executable.code)
