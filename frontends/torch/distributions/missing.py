"""The error for distributions that there are not."""

from __future__ import annotations

from ..base.missing import getattr_of

__getattr__ = getattr_of(__name__.rpartition(".")[0])
