"""Defines objects that stand in place of others while a call is traced."""

from __future__ import annotations

from typing import Any


class StandIn:
    """An object in place of another one, its `value`. None of them outlives the trace."""

    value: Any
