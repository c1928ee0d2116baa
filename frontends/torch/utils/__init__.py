"""Data loaders, checkpoints of activations, boards."""

from __future__ import annotations

from . import checkpoint, data
