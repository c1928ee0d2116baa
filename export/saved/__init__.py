"""Saves compiled functions to files and loads them: `save` of a compiled function, and
`fw.load_compiled`."""

from .loaded import LoadedFunction, load_compiled

__all__ = ["LoadedFunction", "load_compiled"]
