"""Saves compiled functions to files and loads them: `save` of a compiled function, and
`fw.load_compiled`."""

from .loaded import Loaded, load_compiled

__all__ = ["Loaded", "load_compiled"]
