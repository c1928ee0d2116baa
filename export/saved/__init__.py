"""Compiled functions in files: `save` of what `fw.compile` gives, and `fw.load_compiled`."""

from .loaded import LoadedFunction, load_compiled

__all__ = ["LoadedFunction", "load_compiled"]
