"""Settings of cuDNN, without effect."""

from __future__ import annotations

benchmark = False
deterministic = False
enabled = False
allow_tf32 = False


def is_available() -> bool:
    """False."""
    return False


def version() -> None:
    """None."""
