"""Checkpoints of models that ranks share: they load on another number of ranks and in any scheme."""

from .loading import load
from .saving import save

__all__ = ["load", "save"]
