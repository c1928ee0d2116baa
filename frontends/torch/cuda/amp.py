"""Mixed precision, under its old name."""

from __future__ import annotations

from typing import Any

from ....eager import amp as _amp


def GradScaler(*args: Any, **kwargs: Any) -> Any:
    """A scaler of gradients for a GPU."""
    return _amp.GradScaler("cuda", *args, **kwargs)


def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> Any:
    """A context in which operations on a GPU run in 16 bits."""
    return _amp.autocast("cuda", dtype=dtype, enabled=enabled)
