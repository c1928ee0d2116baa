"""Helpers for gradients, parameters and sequences."""

from __future__ import annotations

from .....eager.nn import utils as _plain
from .....eager.nn.utils import parametrizations, parametrize
from ...base.exports import exported as _exported
from . import rnn

globals().update(_exported(_plain))
globals().update(rnn=rnn, parametrizations=parametrizations, parametrize=parametrize)
