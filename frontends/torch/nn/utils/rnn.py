"""Sequences of different lengths."""

from __future__ import annotations

from .....eager.nn.utils import rnn as _plain
from ...base.exports import exported as _exported

globals().update(_exported(_plain))
