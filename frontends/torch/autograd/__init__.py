"""Gradients, and functions with a backward of their own."""

from __future__ import annotations

from typing import Any

from ....eager import autograd as _plain
from ..base.exports import exported as _exported
from . import function, functional
from .function import Function
from .graph import Variable

globals().update(_exported(_plain), Function=Function)


def set_multithreading_enabled(mode: bool) -> None:
    """No effect: a backward runs in the thread that calls it."""
