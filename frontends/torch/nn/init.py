"""Initial values of parameters."""

from __future__ import annotations

from ....eager.nn import init as _plain
from ..base.exports import exported as _exported

globals().update(_exported(_plain))
