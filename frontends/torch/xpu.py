"""Intel's GPUs, which fusewire does not use."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False


def manual_seed(seed: int) -> None:
    """No effect."""


def empty_cache() -> None:
    """No effect."""


def device_count() -> int:
    """0."""
    return 0
