"""Saves and loads files of PyTorch: `.pt` files of tensors, numbers and containers."""

from __future__ import annotations

from .reader import load
from .writer import save

__all__ = ["load", "save"]
