"""Schedules of learning rates."""

from __future__ import annotations

from ....eager.optim import lr_scheduler as _plain
from ..base.exports import exported as _exported

globals().update(_exported(_plain))
_LRScheduler = _plain.LRScheduler
