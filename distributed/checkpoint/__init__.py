"""Checkpoints of models that ranks share, for any number of ranks and any scheme."""

from .loading import load
from .saving import save

__all__ = ["load", "save"]
