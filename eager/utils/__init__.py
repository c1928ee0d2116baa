"""Provides tools around training: data loading and checkpoints."""

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
