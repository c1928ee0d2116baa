"""States and seeds of random numbers."""

from __future__ import annotations

from ...eager.namespaces import random as _plain
from .base.exports import exported as _exported

globals().update(_exported(_plain))
