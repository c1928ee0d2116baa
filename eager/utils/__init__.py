"""Things around training: the loading of data, checkpoints."""

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
