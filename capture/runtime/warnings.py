"""Warns when a compiled function falls back to eager execution."""

from __future__ import annotations

import sys
import warnings
from typing import Any, cast

from ...eager.errors import is_our_file


class CaptureWarning(UserWarning):
    """Warns that a compiled function or its backward runs eagerly, with the reason."""


def warn(message: str) -> None:
    """Issues a warning at the calling line of the user's code."""
    level, frame = 1, cast(Any, sys._getframe())
    while frame.f_back is not None and is_our_file(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, CaptureWarning, stacklevel=level)
