"""Assigns local variables of running frames."""

from __future__ import annotations

import ctypes
import sys
from typing import Any


def set_local(frame: Any, name: str, value: Any) -> None:
    """Assigns a local variable of a running frame."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):  # where f_locals is a copy
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
