"""Looks up the versions of installed packages. It is slow to import, so only reports import it."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterable


def version_of(distributions: Iterable[str]) -> str:
    """The version of the first of these distributions that is installed, or an empty text."""
    for name in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return ""
