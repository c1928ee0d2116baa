"""Builds libraries that run without Python: `build` writes an object file and its C header."""

from .build import Built, build

__all__ = ["Built", "build"]
