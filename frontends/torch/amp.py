"""Mixed precision."""

from __future__ import annotations

from ...eager import amp as _plain
from .base.exports import exported as _exported

globals().update(_exported(_plain))
