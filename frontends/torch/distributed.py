"""Processes that train together, which fusewire does not have: there is one process."""

from __future__ import annotations

from typing import Any, NoReturn

from ...eager.errors import ArgumentError


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def get_rank(group: Any = None) -> int:
    """0."""
    return 0


def get_world_size(group: Any = None) -> int:
    """1."""
    return 1


def barrier(*args: Any, **kwargs: Any) -> None:
    """No effect."""


def destroy_process_group(group: Any = None) -> None:
    """No effect."""


def init_process_group(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises an ArgumentError."""
    raise ArgumentError("fusewire trains in one process, which uses all cores",
                        "leave init_process_group and DistributedDataParallel out")
