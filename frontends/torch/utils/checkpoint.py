"""Recomputation of activations in the backward."""

from __future__ import annotations

from ....eager.utils import checkpoint as _plain
from ..base.exports import exported as _exported

globals().update(_exported(_plain))
